// SPDX-License-Identifier: Apache-2.0
#include "libtorch/output_shapes.h"

#include <ATen/core/LegacyTypeDispatch.h>
#include <ATen/core/dispatch/Dispatcher.h>
#include <ATen/ops/empty_strided.h>
#include <c10/core/InferenceMode.h>

#include <map>
#include <mutex>
#include <sstream>
#include <string>

#include "libtorch/operator_call.h"

namespace reprise::libtorch {
namespace {

// A stand-in for a tensor of the host device: the same sizes, strides and type.
at::Tensor stand_in(const at::Tensor& tensor, c10::DeviceType where) {
  if (!is_here(tensor))
    return where == c10::DeviceType::Meta && tensor.defined() && tensor.dim() > 0 ? tensor.to(where) : tensor;
  at::Tensor made =
      at::empty_strided(tensor.sizes(), tensor.strides(), at::TensorOptions().dtype(tensor.dtype()).device(where));
  if (where == c10::DeviceType::CPU) made.zero_();
  return made;
}

torch::jit::Stack stand_ins(const c10::OperatorHandle& op, const torch::jit::Stack& stack, c10::DeviceType where) {
  const std::size_t count = op.schema().arguments().size();
  torch::jit::Stack made;
  made.reserve(count);
  for (const c10::IValue& value : torch::jit::last(stack, count)) {
    if (value.isTensor()) {
      made.emplace_back(stand_in(value.toTensor(), where));
    } else if (value.isTensorList()) {
      c10::List<at::Tensor> list;
      for (const at::Tensor& tensor : value.toTensorVector()) list.push_back(stand_in(tensor, where));
      made.emplace_back(list);
    } else if (value.isOptionalTensorList()) {
      c10::List<std::optional<at::Tensor>> list;
      for (const std::optional<at::Tensor>& tensor : value.toOptionalTensorVector())
        list.push_back(tensor ? std::optional(stand_in(*tensor, where)) : std::nullopt);
      made.emplace_back(list);
    } else if (value.isDevice()) {
      made.emplace_back(c10::Device(where));
    } else if (value.isGenerator()) {
      made.emplace_back();
    } else {
      made.push_back(value);
    }
  }
  return made;
}

std::string key_of(const c10::OperatorHandle& op, const torch::jit::Stack& stack) {
  std::ostringstream key;
  key << op.operator_name();
  const auto add = [&](const at::Tensor& tensor) {
    if (!tensor.defined()) {
      key << "|-";
      return;
    }
    key << '|' << static_cast<int>(tensor.scalar_type()) << tensor.sizes() << tensor.strides();
  };
  for (const c10::IValue& value : torch::jit::last(stack, op.schema().arguments().size())) {
    if (value.isTensor()) {
      add(value.toTensor());
    } else if (value.isTensorList()) {
      for (const at::Tensor& tensor : value.toTensorVector()) add(tensor);
    } else if (value.isOptionalTensorList()) {
      for (const auto& tensor : value.toOptionalTensorVector()) add(tensor.value_or(at::Tensor()));
    } else if (!value.isGenerator()) {
      key << '|' << value;
    }
  }
  return key.str();
}

// Kept as meta tensors: no memory.
torch::jit::Stack from_one_run(const c10::OperatorHandle& op, const torch::jit::Stack& stack) {
  struct Known {
    std::mutex mutex;
    std::map<std::string, torch::jit::Stack> results;
  };
  static auto* const known = new Known;
  const std::string key = key_of(op, stack);
  {
    const std::lock_guard lock(known->mutex);
    const auto found = known->results.find(key);
    if (found != known->results.end()) return found->second;
  }
  torch::jit::Stack results = stand_ins(op, stack, c10::DeviceType::CPU);
  op.callBoxed(&results);
  for (c10::IValue& value : results) {
    const auto shape = [](const at::Tensor& tensor) {
      return tensor.defined() ? at::empty_strided(tensor.sizes(), tensor.strides(), tensor.options().device(at::kMeta))
                              : tensor;
    };
    if (value.isTensor()) {
      value = shape(value.toTensor());
    } else if (value.isTensorList()) {
      c10::List<at::Tensor> list;
      for (const at::Tensor& tensor : value.toTensorVector()) list.push_back(shape(tensor));
      value = list;
    }
  }
  const std::lock_guard lock(known->mutex);
  return known->results.emplace(key, std::move(results)).first->second;
}

}  // namespace

torch::jit::Stack output_shapes(const c10::OperatorHandle& op, const torch::jit::Stack& stack) {
  const c10::InferenceMode no_autograd(false);
  const at::AutoDispatchBelowADInplaceOrView below;
  if (op.hasKernelForDispatchKey(c10::DispatchKey::Meta) ||
      op.hasKernelForDispatchKey(c10::DispatchKey::CompositeExplicitAutograd)) {
    torch::jit::Stack results = stand_ins(op, stack, c10::DeviceType::Meta);
    try {
      op.callBoxed(&results);
      return results;
    } catch (const c10::NotImplementedError&) {
      // A kernel that is made of others, one of which has no meta kernel.
    }
  }
  return from_one_run(op, stack);
}

}  // namespace reprise::libtorch
