// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <random>

#include "tests/differential/analysis.h"

namespace reprise::differential {
namespace {

/// Makes one program. Only the bare engine is used: the standard's distributions differ between libraries.
class Generator {
 public:
  Generator(std::uint64_t seed, const Limits& limits) : random_(seed), limits_(limits) { program_.seed = seed; }

  Program make() {
    make_objects();
    // More inner buffers may come, but the order keeps a place for each from the start.
    Order order(program_);
    order_ = &order;
    const unsigned wanted = 5 + below(std::max(1U, limits_.max_operations > 5 ? limits_.max_operations - 5 : 1U));
    while (works_ < wanted) step();
    join_all();
    program_.discard_template = one_in(4);
    program_.concurrent = one_in(4) && limits_.concurrent;
    return compact(program_);
  }

 private:
  unsigned below(unsigned bound) { return static_cast<unsigned>(random_() % bound); }
  int index(std::size_t size) { return static_cast<int>(below(static_cast<unsigned>(size))); }
  bool one_in(unsigned n) { return below(n) == 0; }

  void make_objects() {
    const unsigned streams = 1 + below(4);
    for (unsigned i = 0; i < streams; ++i) program_.streams.push_back({second_device(i), one_in(3)});
    for (int device = 0; device < limits_.devices; ++device)
      for (unsigned i = 0, count = 1 + below(3); i < count; ++i) program_.events.push_back({device});
    for (int device = 0; device < limits_.devices; ++device)
      for (unsigned i = 0, count = 1 + below(4); i < count; ++i)
        program_.buffers.push_back({Place::device, device, 32U << below(5)});
    for (unsigned i = 0, count = 1 + below(2); i < count; ++i)
      program_.buffers.push_back({Place::pinned, 0, 32U << below(5)});
    for (unsigned i = 0; i < 8; ++i)
      program_.buffers.push_back({Place::inner, static_cast<int>(i) % limits_.devices, 32U << below(5)});
  }

  // Stream 0, where captures begin, is on the first device.
  int second_device(unsigned stream) { return limits_.devices > 1 && stream > 0 && one_in(2) ? 1 : 0; }
  int device_of(int stream) const { return program_.streams[static_cast<std::size_t>(stream)].device; }
  const BufferSpec& buffer(int index) const { return program_.buffers[static_cast<std::size_t>(index)]; }

  void add(const Operation& operation) {
    order_->add(operation);
    program_.operations.push_back(operation);
    if (operation.kind <= Kind::allocate) ++works_;
  }

  int event_for(int stream) {
    int event = index(program_.events.size());
    while (program_.events[static_cast<std::size_t>(event)].device != device_of(stream))
      event = (event + 1) % static_cast<int>(program_.events.size());
    return event;
  }

  /// The stream waits for all that the other one has been given.
  void wait_for_stream(int stream, int other) {
    Operation wait;
    wait.stream = stream;
    if (one_in(3)) {
      wait.kind = Kind::wait_stream;
      wait.other_stream = other;
    } else {
      Operation record;
      record.kind = Kind::record;
      record.stream = other;
      record.event = event_for(other);
      add(record);
      wait.kind = Kind::wait;
      wait.event = record.event;
    }
    add(wait);
  }

  int any_joined_stream() {
    int stream = index(program_.streams.size());
    while (!order_->has_joined(stream) || order_->has_ended(stream)) stream = next_stream(stream);
    return stream;
  }

  int next_stream(int stream) const { return (stream + 1) % static_cast<int>(program_.streams.size()); }

  void step() {
    int stream = index(program_.streams.size());
    while (order_->has_ended(stream)) stream = next_stream(stream);  // stream 0 has not
    if (!order_->has_joined(stream)) wait_for_stream(stream, any_joined_stream());
    if (one_in(40)) return end_stream(stream);
    if (one_in(60)) return on_stream(Kind::exhaust, stream);
    if (one_in(40)) return on_stream(Kind::free_beside, stream);
    const unsigned kind = below(32);
    if (kind == 0) return record(stream);
    if (kind == 1) return wait(stream);
    if (kind < 7) return allocate(stream);
    if (kind < 14) return free_one();
    return work(stream);
  }

  // Its work may be pending, but another stream is ordered after it, which is joined at the end.
  void end_stream(int stream) {
    if (stream == 0) return;
    const int other = any_joined_stream();
    if (!order_->is_back(stream)) wait_for_stream(other != stream ? other : 0, stream);
    on_stream(Kind::end_stream, stream);
  }

  void on_stream(Kind kind, int stream) {
    if (kind != Kind::end_stream && !limits_.frees) return;
    Operation operation;
    operation.kind = kind;
    operation.stream = stream;
    add(operation);
  }

  void record(int stream) {
    Operation operation;
    operation.kind = Kind::record;
    operation.stream = stream;
    operation.event = event_for(stream);
    add(operation);
  }

  void wait(int stream) {
    Operation operation;
    operation.kind = Kind::wait;
    operation.stream = stream;
    operation.event = index(program_.events.size());
    if (order_->refusal(operation).empty()) add(operation);
  }

  void allocate(int stream) {
    Operation operation;
    operation.kind = Kind::allocate;
    operation.stream = stream;
    operation.out.buffer = index(program_.buffers.size());
    operation.count = buffer(operation.out.buffer).count;
    operation.value = below(256);
    if (order_->refusal(operation).empty()) add(operation);
  }

