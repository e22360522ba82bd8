// SPDX-License-Identifier: Apache-2.0
#include "tests/differential/program.h"

#include <algorithm>
#include <iterator>

// Questions about a program and the names of what it has.

namespace reprise::differential {
namespace {

/// True if `of` is, for one of the operations, or of those in their bodies.
template <class Of>
bool any_of_all(const Program& program, const std::vector<Operation>& operations, const Of& of) {
  return std::ranges::any_of(operations, [&](const Operation& op) {
    return of(op) || std::ranges::any_of(bodies_of(op), [&](int body) {
             return any_of_all(program, program.bodies[at(body)].operations, of);
           });
  });
}

bool uses(const Operation& op, int buffer) {
  return op.out.buffer == buffer || op.in.buffer == buffer || op.in2.buffer == buffer;
}

void add(Draws& to, const Draws& draws) {
  for (std::size_t i = 0; i < to.size(); ++i) to[i] += draws[i];
}

}  // namespace

std::vector<int> bodies_of(const Operation& operation) {
  if (operation.body < 0) return {};
  std::vector<int> bodies = {operation.body};
  bodies.insert(bodies.end(), operation.further_bodies.begin(), operation.further_bodies.end());
  return bodies;
}

Draws draws_of(const Program& program, const Operation& operation) {
  Draws draws = {};
  if (operation.kind == Kind::draw) draws[operation.generator] = 1;
  for (const int body : bodies_of(operation)) add(draws, draws_of(program, body));
  if (operation.kind == Kind::while_)
    for (unsigned& each : draws) each *= operation.limit;
  return draws;
}

Draws draws_of(const Program& program, int body) {
  Draws draws = {};
  for (const Operation& each : program.bodies[at(body)].operations) add(draws, draws_of(program, each));
  return draws;
}

bool draws_any(const Program& program, int body) {
  return any_of_all(program, program.bodies[at(body)].operations,
                    [](const Operation& op) { return op.kind == Kind::draw; });
}

unsigned conditions_of(const Operation& operation) {
  if (operation.kind == Kind::while_) return loop_conditions;
  if (operation.kind != Kind::switch_) return 2;
  return static_cast<unsigned>(operation.further_bodies.size()) + 2;  // the last one: no body
}

bool names(const Program& program, int buffer) {
  return any_of_all(program, program.operations, [&](const Operation& op) { return uses(op, buffer); });
}

bool is_in_child(const Program& program, int body) {
  const auto reaches = [&](const Operation& op) {
    return op.kind == Kind::child &&
           (op.body == body || any_of_all(program, program.bodies[at(op.body)].operations, [&](const Operation& inner) {
              return std::ranges::count(bodies_of(inner), body) > 0;
            }));
  };
  return any_of_all(program, program.operations, reaches);
}

bool can_be_beside(const Operation& operation, const Operation& next) {
  const auto is_one_node = [](Kind kind) { return is_plain_kernel(kind) || kind == Kind::fill || kind == Kind::copy; };
  return is_one_node(operation.kind) && is_one_node(next.kind) && !uses(next, operation.out.buffer) &&
         !uses(operation, next.out.buffer);
}

bool has_control_flow(const Program& program, int body) {
  return any_of_all(program, program.bodies[at(body)].operations,
                    [](const Operation& op) { return is_control_flow(op.kind); });
}

bool can_be_updated(const Program& program) {
  return !std::ranges::any_of(program.operations, [](const Operation& op) {
    return op.kind == Kind::allocate_async || is_control_flow(op.kind);
  });
}

Operation replacement(const Operation& operation) {
  Operation other = operation;
  other.kind = operation.kind == Kind::mix ? Kind::map : Kind::mix;
  other.in2 = operation.in;
  other.replaced = Replaced::never;
  return other;
}

bool has_batch_for_resting(const Program& program) {
  return std::ranges::any_of(program.operations,
                             [](const Operation& op) { return op.may_rest && op.replaced == Replaced::by_batch; });
}

bool is_made_in_place(const Program& program, const Version& from, const Change& change) {
  const bool leaves_out_a_batch = from.resting && change.to.replaced && has_batch_for_resting(program);
  return change.how != How::recapture_anew && can_be_updated(program) && !leaves_out_a_batch;
}

// Another capture may have any values; nodes of a graph that is updated keep resting, those of a new executable do not.
Version reached(const Program& program, const Version& from, const Change& change) {
  Version version = from;
  switch (change.how) {
    case How::set_arg:
      version.nodes = change.to.nodes;
      return version;
    case How::set:
      version.parameters = change.to.parameters;
      return version;
    case How::set_addresses:
      version.exchanged = change.to.exchanged;
      return version;
    case How::set_enabled:
      version.resting = change.to.resting;
      return version;
    case How::refused_update:
      return version;
    default:
      version = change.to;
      version.resting = from.resting && is_made_in_place(program, from, change);
      return version;
  }
}

bool uses_two_devices(const Program& program) {
  const auto on_second = [](const auto& spec) { return spec.device == 1; };
  return std::ranges::any_of(program.streams, on_second) || std::ranges::any_of(program.events, on_second) ||
         std::ranges::any_of(program.buffers, on_second);
}

const char* name(Kind kind) {
  static constexpr const char* names[] = {
      "map",    "mix",         "scatter",        "gather",  "scan",       "histogram",     "draw",
      "fill",   "copy",        "scratch",        "child",   "if_",        "if_else",       "switch_",
      "while_", "allocate",    "allocate_async", "free",    "free_async", "record_stream", "record",
      "wait",   "wait_stream", "end_stream",     "exhaust", "free_beside"};
  static_assert(std::size(names) == kinds);
  return names[static_cast<std::size_t>(kind)];
}

const char* name(How how) {
  static constexpr const char* names[] = {"set_arg", "set",       "set_addresses",  "set_enabled",
                                          "update",  "recapture", "recapture_anew", "refused_update"};
  return names[static_cast<std::size_t>(how)];
}

}  // namespace reprise::differential
