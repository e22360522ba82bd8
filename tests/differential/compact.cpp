// SPDX-License-Identifier: Apache-2.0
#include <algorithm>

#include "tests/differential/program.h"

namespace reprise::differential {
namespace {

/// Numbers for what is used.
class Renumbering {
 public:
  explicit Renumbering(std::size_t size) : used_(size) {}
  void use(int old) {
    if (old >= 0) used_[static_cast<std::size_t>(old)] = true;
  }
  bool has(int old) const { return used_[static_cast<std::size_t>(old)]; }
  int operator()(int old) const {
    return old < 0 ? old : static_cast<int>(std::count(used_.begin(), used_.begin() + old, true));
  }
  template <class T>
  void apply(std::vector<T>& objects) const {
    std::vector<T> kept;
    for (std::size_t i = 0; i < objects.size(); ++i)
      if (used_[i]) kept.push_back(objects[i]);
    objects = std::move(kept);
  }

 private:
  std::vector<bool> used_;
};

}  // namespace

Program compact(const Program& program) {
  Program small = program;
  Renumbering streams(program.streams.size()), events(program.events.size()), buffers(program.buffers.size()),
      bodies(program.bodies.size());
  streams.use(0);
  for (Operation& operation : small.operations) {
    streams.use(operation.stream);
    streams.use(operation.other_stream);
    events.use(operation.event);
    for (const int body : bodies_of(operation)) bodies.use(body);
  }
  for (std::size_t body = small.bodies.size(); body-- > 0;)  // those in it have lower numbers
    for (const Operation& operation : small.bodies[body].operations)
      for (const int inner : bodies_of(operation))
        if (bodies.has(static_cast<int>(body))) bodies.use(inner);
  bodies.apply(small.bodies);
  const auto all_operations = [&](const auto& visit) {
    for (Operation& operation : small.operations) visit(operation);
    for (Body& body : small.bodies)
      for (Operation& operation : body.operations) visit(operation);
  };
  all_operations([&](Operation& operation) {
    const bool one_input = operation.kind < Kind::draw || operation.kind == Kind::copy ||
                           operation.kind == Kind::scratch || is_control_flow(operation.kind);
    if (!one_input) operation.in = {};
    if (operation.kind != Kind::mix) operation.in2 = {};
    for (const Operand& operand : {operation.out, operation.in, operation.in2}) buffers.use(operand.buffer);
  });
  const auto needs_pair = [](const Change& change) { return change.to.exchanged || change.how == How::set_addresses; };
  if (std::ranges::any_of(small.changes, needs_pair)) {
    buffers.use(small.exchanged.first);
    buffers.use(small.exchanged.second);
  } else {
    small.exchanged = {-1, -1};
  }
  for (Operation& operation : small.operations) {
    operation.stream = streams(operation.stream);
    operation.other_stream = streams(operation.other_stream);
    operation.event = events(operation.event);
  }
  all_operations([&](Operation& operation) {
    operation.body = bodies(operation.body);
    for (int& body : operation.further_bodies) body = bodies(body);
    for (Operand* operand : {&operation.out, &operation.in, &operation.in2}) operand->buffer = buffers(operand->buffer);
  });
  small.exchanged = {buffers(small.exchanged.first), buffers(small.exchanged.second)};
  streams.apply(small.streams);
  events.apply(small.events);
  buffers.apply(small.buffers);
  return small;
}

}  // namespace reprise::differential