  void free_one() {
    if (!limits_.frees) return;
    Operation operation;
    operation.kind = Kind::free;
    operation.out.buffer = index(program_.buffers.size());
    operation.stream = std::max(0, order_->home(operation.out.buffer));
    operation.count = buffer(operation.out.buffer).count;
    if (!order_->refusal(operation).empty()) return;
    const bool tell_allocator = one_in(2);
    for (auto unordered = order_->conflicts(operation); !unordered.empty(); unordered = order_->conflicts(operation)) {
      Operation use = operation;
      use.kind = Kind::record_stream;
      use.stream = program_.operations[unordered.front()].stream;
      const bool can_wait = !order_->has_ended(operation.stream), can_tell = !order_->has_ended(use.stream);
      if (can_tell && (tell_allocator || !can_wait))
        add(use);
      else if (can_wait)
        bring_in_order(operation.stream, unordered.front());
      else
        return;  // the buffer stays
    }
    add(operation);
  }

  /// A buffer that a kernel on the device, or a copy, can use. There always is one: each device has some.
  int choose_buffer(bool kernel, int device) {
    for (int chosen = index(program_.buffers.size());;
         chosen = (chosen + 1) % static_cast<int>(program_.buffers.size())) {
      const BufferSpec& spec = buffer(chosen);
      if (order_->is_alive(chosen) && (!kernel || (spec.place != Place::pinned && spec.device == device)))
        return chosen;
    }
  }

  void choose_operands(Operation& operation, bool kernel) {
    operation.count = 1024;
    for (Operand* operand : {&operation.out, &operation.in, &operation.in2}) {
      operand->buffer = choose_buffer(kernel, device_of(operation.stream));
      operation.count = std::min(operation.count, buffer(operand->buffer).count);
    }
    operation.count >>= below(3);
    for (Operand* operand : {&operation.out, &operation.in, &operation.in2})
      operand->offset = below((buffer(operand->buffer).count - operation.count) / 8 + 1) * 8;
  }

  void work(int stream) {
    static constexpr Kind kinds[] = {Kind::map,  Kind::map,       Kind::mix,  Kind::mix,  Kind::scatter, Kind::gather,
                                     Kind::scan, Kind::histogram, Kind::fill, Kind::copy, Kind::copy};
    // Where order is missing, sometimes other operands are looked for instead.
    for (unsigned tries = below(4);; --tries) {
      Operation operation;
      operation.kind = kinds[below(std::size(kinds))];
      operation.stream = stream;
      operation.value = static_cast<std::uint32_t>(random_());
      choose_operands(operation, operation.kind != Kind::copy);
      if (!order_->refusal(operation).empty()) return;
      auto unordered = order_->conflicts(operation);
      if (tries > 0 && !unordered.empty()) continue;
      for (; !unordered.empty(); unordered = order_->conflicts(operation)) bring_in_order(stream, unordered.front());
      return add(operation);
    }
  }

  void bring_in_order(int stream, std::size_t earlier) {
    for (std::size_t event = 0; event < program_.events.size(); ++event) {
      if (!order_->event_covers(static_cast<int>(event), earlier)) continue;
      Operation operation;
      operation.kind = Kind::wait;
      operation.stream = stream;
      operation.event = static_cast<int>(event);
      return add(operation);
    }
    int other = program_.operations[earlier].stream;
    while (order_->has_ended(other) || !order_->covers(other, earlier)) other = next_stream(other);
    wait_for_stream(stream, other);
  }

  void join_all() {
    for (int stream = 1; stream < static_cast<int>(program_.streams.size()); ++stream)
      if (!order_->has_ended(stream) && !order_->is_back(stream)) wait_for_stream(0, stream);
  }

  std::mt19937_64 random_;
  const Limits limits_;
  Program program_;
  Order* order_ = nullptr;
  unsigned works_ = 0;
};

/// Numbers for what is used.
class Renumbering {
 public:
  explicit Renumbering(std::size_t size) : used_(size) {}
  void use(int old) {
    if (old >= 0) used_[static_cast<std::size_t>(old)] = true;
  }
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

Program generate(std::uint64_t seed, const Limits& limits) {
  return Generator(seed, limits).make();
}

Program compact(const Program& program) {
  Program small = program;
  Renumbering streams(program.streams.size()), events(program.events.size()), buffers(program.buffers.size());
  streams.use(0);
  for (Operation& operation : small.operations) {
    const bool one_input = operation.kind < Kind::fill || operation.kind == Kind::copy;
    if (!one_input) operation.in = {};
    if (operation.kind != Kind::mix) operation.in2 = {};
    streams.use(operation.stream);
    streams.use(operation.other_stream);
    events.use(operation.event);
    for (const Operand& operand : {operation.out, operation.in, operation.in2}) buffers.use(operand.buffer);
  }
  for (Operation& operation : small.operations) {
    operation.stream = streams(operation.stream);
    operation.other_stream = streams(operation.other_stream);
    operation.event = events(operation.event);
    for (Operand* operand : {&operation.out, &operation.in, &operation.in2}) operand->buffer = buffers(operand->buffer);
  }
  streams.apply(small.streams);
  events.apply(small.events);
  buffers.apply(small.buffers);
  return small;
}

}  // namespace reprise::differential
