// SPDX-License-Identifier: Apache-2.0
#include "tests/differential/run.h"

#include <algorithm>
#include <future>
#include <memory>
#include <span>
#include <stdexcept>

#include "reprise/reprise.h"
#include "tests/differential/pieces.h"

namespace reprise::differential {
namespace {

std::size_t at(int index) {
  return static_cast<std::size_t>(index);
}

Device second_device(const Device& first) {
  for (const Device& other : devices())
    if (other.type() == first.type() && !(other == first)) return other;
  throw UsageError("the program needs two devices of one kind, and there is only one");
}

/// The streams, events and buffers of one program, on real devices.
class Machine {
 public:
  Machine(const Program& program, const Device& first) : program_(program), first_(first) {
    for (const StreamSpec& spec : program.streams) {
      streams_.emplace_back(device(spec.device), StreamOptions{spec.blocking});
    }
    for (int number = 0; number < (uses_two_devices(program) ? 2 : 1); ++number)
      own_streams_.emplace_back(device(number));
    for (std::size_t i = 0; i < program.events.size(); ++i)
      events_.emplace_back(device(program.events[i].device), EventOptions{i % 2 == 0});
    for (const BufferSpec& spec : program.buffers) {
      memory_.emplace_back();
      if (spec.place == Place::device) memory_.back() = Buffer<Word>(spec.count, own_stream(spec.device));
      if (spec.place == Place::pinned) {
        pinned_.emplace_back(first, spec.count);
        addresses_.push_back(pinned_.back().data());
      } else {
        addresses_.push_back(memory_.back().data());
      }
    }
  }

  StreamRef origin() const { return streams_[0]; }

  /// The initial values of what is there before the program.
  void restore() {
    synchronize();
    for (std::size_t b = 0; b < addresses_.size(); ++b) {
      const BufferSpec& spec = program_.buffers[b];
      std::vector<Word> values(spec.count);
      for (Word i = 0; i < spec.count; ++i) values[i] = (static_cast<Word>(b) + 1) * 0x9E3779B9U + i * 0x85EBCA6BU;
      if (spec.place == Place::pinned) std::copy(values.begin(), values.end(), addresses_[b]);
      if (spec.place == Place::device)
        copy_async(addresses_[b], values.data(), spec.count * sizeof(Word), own_stream(spec.device));
      synchronize();
    }
  }

  void submit(const Fault& fault = {}) {
    for (Operation operation : program_.operations) {
      if (fault && operation.kind == *fault) {
        operation.value ^= 1U << 4;
        if (operation.kind > Kind::allocate) throw std::runtime_error("a fault that a test put into the program");
      }
      submit(operation);
    }
  }

  /// What is in the buffers; nothing for those that are not there, nor, if asked for, for inner ones.
  Contents contents(bool with_inner = true) {
    synchronize();
    Contents contents;
    for (std::size_t b = 0; b < addresses_.size(); ++b) {
      const BufferSpec& spec = program_.buffers[b];
      std::vector<Word>& values = contents.emplace_back();
      if (addresses_[b] == nullptr || (spec.place == Place::inner && !with_inner)) continue;
      values.resize(spec.count);
      if (spec.place == Place::pinned)
        std::copy(addresses_[b], addresses_[b] + spec.count, values.begin());
      else
        copy_async(values.data(), addresses_[b], spec.count * sizeof(Word), own_stream(spec.device));
      synchronize();
    }
    return contents;
  }

 private:
  Device device(int number) const { return number == 0 ? first_ : second_device(first_); }

  StreamRef own_stream(int number) const { return own_streams_[at(number)]; }

  // Not the devices: that would break a capture of another thread. What the streams that were destroyed did comes
  // before work of others.
  void synchronize() const {
    for (const Stream& stream : streams_) stream.synchronize();
    for (const Stream& stream : own_streams_) stream.synchronize();
  }

  Word* address(const Operand& operand) const { return addresses_[at(operand.buffer)] + operand.offset; }

  template <class K, class... Inputs>
  void launch_kernel(const Operation& op, Inputs... inputs) {
    launch(streams_[at(op.stream)], shape(op.count), K{}, address(op.out), inputs..., op.value, op.count);
  }

