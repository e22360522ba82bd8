// SPDX-License-Identifier: Apache-2.0
#include "libtorch/host/fallback.h"

#include <ATen/ops/empty_strided.h>
#include <c10/core/DeviceGuard.h>

#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "libtorch/host/host_generator.h"
#include "libtorch/host/host_streams.h"
#include "libtorch/host/kernel_work.h"
#include "libtorch/host/operator_call.h"
#include "libtorch/host/output_shapes.h"

namespace reprise::libtorch {
namespace {

using torch::jit::Stack;

// Random numbers that one call of an operator may draw, in units of a generator's offset: the CPU's generator, whose
// state comes from seed and offset, has no end.
constexpr std::uint64_t draws_of_a_call = 4;

// CUDA takes a tensor of the CPU for a number that is read, and nowhere else.
void require_number(const OperatorTraits& traits, std::size_t argument, const at::Tensor& tensor) {
  TORCH_CHECK(tensor.is_cpu() && tensor.dim() == 0 && !traits.writes[argument], traits.name,
              ": expected all tensors on one device, found one of the host device, reprise, and one of ",
              tensor.device());
}

// The device of the operator: that of its first tensor on a host device, else the current one.
c10::Device device_of(const OperatorTraits& traits, const Stack& stack) {
  std::optional<c10::Device> found;
  const auto arguments = torch::jit::last(stack, traits.arguments);
  for (std::size_t i = 0; i < traits.arguments; ++i) {
    for_each_tensor(arguments[i], [&](const at::Tensor& tensor) {
      if (!tensor.defined()) return;
      if (!is_here(tensor)) return require_number(traits, i, tensor);
      if (!found) found = tensor.device();
      TORCH_CHECK(*found == tensor.device(), traits.name, ": expected all tensors on one device, found ", *found,
                  " and ", tensor.device());
    });
    if (!found && arguments[i].isDevice() && arguments[i].toDevice().is_privateuseone())
      found = arguments[i].toDevice();
  }
  return found.value_or(c10::Device(c10::DeviceType::PrivateUse1, -1));
}

// Provides numbers to an operator that draws, from the generator of the call or the default one.
void give_random_numbers(OperatorCall& call, const Stack& stack, c10::Device device) {
  const OperatorTraits& traits = call.traits();
  if (!traits.generator) return;
  const c10::IValue& argument = torch::jit::peek(stack, *traits.generator, traits.arguments);
  const at::Generator given = argument.isNone() ? default_host_generator(device.index()) : argument.toGenerator();
  TORCH_CHECK(given.device().is_privateuseone(), traits.name, ": expected a generator of device ", device,
              ", found one of ", given.device());
  call.draw_from(given.get<HostGenerator>()->generator().philox_state(draws_of_a_call, current_stream_of(device)));
}

// The memory of a new result; nullopt for a tensor that the operator leaves undefined.
using Outputs = std::vector<std::optional<TensorOperand>>;

// Copies new results of the CPU's kernel to the memory that the caller received.
void store(const OperatorTraits& traits, const Stack& results, const Outputs& outputs) {
  std::size_t next = 0;
  for (std::size_t i = 0; i < results.size(); ++i) {
    if (i < traits.returned.size() && traits.returned[i]) continue;
    for_each_tensor(results[i], [&](const at::Tensor& tensor) {
      TORCH_CHECK(next < outputs.size() && outputs[next].has_value() == tensor.defined(),
                  "it returned other tensors than it had announced");
      const std::optional<TensorOperand>& output = outputs[next++];
      if (!output) return;
      TORCH_CHECK(tensor.sizes().equals(output->sizes), "it returned the size ", tensor.sizes(),
                  ", where it had announced ", c10::IntArrayRef(output->sizes));
      output->on_cpu().copy_(tensor);
    });
  }
}

void run_later(std::shared_ptr<OperatorCall> call, Outputs outputs, c10::Device device) {
  std::vector<MemoryAccess> accesses = call->accesses();
  for (const auto& output : outputs) {
    if (!output) continue;
    if (const MemoryAccess access = output->access(true); access.bytes > 0) accesses.push_back(access);
  }
  const OperatorTraits& traits = call->traits();
  enqueue_kernels(
      current_stream_of(device), traits.name,
      [call = std::move(call), outputs = std::move(outputs)] {
        const Stack results = call->run();
        if (!outputs.empty()) store(call->traits(), results, outputs);
      },
      accesses);
}

// Resizes an output that was passed with another size than the operator's result.
void size_given_output(const OperatorTraits& traits, const Stack& stack, const at::Tensor& given,
                       const at::Tensor& shape) {
  if (!shape.defined() || given.sizes().equals(shape.sizes())) return;
  int uses = 0;
  for (const c10::IValue& argument : torch::jit::last(stack, traits.arguments))
    for_each_tensor(argument, [&](const at::Tensor& tensor) { uses += tensor.is_same(given) ? 1 : 0; });
  TORCH_CHECK(uses == 1, traits.name, ": an output of size ", given.sizes(),
              " was given, which is an input too; it cannot be resized to ", shape.sizes());
  if (given.numel() > 0)
    TORCH_WARN(traits.name, ": an output of size ", given.sizes(), " was given, and is resized to ", shape.sizes(),
               "; resizing one with elements is deprecated.");
  given.resize_(shape.sizes());
  given.unsafeGetTensorImpl()->set_sizes_and_strides(shape.sizes(), shape.strides());
}

// Waits for the stream, which a capture does not allow.
void run_now(const c10::OperatorHandle& op, Stack* stack, const OperatorTraits& traits, c10::Device device) {
  const StreamRef stream = current_stream_of(device);
  const auto wait = [&] { wait_for(stream, traits.name, ", since its result depends on values there"); };
  if (stream.capture_status() != CaptureStatus::none) wait();
  struct Results {
    Stack returned;
    std::vector<std::pair<std::size_t, at::Tensor>> resized;
    std::string refused;
  };
  const auto call = std::make_shared<OperatorCall>(op, *stack);
  give_random_numbers(*call, *stack, device);
  const auto results = std::make_shared<Results>();
  enqueue_kernels(
      stream, traits.name,
      [call, results] {
        try {
          results->returned = call->run(
              [&](std::size_t argument, const at::Tensor& tensor) { results->resized.emplace_back(argument, tensor); });
        } catch (const c10::Error& error) {  // the caller waits for it, and the device stays usable
          results->refused = error.what_without_backtrace();
        }
      },
      call->accesses());
  wait();
  TORCH_CHECK(results->refused.empty(), traits.name, ": ", results->refused);
  const auto arguments = torch::jit::pop(*stack, traits.arguments);
  for (const auto& [argument, tensor] : results->resized) {
    arguments[argument].toTensor().resize_(tensor.sizes());
    arguments[argument].toTensor().copy_(tensor);
  }
  for (std::size_t i = 0; i < results->returned.size(); ++i) {
    c10::IValue& result = results->returned[i];
    if (i < traits.returned.size() && traits.returned[i])
      stack->push_back(arguments[*traits.returned[i]]);
    else if (result.isTensor() && result.toTensor().defined())
      stack->emplace_back(result.toTensor().to(device));
    else
      stack->push_back(std::move(result));
  }
}

at::Tensor allocate_like(const at::Tensor& shape, c10::Device device, Outputs& outputs) {
  if (!shape.defined()) {
    outputs.emplace_back(std::nullopt);
    return shape;
  }
  TORCH_CHECK(shape.layout() == c10::kStrided, "The host device has dense tensors only, found ", shape.layout());
  at::Tensor made = at::empty_strided(shape.sizes(), shape.strides(), shape.options().device(device));
  outputs.emplace_back(std::in_place, made);
  return made;
}

// The results of the call: the written arguments, and new tensors for the rest.
Stack results_of(const OperatorTraits& traits, const Stack& shapes, const Stack& stack, c10::Device device,
                 Outputs& outputs) {
  Stack results;
  for (std::size_t i = 0; i < traits.returned.size(); ++i) {
    const c10::IValue& shape = shapes.at(i);
    if (traits.returned[i]) {
      const c10::IValue& given = torch::jit::peek(stack, *traits.returned[i], traits.arguments);
      if (given.isTensor() && shape.isTensor()) size_given_output(traits, stack, given.toTensor(), shape.toTensor());
      results.push_back(given);
    } else {
      results.push_back(
          with_tensors(shape, [&](const at::Tensor& each) { return allocate_like(each, device, outputs); }));
    }
  }
  return results;
}

}  // namespace

void fallback(const c10::OperatorHandle& op, Stack* stack) {
  const OperatorTraits& traits = traits_of(op);
  const c10::Device device = device_of(traits, *stack);
  const c10::DeviceGuard guard(device);
  if (traits.depends_on_values) return run_now(op, stack, traits, device);
  TORCH_INTERNAL_ASSERT(!traits.returns_views, traits.name);  // views have kernels
  Outputs outputs;
  Stack results = results_of(traits, output_shapes(op, *stack), *stack, device, outputs);
  auto call = std::make_shared<OperatorCall>(op, *stack);
  give_random_numbers(*call, *stack, device);
  torch::jit::drop(*stack, traits.arguments);
  run_later(std::move(call), std::move(outputs), device);
  for (c10::IValue& result : results) stack->push_back(std::move(result));
}

}  // namespace reprise::libtorch
