// SPDX-License-Identifier: Apache-2.0
#include <memory>
#include <stdexcept>
#include <utility>

#include "tests/differential/machine.h"

// The operations of a program: as they are done eagerly, or captured.

namespace reprise::differential {

void Machine::submit(const Run& run) {
  for (std::size_t i = 0; i < program_.operations.size(); ++i) {
    Operation operation = program_.operations[i];
    if (run.fault && operation.kind == *run.fault) {
      operation.value ^= is_control_flow(operation.kind) ? 1U : 1U << 4;  // another condition
      if (operation.kind > Kind::allocate_async) throw std::runtime_error("a fault that a test put into the program");
    }
    submit(operation, streams_[at(operation.stream)], run, i);
  }
}

template <class K, class... Before>
void Machine::launch_kernel(const Operation& op, const StreamRef& stream, const Run& run, std::size_t number,
                            Before... before) {
  if (!run.capturing && run.version.resting && op.may_rest) return;
  const annotate scope(node_name(number));
  const Word value = value_of(op, run.version);
  const LaunchConfig config = op.programmatic ? early_shape(op.count) : shape(op.count);
  if (!run.capturing || op.varies != Varies::by_parameter)
    return launch(stream, config, K{}, before..., value, op.count);
  // One for all nodes of a body.
  if (!values_[number]) values_[number].emplace(value);
  launch(stream, config, K{}, before..., *values_[number], op.count);
}

void Machine::submit(const Operation& op, const StreamRef& stream, const Run& run, std::size_t number) {
  const auto place = [&](const Operand& operand) { return address(operand, run.version); };
  if (run.version.replaced && op.replaced != Replaced::never) return submit_replaced(op, stream, run, number);
  switch (op.kind) {
    case Kind::map:
      return launch_kernel<Map>(op, stream, run, number, place(op.out), place(op.in));
    case Kind::mix:
      return launch_kernel<Mix>(op, stream, run, number, place(op.out), place(op.in), place(op.in2));
    case Kind::scatter:
      return launch_kernel<Scatter>(op, stream, run, number, place(op.out), place(op.in));
    case Kind::gather:
      return launch_kernel<Gather>(op, stream, run, number, place(op.out), place(op.in));
    case Kind::scan:
      return launch_kernel<Scan>(op, stream, run, number, place(op.out), place(op.in));
    case Kind::histogram:
      return launch_kernel<Histogram>(op, stream, run, number, place(op.out), place(op.in));
    case Kind::draw: {  // a launch that is left out draws nevertheless
      const Generator& generator = generators_of(stream)[op.generator];
      return launch_kernel<Draw>(op, stream, run, number, generator.philox_state(drawn, stream), place(op.out));
    }
    case Kind::child:
      return run_child(op.body, stream, run);
    case Kind::if_:
    case Kind::if_else:
    case Kind::switch_:
    case Kind::while_:
      return run_flow(op, stream, run, number);
    case Kind::scratch:
      return (op.short_lived ? short_lived_scratch : scratch)(stream, place(op.out), place(op.in), op.value, op.count);
    default:
      return submit_other(op, stream, run, number);
  }
}

void Machine::submit_replaced(const Operation& op, const StreamRef& stream, const Run& run, std::size_t number) {
  if (op.replaced == Replaced::by_kernel) return submit(replacement(op), stream, run, number);
  fill_batch(stream, address(op.out, run.version), static_cast<unsigned char>(op.value), op.count);
}

void Machine::submit_other(const Operation& op, const StreamRef& stream, const Run& run, std::size_t number) {
  const bool rests = !run.capturing && run.version.resting && op.may_rest;
  const std::size_t bytes = op.count * sizeof(Word);
  switch (op.kind) {
    case Kind::fill: {
      const annotate scope(node_name(number));
      if (!rests) fill_async(address(op.out, run.version), static_cast<unsigned char>(op.value), bytes, stream);
      return;
    }
    case Kind::copy: {
      const annotate scope(node_name(number));
      if (!rests) copy_async(address(op.out, run.version), address(op.in, run.version), bytes, stream);
      return;
    }
    case Kind::allocate: {
      Buffer<Word>& memory = memory_[at(op.out.buffer)];
      memory.reset();  // of an earlier run
      memory = Buffer<Word>(op.count, stream);
      addresses_[at(op.out.buffer)] = memory.data();
      return memory.fill_bytes_async(static_cast<unsigned char>(op.value), stream);
    }
    case Kind::allocate_async:
      addresses_[at(op.out.buffer)] = allocate_filled(stream, op.value, op.count);
      return;
    case Kind::free:
      addresses_[at(op.out.buffer)] = nullptr;
      return memory_[at(op.out.buffer)].reset();
    case Kind::free_async:
      return free_async(std::exchange(addresses_[at(op.out.buffer)], nullptr), stream);
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

// Submits the operations of the body, in the stream that it has in an eager run or a capture of its own.
void Machine::submit_body(int body, const StreamRef& stream, const Run& run) {
  const std::vector<Operation>& operations = program_.bodies[at(body)].operations;
  const StreamRef side = side_streams_[at(body)];
  for (std::size_t i = 0; i < operations.size(); ++i) {
    if (operations[i].beside) side.wait(stream);
    submit(operations[i], operations[i].beside ? side : stream, run, first_of_body_[at(body)] + i);
    if (i > 0 && operations[i - 1].beside) stream.wait(side);
  }
}

void Machine::run_child(int body, const StreamRef& stream, const Run& run) {
  if (!run.capturing) return submit_body(body, stream, run);
  if (program_.bodies[at(body)].by_replay)
    bodies_[at(body)].replay(stream);
  else
    add_child(bodies_[at(body)], stream);
}

void Machine::run_flow(const Operation& op, const StreamRef& stream, const Run& run, std::size_t number) {
  const std::size_t device = stream.device() == first_ ? 0 : 1;
  const Flow::Place place{run.capturing, conditions_[device].data() + words_of_condition * number,
                          generators_of(stream)};
  const Flow flow(stream, place, address(op.in, run.version), op.value, conditions_of(op));
  std::vector<FlowBody> bodies;
  for (const int body : bodies_of(op))
    bodies.push_back(
        {[this, body, &run](const StreamRef& inner) { submit_body(body, inner, run); }, draws_of(program_, body)});
  switch (op.kind) {
    case Kind::if_:
      return flow.if_(bodies[0]);
    case Kind::if_else:
      return flow.if_else(bodies[0], bodies[1]);
    case Kind::switch_:
      return flow.switch_(bodies);
    default:
      return flow.while_(bodies[0], op.limit);
  }
}

const Generator* Machine::generators_of(const StreamRef& stream) const {
  return generators_.data() + (stream.device() == first_ ? 0 : generators_of_device);
}

// The next run gets the new one, which may have the same handle.
void Machine::replace_stream(int number) {
  const StreamSpec& spec = program_.streams[at(number)];
  { const Stream ended = std::move(streams_[at(number)]); }
  streams_[at(number)] = Stream(device(spec.device), StreamOptions{spec.blocking});
}

}  // namespace reprise::differential