  void submit(const Operation& op) {
    switch (op.kind) {
      case Kind::map:
        return launch_kernel<Map>(op, address(op.in));
      case Kind::mix:
        return launch_kernel<Mix>(op, address(op.in), address(op.in2));
      case Kind::scatter:
        return launch_kernel<Scatter>(op, address(op.in));
      case Kind::gather:
        return launch_kernel<Gather>(op, address(op.in));
      case Kind::scan:
        return launch_kernel<Scan>(op, address(op.in));
      case Kind::histogram:
        return launch_kernel<Histogram>(op, address(op.in));
      default:
        return submit_other(op);
    }
  }

  void submit_other(const Operation& op) {
    const Stream& stream = streams_[at(op.stream)];
    switch (op.kind) {
      case Kind::fill:
        return fill_async(address(op.out), static_cast<unsigned char>(op.value), op.count * sizeof(Word), stream);
      case Kind::copy:
        return copy_async(address(op.out), address(op.in), op.count * sizeof(Word), stream);
      case Kind::allocate: {
        Buffer<Word>& memory = memory_[at(op.out.buffer)];
        memory.reset();  // of an earlier run
        memory = Buffer<Word>(op.count, stream);
        addresses_[at(op.out.buffer)] = memory.data();
        return memory.fill_bytes_async(static_cast<unsigned char>(op.value), stream);
      }
      case Kind::free:
        addresses_[at(op.out.buffer)] = nullptr;
        return memory_[at(op.out.buffer)].reset();
      case Kind::record_stream:
        return memory_[at(op.out.buffer)].record_stream(stream);
      case Kind::record:
        return events_[at(op.event)].record(stream);
      case Kind::wait:
        return events_[at(op.event)].wait(stream);
      case Kind::wait_stream:
        return stream.wait(streams_[at(op.other_stream)].ref());
      case Kind::end_stream:
        return replace_stream(op.stream);
      case Kind::exhaust:
        return exhaust(stream);
      case Kind::free_beside:
        return free_beside(stream);
      default:
        return;
    }
  }

  // The next run gets the new one, which may have the same handle.
  void replace_stream(int number) {
    const StreamSpec& spec = program_.streams[at(number)];
    { const Stream ended = std::move(streams_[at(number)]); }
    streams_[at(number)] = Stream(device(spec.device), StreamOptions{spec.blocking});
  }

  const Program& program_;
  const Device first_;
  std::vector<Stream> streams_;
  std::vector<Stream> own_streams_;  // of each device, for what is no operation of the program
  std::vector<Event> events_;
  std::vector<Buffer<Word>> memory_;
  std::vector<Pinned> pinned_;
  std::vector<Word*> addresses_;  // null: freed
};

std::string compare(const char* what, const Contents& expected, const Contents& found) {
  const std::string text = difference(expected, found);
  return text.empty() ? text : std::string(what) + ": " + text;
}

std::string compare_one(const Program& program, const Device& first_device, const Eager& eager, const Fault& fault) {
  CUDAGraph graph;
  Machine machine(program, first_device);
  machine.restore();
  GraphOptions options;
  options.stream = machine.origin();
  options.capture_error_mode = CaptureMode::thread;
  options.discard_template = program.discard_template;
  const Contents before = machine.contents(false);
  capture(graph, options, [&] { machine.submit(fault); });
  const Contents captured = machine.contents(false);  // inner buffers have not been written yet
  if (std::string text = compare("captured, not replayed", before, captured); !text.empty()) return text;
  graph.replay(machine.origin());
  if (std::string text = compare("replayed", eager.once, machine.contents()); !text.empty()) return text;
  machine.restore();
  graph.replay(machine.origin());
  graph.replay(machine.origin());
  if (std::string text = compare("replayed twice", eager.twice, machine.contents()); !text.empty()) return text;
  machine.restore();
  graph.replay(machine.origin());
  return compare("replayed again", eager.once, machine.contents());
}

}  // namespace

Eager run_eagerly(const Program& program, const Device& first_device) {
  Machine machine(program, first_device);
  machine.restore();
  machine.submit();
  Eager eager;
  eager.once = machine.contents();
  machine.restore();
  machine.submit();
  machine.submit();
  eager.twice = machine.contents();
  return eager;
}

std::string compare_captured(const Program& program, const Device& first_device, const Eager& eager,
                             const Fault& fault) {
  if (!program.concurrent) return compare_one(program, first_device, eager, fault);
  const Device first_beside = uses_two_devices(program) ? second_device(first_device) : first_device;
  auto beside = std::async(std::launch::async, [&] { return compare_one(program, first_beside, eager, fault); });
  const std::string text = compare_one(program, first_device, eager, fault);
  const std::string text_beside = beside.get();
  return text.empty() ? text_beside : text;
}

}  // namespace reprise::differential
