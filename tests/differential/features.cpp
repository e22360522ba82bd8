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
  int loops = 0;
};

bool draws_from_all(const Draws& draws) {
  return std::ranges::count(draws, 0U) == 0;
}

void add_in_body(const Operation& operation, const Depth& depth, const std::set<How>& changes, Features& found) {
  const auto add = [&](const std::string& what) {
    if (depth.children > 0) found.insert(what + " in children");
    if (depth.control_flow > 0) found.insert(what + " in control flow");
  };
  if (operation.kind == Kind::draw) add("random numbers");
  if (operation.kind == Kind::scratch) add("pool memory");
  if (operation.short_lived) add("short-lived streams");
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
    if (operation.kind == Kind::while_ && ++depth.loops > 1 && draws_from_all(draws_of(program, operation)))
      found.insert("two generators in nested loops");
  }
  if (operation.kind == Kind::child) {
    found.insert("children");
    found.insert(program.bodies[static_cast<std::size_t>(operation.body)].by_replay ? "children by replay()"
                                                                                    : "children by add_child()");
    if (draws_from_all(draws_of(program, operation))) found.insert("two generators in children");
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
      if (operation.short_lived) found.insert("short-lived streams");
      [[fallthrough]];
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

bool draws_from_all(const Program& program) {
  Draws draws = {};
  for (const Operation& each : program.operations)
    for (std::size_t i = 0; i < draws.size(); ++i) draws[i] += draws_of(program, each)[i];
  return draws_from_all(draws);
}

/// What changes of a graph with disabled nodes lead to.
void add_resting(const Program& program, Features& found) {
  Version version;
  for (const Change& change : program.changes) {
    if (is_new_capture(change.how)) {
      const bool in_place = is_made_in_place(program, version, change);
      if (version.resting && in_place) found.insert("updates with disabled nodes");
      if (version.resting && !in_place && change.to.replaced && change.how == How::recapture && can_be_updated(program))
        found.insert("a recapture with a batch for a disabled node");
      if (version.replaced != change.to.replaced) found.insert("other operations after a new capture");
    }
    version = change.to;
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
                                               "short-lived streams",
                                               "short-lived streams in children",
                                               "short-lived streams in control flow",
                                               "pool memory",
                                               "no memory left",
                                               "random numbers",
                                               "two generators",
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
                                               "two generators in children",
                                               "if_",
                                               "if_else",
                                               "switch_",
                                               "while_",
                                               "a loop that its limit can stop",
                                               "nested control flow",
                                               "pool memory in control flow",
                                               "random numbers in control flow",
                                               "two generators in nested loops",
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
                                               "refused_update",
                                               "updates with disabled nodes",
                                               "a recapture with a batch for a disabled node",
                                               "other operations after a new capture",
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
  if (draws_from_all(program)) found.insert("two generators");
  for (const Change& change : program.changes) found.insert(name(change.how));
  add_resting(program, found);
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
