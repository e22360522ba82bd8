// SPDX-License-Identifier: Apache-2.0
#include "libtorch/operator_call.h"

#include <ATen/Parallel.h>
#include <ATen/core/LegacyTypeDispatch.h>
#include <ATen/ops/from_blob.h>
#include <c10/core/InferenceMode.h>
#include <c10/core/impl/LocalDispatchKeySet.h>

#include "libtorch/host_generator.h"

namespace reprise::libtorch {
namespace {

// The state of a thread of the device while it runs operators: one thread of ATen's, so that the order of sums does not
// depend on the machine, and no autograd, autocast or tracing of whoever called.
void prepare_thread() {
  thread_local const bool prepared = [] {
    at::set_num_threads(1);
    return true;
  }();
  static_cast<void>(prepared);
}

// A tensor of the CPU, which the caller may change once the call has returned. A number that was made a tensor counts
// less than others when types are promoted.
at::Tensor kept_values(const at::Tensor& tensor) {
  at::Tensor kept = tensor.detach().clone();
  kept.unsafeGetTensorImpl()->set_wrapped_number(tensor.unsafeGetTensorImpl()->is_wrapped_number());
  return kept;
}

}  // namespace

TensorOperand::TensorOperand(const at::Tensor& tensor)
    : data(tensor.has_storage() && tensor.numel() > 0 ? tensor.mutable_data_ptr() : nullptr),
      sizes(tensor.sizes().begin(), tensor.sizes().end()),
      strides(tensor.strides().begin(), tensor.strides().end()),
      dtype(tensor.scalar_type()) {}

at::Tensor TensorOperand::on_cpu() const {
  const auto options = at::TensorOptions().dtype(dtype).device(at::kCPU);
  static std::byte nothing;
  return at::from_blob(data != nullptr ? data : &nothing, sizes, strides, options);
}

MemoryAccess TensorOperand::access(bool writes) const {
  if (data == nullptr) return {};
  std::size_t last = 0;
  for (std::size_t i = 0; i < sizes.size(); ++i)
    last += static_cast<std::size_t>(sizes[i] - 1) * static_cast<std::size_t>(strides[i]);
  return {data, (last + 1) * c10::elementSize(dtype), writes};
}

OperatorCall::OperatorCall(const c10::OperatorHandle& op, const torch::jit::Stack& stack,
                           const std::vector<bool>& writes)
    : op_(op) {
  const std::size_t count = op.schema().arguments().size();
  const auto arguments = torch::jit::last(stack, count);
  arguments_.reserve(count);
  for (std::size_t i = 0; i < count; ++i) {
    const c10::IValue& value = arguments[i];
    KeptArgument& kept = arguments_.emplace_back();
    if (value.isTensor()) {
      keep_tensor(kept, value.toTensor(), writes[i]);
      kept.kind = kept.operands.front() ? KeptArgument::Kind::tensor : KeptArgument::Kind::value;
      if (kept.kind == KeptArgument::Kind::value) kept.value = kept.cpu.front();
    } else if (value.isTensorList() || value.isOptionalTensorList()) {
      kept.kind = KeptArgument::Kind::tensors;
      kept.value = value.isTensorList();
      for (const c10::IValue& element : value.toListRef())
        keep_tensor(kept, element.isNone() ? at::Tensor() : element.toTensor(), writes[i]);
    } else if (value.isGenerator() || (value.isNone() && op.schema().arguments()[i].type()->str() == "Generator?")) {
      kept.kind = KeptArgument::Kind::generator;
    } else if (value.isDevice()) {
      kept.value = c10::Device(c10::DeviceType::CPU);
    } else {
      kept.value = value;
    }
  }
}

void OperatorCall::keep_tensor(KeptArgument& kept, const at::Tensor& tensor, bool writes) {
  if (!is_here(tensor)) {
    kept.operands.emplace_back(std::nullopt);
    kept.cpu.push_back(tensor.defined() ? kept_values(tensor) : tensor);
    return;
  }
  kept.operands.emplace_back(tensor);
  kept.cpu.emplace_back();
  const MemoryAccess access = kept.operands.back()->access(false);
  if (access.bytes == 0) return;
  accesses_.push_back(access);
  if (writes) accesses_.push_back({access.address, access.bytes, true});
}

c10::IValue OperatorCall::restored(const KeptArgument& kept) const {
  const auto at = [&](std::size_t i) { return kept.operands[i] ? kept.operands[i]->on_cpu() : kept.cpu[i]; };
  switch (kept.kind) {
    case KeptArgument::Kind::value:
      return kept.value;
    case KeptArgument::Kind::tensor:
      return at(0);
    case KeptArgument::Kind::tensors: {
      if (kept.value.toBool()) {
        c10::List<at::Tensor> list;
        for (std::size_t i = 0; i < kept.operands.size(); ++i) list.push_back(at(i));
        return list;
      }
      c10::List<std::optional<at::Tensor>> list;
      for (std::size_t i = 0; i < kept.operands.size(); ++i) {
        const at::Tensor tensor = at(i);
        list.push_back(tensor.defined() ? std::optional(tensor) : std::nullopt);
      }
      return list;
    }
    case KeptArgument::Kind::generator:
      return random_ ? c10::IValue(cpu_generator(*random_)) : c10::IValue();
  }
  return {};
}

torch::jit::Stack OperatorCall::run() const {
  prepare_thread();
  // Below autograd and autocast: the caller has been through them.
  const c10::InferenceMode no_autograd(false);
  const at::AutoDispatchBelowADInplaceOrView below;
  torch::jit::Stack stack;
  stack.reserve(arguments_.size());
  for (const KeptArgument& kept : arguments_) stack.push_back(restored(kept));
  op_.callBoxed(&stack);
  return stack;
}

}  // namespace reprise::libtorch
