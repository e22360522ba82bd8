// SPDX-License-Identifier: Apache-2.0
#include "libtorch/fallback.h"

#include <ATen/core/enum_tag.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/empty_strided.h>
#include <c10/core/DeviceGuard.h>

#include <algorithm>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "backend/host_work.h"
#include "libtorch/host_generator.h"
#include "libtorch/host_streams.h"
#include "libtorch/operator_call.h"
#include "libtorch/output_shapes.h"

namespace reprise::libtorch {
namespace {

using torch::jit::Stack;

// Random numbers that one call of an operator may draw, in units of a generator's offset: the CPU's generator, seeded
// by the offset, has no end.
constexpr std::uint64_t draws_of_a_call = 4;

std::string name_of(const c10::OperatorHandle& op) {
  return c10::toString(op.operator_name());
}

template <class F>
void for_each_tensor(const c10::IValue& value, F&& f) {
  if (value.isTensor()) {
    f(value.toTensor());
  } else if (value.isTensorList()) {
    for (const at::Tensor& tensor : value.toTensorVector()) f(tensor);
  } else if (value.isOptionalTensorList()) {
    for (const auto& tensor : value.toOptionalTensorVector())
      if (tensor) f(*tensor);
  }
}

// Where the operator runs: on the device of its first tensor that is here, else on the current one.
c10::Device device_of(const c10::OperatorHandle& op, const Stack& stack) {
  std::optional<c10::Device> found;
  for (const c10::IValue& value : torch::jit::last(stack, op.schema().arguments().size())) {
    for_each_tensor(value, [&](const at::Tensor& tensor) {
      if (!is_here(tensor)) return;
      if (!found) found = tensor.device();
      TORCH_CHECK(*found == tensor.device(), name_of(op), ": expected all tensors on one device, found ", *found,
                  " and ", tensor.device());
    });
    if (!found && value.isDevice() && value.toDevice().is_privateuseone()) found = value.toDevice();
  }
  return found.value_or(c10::Device(c10::DeviceType::PrivateUse1, -1));
}

std::vector<bool> written_arguments(const c10::FunctionSchema& schema) {
  std::vector<bool> writes;
  for (const c10::Argument& argument : schema.arguments())
    writes.push_back(argument.alias_info() != nullptr && argument.alias_info()->isWrite());
  return writes;
}

// A generator of the call, or the default one, gives it numbers if it is one that draws.
void give_random_numbers(OperatorCall& call, const Stack& stack, c10::Device device) {
  const auto& schema = call.op().schema();
  const auto arguments = torch::jit::last(stack, schema.arguments().size());
  for (std::size_t i = 0; i < arguments.size(); ++i) {
    if (schema.arguments()[i].type()->str() != "Generator?" && !arguments[i].isGenerator()) continue;
    const at::Generator given =
        arguments[i].isNone() ? default_host_generator(device.index()) : arguments[i].toGenerator();
    TORCH_CHECK(given.device().is_privateuseone(), name_of(call.op()), ": expected a generator of device ", device,
                ", found one of ", given.device());
    call.draw_from(given.get<HostGenerator>()->generator().philox_state(draws_of_a_call, current_stream_of(device)));
    return;
  }
}

// The results of the CPU's kernel go to where the caller was told that they would be.
void store(const c10::IValue& result, const std::vector<TensorOperand>& outputs, std::size_t& next) {
  for_each_tensor(result, [&](const at::Tensor& tensor) {
    if (!tensor.defined()) return;
    TORCH_CHECK(next < outputs.size(), "an operator returned more tensors than it had announced");
    const TensorOperand& output = outputs[next++];
    TORCH_CHECK(tensor.sizes().equals(output.sizes), "an operator returned sizes ", tensor.sizes(),
                " that differ from those it had announced");
    output.on_cpu().copy_(tensor);
  });
}

void run_later(std::shared_ptr<OperatorCall> call, std::vector<TensorOperand> outputs, c10::Device device) {
  std::vector<MemoryAccess> accesses = call->accesses();
  for (const TensorOperand& output : outputs)
    if (const MemoryAccess access = output.access(true); access.bytes > 0) accesses.push_back(access);
  const std::string name = name_of(call->op());
  backend::enqueue(
      current_stream_of(device), name,
      [call = std::move(call), outputs = std::move(outputs)] {
        const Stack results = call->run();
        std::size_t next = 0;
        if (!outputs.empty())
          for (const c10::IValue& result : results) store(result, outputs, next);
      },
      accesses);
}

// The arguments that are written are what is returned, in their order.
void return_written(const c10::FunctionSchema& schema, const std::vector<bool>& writes, Stack* stack) {
  const auto arguments = torch::jit::last(*stack, writes.size()).vec();
  torch::jit::drop(*stack, writes.size());
  std::size_t returned = 0;
  for (std::size_t i = 0; i < writes.size() && returned < schema.returns().size(); ++i) {
    if (!writes[i]) continue;
    stack->push_back(arguments[i]);
    ++returned;
  }
}

// Outputs that were given without a size get one, as the CPU's kernel would give it.
void size_empty_outputs(const c10::OperatorHandle& op, const std::vector<bool>& writes, const Stack& stack) {
  const auto arguments = torch::jit::last(stack, writes.size());
  bool any = false;
  for (std::size_t i = 0; i < writes.size(); ++i)
    any |= writes[i] && op.schema().arguments()[i].kwarg_only() && arguments[i].isTensor() &&
           arguments[i].toTensor().numel() == 0;
  if (!any) return;
  const Stack shapes = output_shapes(op, stack);
  std::size_t next = 0;
  for (std::size_t i = 0; i < writes.size(); ++i) {
    if (!writes[i] || next >= shapes.size()) continue;
    const c10::IValue& shape = shapes[next++];
    if (arguments[i].isTensor() && shape.isTensor() && shape.toTensor().defined() &&
        !arguments[i].toTensor().sizes().equals(shape.toTensor().sizes()))
      arguments[i].toTensor().resize_(shape.toTensor().sizes());
  }
}

// Is it an operator whose results only the values decide?
bool depends_on_values(const c10::OperatorHandle& op) {
  if (op.hasTag(at::Tag::dynamic_output_shape) || op.hasTag(at::Tag::data_dependent_output)) return true;
  const auto& returns = op.schema().returns();
  return std::any_of(returns.begin(), returns.end(), [](const c10::Argument& each) {
    const c10::TypeKind kind = each.type()->kind();
    return kind == c10::TypeKind::BoolType || kind == c10::TypeKind::IntType || kind == c10::TypeKind::FloatType ||
           kind == c10::TypeKind::NumberType;
  });
}

// Waits for the stream, which a capture does not allow.
void run_now(const c10::OperatorHandle& op, Stack* stack, const std::vector<bool>& writes, c10::Device device) {
  const StreamRef stream = current_stream_of(device);
  const std::vector<bool>& writes_nothing = writes;
  auto call = std::make_shared<OperatorCall>(op, *stack, writes_nothing);
  give_random_numbers(*call, *stack, device);
  auto results = std::make_shared<Stack>();
  if (stream.capture_status() == CaptureStatus::none)
    backend::enqueue(
        stream, name_of(op), [call, results] { *results = call->run(); }, call->accesses());
  try {
    stream.synchronize();
  } catch (const BackendError& error) {
    TORCH_CHECK(false, name_of(op),
                " has to wait for the device, since its result depends on values there: ", error.what());
  }
  torch::jit::drop(*stack, writes.size());
  for (c10::IValue& result : *results) {
    if (result.isTensor() && result.toTensor().defined()) result = result.toTensor().to(device);
    stack->push_back(std::move(result));
  }
}

// A view: `shape` has sizes, strides and offset of the result, made from a stand-in.
at::Tensor view_of(const at::Tensor& base, const at::Tensor& shape) {
  return base.as_strided(shape.sizes(), shape.strides(), shape.storage_offset());
}

bool returns_views(const c10::FunctionSchema& schema) {
  const auto& returns = schema.returns();
  return !returns.empty() && returns[0].alias_info() != nullptr && !returns[0].alias_info()->isWrite();
}

void return_views(const c10::OperatorHandle& op, Stack* stack) {
  const std::size_t count = op.schema().arguments().size();
  const at::Tensor base = torch::jit::peek(*stack, 0, count).toTensor();
  Stack shapes = output_shapes(op, *stack);
  torch::jit::drop(*stack, count);
  for (const c10::IValue& shape : shapes) {
    if (shape.isTensor()) {
      stack->emplace_back(view_of(base, shape.toTensor()));
    } else {
      c10::List<at::Tensor> views;
      for (const at::Tensor& each : shape.toTensorVector()) views.push_back(view_of(base, each));
      stack->emplace_back(views);
    }
  }
}

at::Tensor allocate_like(const at::Tensor& shape, c10::Device device, std::vector<TensorOperand>& outputs) {
  if (!shape.defined()) return shape;
  at::Tensor made = at::empty_strided(shape.sizes(), shape.strides(), shape.options().device(device));
  outputs.emplace_back(made);
  return made;
}

void run_and_return_new(const c10::OperatorHandle& op, Stack* stack, const std::vector<bool>& writes,
                        c10::Device device) {
  const Stack shapes = output_shapes(op, *stack);
  auto call = std::make_shared<OperatorCall>(op, *stack, writes);
  give_random_numbers(*call, *stack, device);
  torch::jit::drop(*stack, writes.size());
  std::vector<TensorOperand> outputs;
  for (const c10::IValue& shape : shapes) {
    if (shape.isTensor()) {
      stack->emplace_back(allocate_like(shape.toTensor(), device, outputs));
    } else if (shape.isTensorList()) {
      c10::List<at::Tensor> made;
      for (const at::Tensor& each : shape.toTensorVector()) made.push_back(allocate_like(each, device, outputs));
      stack->emplace_back(made);
    } else {
      stack->push_back(shape);
    }
  }
  run_later(std::move(call), std::move(outputs), device);
}

}  // namespace

void fallback(const c10::OperatorHandle& op, Stack* stack) {
  const c10::Device device = device_of(op, *stack);
  const c10::DeviceGuard guard(device);
  const c10::FunctionSchema& schema = op.schema();
  const std::vector<bool> writes = written_arguments(schema);
  if (depends_on_values(op)) return run_now(op, stack, writes, device);
  if (std::find(writes.begin(), writes.end(), true) != writes.end()) {
    size_empty_outputs(op, writes, *stack);
    auto call = std::make_shared<OperatorCall>(op, *stack, writes);
    give_random_numbers(*call, *stack, device);
    run_later(std::move(call), {}, device);
    return return_written(schema, writes, stack);
  }
  if (returns_views(schema)) return return_views(op, stack);
  run_and_return_new(op, stack, writes, device);
}

}  // namespace reprise::libtorch
