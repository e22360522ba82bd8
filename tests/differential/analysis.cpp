// SPDX-License-Identifier: Apache-2.0
#include "tests/differential/analysis.h"

#include <algorithm>
#include <utility>

#include "text/format.h"

namespace reprise::differential {
namespace {

bool elementwise(Kind kind) {
  return kind == Kind::map || kind == Kind::mix;
}

std::vector<const Operand*> inputs(const Operation& operation) {
  switch (operation.kind) {
    case Kind::mix:
      return {&operation.in, &operation.in2};
    case Kind::map:
    case Kind::scatter:
    case Kind::gather:
    case Kind::scan:
    case Kind::histogram:
    case Kind::copy:
    case Kind::scratch:
    case Kind::if_:
    case Kind::if_else:
    case Kind::switch_:
    case Kind::while_:
      return {&operation.in};
    default:
      return {};
  }
}

}  // namespace

Order::Order(const Program& program)
    : program_(program),
      joined_(program.streams.size()),
      ended_(program.streams.size()),
      recorded_(program.events.size()),
      home_(program.buffers.size(), -1),
      stream_uses_(program.buffers.size()),
      stream_past_(program.streams.size()),
      event_past_(program.events.size()) {
  if (!joined_.empty()) joined_[0] = true;
  for (const BufferSpec& buffer : program.buffers)
    alive_.push_back(buffer.place == Place::device || buffer.place == Place::pinned);
  used_ = alive_;
}

std::vector<Order::Range> Order::ranges(const Operation& operation) const {
  std::vector<Range> list;
  const auto add = [&](const Operand& operand, bool writes) {
    list.push_back({operand.buffer, operand.offset, operand.offset + operation.count, writes});
  };
  for (const int body : bodies_of(operation))
    for (const Operation& inner : program_.bodies[at(body)].operations)
      for (const Range& range : ranges(inner)) list.push_back(range);
  switch (operation.kind) {
    case Kind::record_stream:
    case Kind::record:
    case Kind::wait:
    case Kind::wait_stream:
    case Kind::end_stream:
    case Kind::exhaust:
    case Kind::free_beside:
      return {};
    default:
      break;
  }
  for (const Operand* operand : inputs(operation)) add(*operand, false);
  if (bodies_of(operation).empty()) add(operation.out, true);
  return list;
}

std::string Order::refusal(const Operation& operation) const {
  if (operations_.size() == most_operations) return "too many operations";
  // A block can be freed after its stream.
  if (has_ended(operation.stream) && operation.kind != Kind::free) return "uses a stream that was destroyed";
  if (operation.kind == Kind::wait) return is_recorded(operation.event) ? "" : "waits for an event without a record";
  if (operation.kind == Kind::wait_stream)
    return has_joined(operation.other_stream) && !has_ended(operation.other_stream) &&
                   operation.other_stream != operation.stream
               ? ""
               : "waits for a stream outside of the capture";
  if (!has_joined(operation.stream)) return "works on a stream that has not joined the capture";
  if (operation.kind == Kind::end_stream) return operation.stream != 0 ? "" : "destroys the stream of the capture";
  if (operation.kind > Kind::end_stream) return "";
  const int device = program_.streams[at(operation.stream)].device;
  if (operation.kind == Kind::record)
    return program_.events[at(operation.event)].device == device ? "" : "records an event of another device";
  return refusal_of_operands(operation, device);
}

// Why the bodies of a child or of control flow are refused; empty if they are not.
std::string Order::refusal_of_bodies(const Operation& operation, int device) const {
  const std::size_t further = operation.further_bodies.size();
  const bool fits = operation.kind == Kind::switch_ || further == (operation.kind == Kind::if_else ? 1U : 0U);
  if (operation.body < 0 || !fits) return "has more or fewer bodies than its kind";
  for (const int body : bodies_of(operation))
    if (std::string why = refusal_of_body(body, device); !why.empty()) return why;
  if (operation.kind == Kind::child && has_control_flow(program_, operation.body))
    return "runs a child graph that has control flow";
  if (operation.kind == Kind::while_ && operation.limit == 0 && draws_any(program_, operation.body))
    return "draws random numbers in a loop without a limit";
  if (is_control_flow(operation.kind) && !is_alive(operation.in.buffer)) return "uses a buffer that is not there";
  return "";
}

std::string Order::refusal_of_body(int number, int device) const {
  const Body& body = program_.bodies[at(number)];
  if (body.device != device) return "runs a body of another device";
  for (const Operation& inner : body.operations) {
    if (!is_for_bodies(inner.kind)) return "runs a body with an operation that bodies do not have";
    for (const int deeper : bodies_of(inner))
      if (deeper >= number) return "runs a body within itself";
    if (std::string why = refusal_of_operands(inner, device); !why.empty()) return why;
    if (inner.varies == Varies::by_parameter && is_in_child(program_, number))
      return "has a parameter of the graph in a child, which is captured before";
  }
  for (std::size_t i = 0; i < body.operations.size(); ++i)
    if (body.operations[i].beside && (i + 1 == body.operations.size() || body.operations[i + 1].beside ||
                                      !can_be_beside(body.operations[i], body.operations[i + 1])))
      return "runs an operation of a body beside one that it cannot run beside";
  return "";
}

std::string Order::refusal_of_operands(const Operation& operation, int device) const {
  if (operation.kind >= Kind::child && operation.kind <= Kind::while_) return refusal_of_bodies(operation, device);
  const BufferSpec& out = program_.buffers[at(operation.out.buffer)];
  if (operation.kind == Kind::allocate || operation.kind == Kind::allocate_async) {
    const Place place = operation.kind == Kind::allocate ? Place::inner : Place::ordered;
    return out.place == place && !used_[at(operation.out.buffer)] && out.device == device ? "" : "allocates twice";
  }
  if (operation.kind == Kind::free_async && (out.place != Place::ordered || out.device != device))
    return "frees in the order of a stream what was not allocated so";
  if (operation.kind == Kind::free && (out.place != Place::inner || home(operation.out.buffer) != operation.stream))
    return "frees on a stream that is not that of the allocation";
  if (!is_alive(operation.out.buffer)) return "uses a buffer that is not there";
  for (const Operand* in : inputs(operation)) {
    if (!is_alive(in->buffer)) return "uses a buffer that is not there";
    if (in->buffer == operation.out.buffer && !(elementwise(operation.kind) && in->offset == operation.out.offset))
      return "reads what it writes";
  }
  return "";
}

bool Order::waived(const Operation& free, std::size_t earlier) const {
  return free.kind == Kind::free && stream_uses_[at(free.out.buffer)].contains(operations_[earlier].stream);
}

std::vector<std::size_t> Order::conflicts(const Operation& operation) const {
  std::vector<std::size_t> found;
  const std::vector<Range> mine = ranges(operation);
  for (std::size_t i = 0; i < operations_.size(); ++i) {
    if (stream_past_[at(operation.stream)].test(i) || waived(operation, i)) continue;
    const std::vector<Range> theirs = ranges(operations_[i]);
    const bool conflict = std::any_of(mine.begin(), mine.end(), [&](const Range& a) {
      return std::any_of(theirs.begin(), theirs.end(), [&](const Range& b) {
        return a.buffer == b.buffer && a.begin < b.end && b.begin < a.end && (a.writes || b.writes);
      });
    });
    if (conflict) found.push_back(i);
  }
  return found;
}

void Order::add(const Operation& operation) {
  Past& past = stream_past_[at(operation.stream)];
  switch (operation.kind) {
    case Kind::record:
      recorded_[at(operation.event)] = true;
      event_past_[at(operation.event)] = past;
      break;
    case Kind::wait:
      joined_[at(operation.stream)] = true;
      past |= event_past_[at(operation.event)];
      break;
    case Kind::wait_stream:
      joined_[at(operation.stream)] = true;
      past |= stream_past_[at(operation.other_stream)];
      break;
    case Kind::record_stream:
      stream_uses_[at(operation.out.buffer)].insert(operation.stream);
      break;
    case Kind::allocate:
    case Kind::allocate_async:
      alive_[at(operation.out.buffer)] = true;
      used_[at(operation.out.buffer)] = true;
      home_[at(operation.out.buffer)] = operation.stream;
      past.set(operations_.size());
      break;
    case Kind::end_stream:
      ended_[at(operation.stream)] = true;
      break;
    case Kind::exhaust:
    case Kind::free_beside:
      break;
    case Kind::free:
      alive_[at(operation.out.buffer)] = false;
      break;
    case Kind::free_async:
      alive_[at(operation.out.buffer)] = false;
      past.set(operations_.size());
      break;
    default:
      past.set(operations_.size());
  }
  operations_.push_back(operation);
}

bool Order::is_back(int stream) const {
  return (stream_past_[at(stream)] & ~stream_past_[0]).none();
}

namespace {

/// Why the graph of the program cannot be changed so; empty if it can.
std::string refusal_of_changes(const Program& program) {
  if (program.changes.empty()) return "";
  if (program.discard_template) return "a graph without a template is changed";
  const auto [a, b] = program.exchanged;
  Version version;
  for (const Change& change : program.changes) {
    const Version from = std::exchange(version, reached(program, version, change));
    if (version != change.to) return "a change is said to lead to a version that it cannot lead to";
    if (change.how == How::update && !can_be_updated(program))
      return "a graph with allocation nodes or control flow is updated";
    if (change.how == How::update && !is_made_in_place(program, from, change))
      return "a graph is updated to one with a batch where a node is disabled";
    if (change.how == How::set_addresses && change.to.replaced) return "addresses are set that a batch may have";
    if (change.how == How::set_enabled && change.to.replaced && has_batch_for_resting(program))
      return "a batch is disabled or enabled";
    if (change.how == How::refused_update &&
        !(version.resting && can_be_updated(program) && has_batch_for_resting(program)))
      return "an update is said to be refused that is possible";
    const bool needs_pair = change.to.exchanged || change.how == How::set_addresses;
    if (needs_pair && (a < 0 || b < 0)) return "buffers that are not there change places";
  }
  for (const Operation& op : program.operations) {
    if (op.replaced == Replaced::never) continue;
    if (!is_plain_kernel(op.kind) || op.varies != Varies::never || op.programmatic)
      return "an operation is replaced whose place no other one can take";
  }
  if (a < 0 || b < 0) return "";
  const BufferSpec& one = program.buffers[at(a)];
  const BufferSpec& other = program.buffers[at(b)];
  const bool alike = one.place == Place::device && other.place == Place::device && one.device == other.device &&
                     one.count == other.count;
  return alike ? "" : "buffers change places that are not alike";
}

}  // namespace

Analysis analyse(const Program& program) {
  Analysis analysis;
  if (analysis.invalid = refusal_of_changes(program); !analysis.invalid.empty()) return analysis;
  Order order(program);
  bool works = false;
  for (std::size_t i = 0; i < program.operations.size(); ++i) {
    const Operation& operation = program.operations[i];
    analysis.invalid = order.refusal(operation);
    if (!analysis.invalid.empty()) {
      analysis.invalid = text::format("operation {} ({}) {}", i, name(operation.kind), analysis.invalid);
      return analysis;
    }
    const std::vector<std::size_t> conflicts = order.conflicts(operation);
    if (!conflicts.empty() && !analysis.race) analysis.race = {conflicts.front(), i};
    order.add(operation);
    works |= operation.kind <= Kind::allocate_async;
  }
  for (std::size_t stream = 1; stream < program.streams.size(); ++stream)
    if (!order.is_back(static_cast<int>(stream)))
      analysis.invalid = text::format("stream {} is not joined at the end", stream);
  if (!works) analysis.invalid = "there is no work";
  return analysis;
}

}  // namespace reprise::differential
