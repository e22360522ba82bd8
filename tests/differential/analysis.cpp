// SPDX-License-Identifier: Apache-2.0
#include "tests/differential/analysis.h"

#include <algorithm>

#include "text/format.h"

namespace reprise::differential {
namespace {

std::size_t at(int index) {
  return static_cast<std::size_t>(index);
}

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
  for (const BufferSpec& buffer : program.buffers) alive_.push_back(buffer.place != Place::inner);
  used_ = alive_;
}

std::vector<Order::Range> Order::ranges(const Operation& operation) const {
  std::vector<Range> list;
  const auto add = [&](const Operand& operand, bool writes) {
    list.push_back({operand.buffer, operand.offset, operand.offset + operation.count, writes});
  };
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
  add(operation.out, true);
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
  const BufferSpec& out = program_.buffers[at(operation.out.buffer)];
  if (operation.kind == Kind::allocate)
    return out.place == Place::inner && !used_[at(operation.out.buffer)] && out.device == device ? ""
                                                                                                 : "allocates twice";
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
    default:
      past.set(operations_.size());
  }
  operations_.push_back(operation);
}

bool Order::is_back(int stream) const {
  return (stream_past_[at(stream)] & ~stream_past_[0]).none();
}

Analysis analyse(const Program& program) {
  Analysis analysis;
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
    works |= operation.kind <= Kind::allocate;
  }
  for (std::size_t stream = 1; stream < program.streams.size(); ++stream)
    if (!order.is_back(static_cast<int>(stream)))
      analysis.invalid = text::format("stream {} is not joined at the end", stream);
  if (!works) analysis.invalid = "there is no work";
  return analysis;
}

bool uses_two_devices(const Program& program) {
  const auto on_second = [](const auto& spec) { return spec.device == 1; };
  return std::ranges::any_of(program.streams, on_second) || std::ranges::any_of(program.events, on_second) ||
         std::ranges::any_of(program.buffers, on_second);
}

const char* name(Kind kind) {
  static constexpr const char* names[] = {"map",  "mix",         "scatter",    "gather",  "scan",          "histogram",
                                          "fill", "copy",        "allocate",   "free",    "record_stream", "record",
                                          "wait", "wait_stream", "end_stream", "exhaust", "free_beside"};
  return names[static_cast<std::size_t>(kind)];
}

}  // namespace reprise::differential
