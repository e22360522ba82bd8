// SPDX-License-Identifier: Apache-2.0
#include <algorithm>

#include "tests/differential/program.h"

// What a program has of the library.

namespace reprise::differential {
namespace {

using Features = std::set<std::string>;

/// How deep an operation lies.
struct Depth {
  int children = 0;
  int control_flow = 0;
};

void add_in_body(const Operation& operation, const Depth& depth, const std::set<How>& changes, Features& found) {
  const auto add = [&](const std::string& what) {
    if (depth.children > 0) found.insert(what + " in children");
    if (depth.control_flow > 0) found.insert(what + " in control flow");
  };
  if (operation.kind == Kind::draw) add("random numbers");
  if (operation.kind == Kind::scratch) add("pool memory");
  if (operation.beside) add("forks");
  if (operation.programmatic) add("programmatic launches");
  for (const How how : changes) {
    const Varies changed = how == How::set_arg ? Varies::by_node
                           : how == How::set   ? Varies::by_parameter
                                               : Varies::never;
    if (changed != Varies::never && operation.varies == changed) add(name(how));
  }
  if (operation.kind == Kind::child && depth.control_flow > 0) found.insert("children in control flow");
}

void add_control_flow(const Operation& operation, const Depth& depth, Features& found) {
  found.insert(name(operation.kind));
  if (depth.control_flow > 0) found.insert("nested control flow");
  if (operation.limit > 0 && operation.limit < loop_conditions - 1) found.insert("a loop that its limit can stop");
}

/// What an operation with bodies has, and how often the program runs each body as a child.
void add_bodies(const Program& program, const Operation& operation, Depth depth, std::vector<int>& runs,
                Features& found) {
  if (is_control_flow(operation.kind)) {
    add_control_flow(operation, depth, found);
    ++depth.control_flow;
  }
  if (operation.kind == Kind::child) {
    found.insert("children");
    found.insert(program.bodies[static_cast<std::size_t>(operation.body)].by_replay ? "children by replay()"
                                                                                    : "children by add_child()");
    if (++depth.children > 1) found.insert("nested children");
    if (++runs[static_cast<std::size_t>(operation.body)] > 1) found.insert("the same child twice");
  }
  std::set<How> changes;
  for (const Change& change : program.changes) changes.insert(change.how);
  for (const int body : bodies_of(operation))
    for (const Operation& each : program.bodies[static_cast<std::size_t>(body)].operations) {
      add_in_body(each, depth, changes, found);
      add_bodies(program, each, depth, runs, found);
    }
}

void add_operation(const Operation& operation, Features& found) {
  switch (operation.kind) {
    case Kind::draw:
      found.insert("random numbers");
      break;
    case Kind::scratch:
    case Kind::allocate:
      found.insert("pool memory");
      break;
    case Kind::allocate_async:
      found.insert("allocation nodes");
      break;
    case Kind::free_async:
      found.insert("free nodes");
      break;
    case Kind::exhaust:
      found.insert("no memory left");
      break;
    case Kind::end_stream:
      found.insert("streams that end");
      break;
    default:
      break;
  }
}

bool leaves_memory(const Program& program) {
  const auto count = [&](Kind kind) { return std::ranges::count(program.operations, kind, &Operation::kind); };
  return count(Kind::allocate_async) > count(Kind::free_async);
}

}  // namespace

const std::vector<std::string>& all_features() {
  static const std::vector<std::string> all = {"several streams",
                                               "several devices",
                                               "streams that end",
                                               "pool memory",
                                               "no memory left",
                                               "random numbers",
                                               "two threads",
                                               "a discarded template",
                                               "a kept template",
                                               "children",
                                               "children by add_child()",
                                               "children by replay()",
                                               "nested children",
                                               "the same child twice",
                                               "pool memory in children",
                                               "random numbers in children",
                                               "if_",
                                               "if_else",
                                               "switch_",
                                               "while_",
                                               "a loop that its limit can stop",
                                               "nested control flow",
                                               "pool memory in control flow",
                                               "random numbers in control flow",
                                               "children in control flow",
                                               "forks in children",
                                               "forks in control flow",
                                               "programmatic launches",
                                               "programmatic launches in children",
                                               "programmatic launches in control flow",
                                               "allocation nodes",
                                               "free nodes",
                                               "memory left by a replay",
                                               "memory freed by the next replay",
                                               "changes between replays",
                                               "set_arg",
                                               "set",
                                               "set_arg in children",
                                               "set_arg in control flow",
                                               "set in control flow",
                                               "set_addresses",
                                               "set_enabled",
                                               "update",
                                               "recapture",
                                               "recapture_anew",
                                               "changes of graphs with children",
                                               "changes of graphs with control flow",
                                               "changes of graphs with random numbers"};
  return all;
}

std::set<std::string> features(const Program& program) {
  Features found;
  std::vector<int> runs(program.bodies.size());
  for (const Operation& each : program.operations) {
    add_operation(each, found);
    if (each.programmatic) found.insert("programmatic launches");
    add_bodies(program, each, {}, runs, found);
  }
  if (program.streams.size() > 1) found.insert("several streams");
  if (uses_two_devices(program)) found.insert("several devices");
  if (program.concurrent) found.insert("two threads");
  if (program.discard_template) found.insert("a discarded template");
  if (program.keep_graph) found.insert("a kept template");
  if (leaves_memory(program))
    found.insert(program.auto_free ? "memory freed by the next replay" : "memory left by a replay");
  for (const Change& change : program.changes) found.insert(name(change.how));
  if (!program.changes.empty()) {
    found.insert("changes between replays");
    if (found.contains("children")) found.insert("changes of graphs with children");
    if (std::ranges::any_of(program.operations, is_control_flow, &Operation::kind))
      found.insert("changes of graphs with control flow");
    if (found.contains("random numbers") || found.contains("random numbers in children") ||
        found.contains("random numbers in control flow"))
      found.insert("changes of graphs with random numbers");
  }
  return found;
}

}  // namespace reprise::differential
