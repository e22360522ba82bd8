// SPDX-License-Identifier: Apache-2.0
#include "libtorch/host/operator_call.h"

#include <c10/core/CPUAllocator.h>

#include <cstddef>
#include <utility>

#include "libtorch/host/host_generator.h"

namespace reprise::libtorch {
namespace {

// A tensor that a kernel writes to.
struct Written {
  std::size_t argument;
  const TensorOperand* operand;
  at::Tensor tensor;
};

c10::IValue restored(const KeptArgument& kept, std::size_t argument, bool writes, std::vector<Written>& written) {
  std::size_t next = 0;
  return with_tensors(kept.value, [&](const at::Tensor& tensor) {
    const std::optional<TensorOperand>& operand = kept.operands[next++];
    if (!operand) return tensor;
    at::Tensor made = operand->on_cpu();
    if (writes) written.push_back({argument, &*operand, made});
    return made;
  });
}

}  // namespace

at::Tensor kept_values(const at::Tensor& tensor) {
  at::Tensor kept = tensor.detach().clone();
  // A wrapped number has a lower priority in type promotion.
  if (tensor.unsafeGetTensorImpl()->is_wrapped_number()) kept.unsafeGetTensorImpl()->set_wrapped_number(true);
  return kept;
}

TensorOperand::TensorOperand(const at::Tensor& tensor)
    : data(tensor.has_storage() && tensor.numel() > 0 ? tensor.mutable_data_ptr() : nullptr),
      sizes(tensor.sizes().begin(), tensor.sizes().end()),
      strides(tensor.strides().begin(), tensor.strides().end()),
      dtype(tensor.scalar_type()),
      conjugated(tensor.is_conj()),
      negative(tensor.is_neg()) {
  TORCH_CHECK(tensor.layout() == c10::kStrided, "expected a dense tensor (layout strided) of the host device, found ",
              tensor.layout());
}

// With a resizable storage: kernels resize their outputs temporarily, which are then in other memory; see
// OperatorCall::run().
at::Tensor TensorOperand::on_cpu() const {
  const std::size_t bytes = data != nullptr ? access(false).bytes : 0;
  auto storage = c10::make_intrusive<c10::StorageImpl>(c10::StorageImpl::use_byte_size_t(), bytes,
                                                       at::DataPtr(data_now(), c10::Device(c10::kCPU)),
                                                       c10::GetCPUAllocator(), /*resizable=*/true);
  at::Tensor tensor = at::detail::make_tensor<c10::TensorImpl>(
      c10::Storage(std::move(storage)), c10::DispatchKeySet(c10::DispatchKey::CPU), c10::scalarTypeToTypeMeta(dtype));
  tensor.unsafeGetTensorImpl()->set_sizes_and_strides(sizes, strides);
  if (conjugated) tensor._set_conj(true);
  if (negative) tensor._set_neg(true);
  return tensor;
}

MemoryAccess TensorOperand::access(bool writes) const {
  if (data == nullptr) return {};
  std::size_t last = 0;
  for (std::size_t i = 0; i < sizes.size(); ++i)
    last += static_cast<std::size_t>(sizes[i] - 1) * static_cast<std::size_t>(strides[i]);
  return {data, (last + 1) * c10::elementSize(dtype), writes};
}

OperatorCall::OperatorCall(const c10::OperatorHandle& op, const torch::jit::Stack& stack)
    : op_(op), traits_(traits_of(op)) {
  const auto arguments = torch::jit::last(stack, traits_.arguments);
  arguments_.reserve(traits_.arguments);
  for (std::size_t i = 0; i < traits_.arguments; ++i) arguments_.push_back(kept(arguments[i], i));
}

KeptArgument OperatorCall::kept(const c10::IValue& value, std::size_t argument) {
  if (traits_.generator == argument) return {};  // run() has one
  if (value.isDevice()) return {c10::Device(c10::DeviceType::CPU)};
  KeptArgument made;
  made.value = with_tensors(value, [&](const at::Tensor& tensor) {
    if (!is_here(tensor)) {
      made.operands.emplace_back(std::nullopt);
      return tensor.defined() ? kept_values(tensor) : tensor;
    }
    const MemoryAccess access = made.operands.emplace_back(std::in_place, tensor)->access(false);
    if (access.bytes > 0) {
      accesses_.push_back(access);
      if (traits_.writes[argument]) accesses_.push_back({access.address, access.bytes, true});
    }
    return at::Tensor();
  });
  return made;
}

torch::jit::Stack OperatorCall::run(const std::function<void(std::size_t, const at::Tensor&)>& resized) const {
  std::vector<Written> written;
  torch::jit::Stack stack;
  stack.reserve(arguments_.size());
  for (std::size_t i = 0; i < arguments_.size(); ++i)
    stack.push_back(traits_.generator == i ? (random_ ? c10::IValue(cpu_generator(*random_)) : c10::IValue())
                                           : restored(arguments_[i], i, traits_.writes[i], written));
  op_.callBoxed(&stack);
  for (const Written& each : written) {
    const bool same_sizes = each.tensor.sizes().equals(each.operand->sizes);
    if (same_sizes && (each.operand->data == nullptr || each.tensor.const_data_ptr() == each.operand->data_now()))
      continue;
    if (resized) {
      resized(each.argument, each.tensor);
      continue;
    }
    TORCH_CHECK(same_sizes, "it gave its output the size ", each.tensor.sizes(), ", where the size ",
                c10::IntArrayRef(each.operand->sizes), " was expected");
    each.operand->on_cpu().copy_(each.tensor);
  }
  return stack;
}

}  // namespace reprise::libtorch
