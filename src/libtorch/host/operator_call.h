// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <ATen/core/Tensor.h>
#include <ATen/core/dispatch/Dispatcher.h>
#include <ATen/core/stack.h>
#include <c10/util/SmallVector.h>

#include <functional>
#include <optional>
#include <utility>
#include <vector>

#include "backend/host_work.h"
#include "libtorch/host/operator_traits.h"
#include "reprise/kernel.h"
#include "reprise/random.h"

namespace reprise::libtorch {

/// A tensor of the host device, as stored in a node: memory, sizes, strides and type; not the tensor itself, so that
/// its memory can be reused in the order of the stream.
struct TensorOperand {
  explicit TensorOperand(const at::Tensor& tensor);

  /// The same memory as a CPU tensor. On the thread that runs the operator.
  at::Tensor on_cpu() const;
  /// Where the memory is in this run of the operator. On the same thread.
  void* data_now() const { return backend::operand_now(data); }
  /// From the first to the last value.
  MemoryAccess access(bool writes) const;

  void* data;
  c10::SmallVector<std::int64_t, 5> sizes, strides;
  c10::ScalarType dtype;
  bool conjugated, negative;  ///< libtorch's conjugated and negated views
};

/// One argument of an operator, kept until it runs.
struct KeptArgument {
  c10::IValue value;  ///< where it has tensors of the host device: undefined ones
  c10::SmallVector<std::optional<TensorOperand>, 1> operands = {};  ///< by tensor; nullopt: of another device
};

/// A call of an operator with tensors of the host device, kept to run later by the CPU's kernel.
class OperatorCall {
 public:
  /// Keeps the last arguments of the stack; they stay there.
  /// \throws c10::Error for tensors that are not dense.
  OperatorCall(const c10::OperatorHandle& op, const torch::jit::Stack& stack);

  /// Sets the source of the operator's draws. Called before it runs.
  void draw_from(const PhiloxState& state) {
    random_ = state;
    if (const MemoryAccess words = state.access(); words.bytes > 0) accesses_.push_back(words);
  }

  /// Runs the CPU's kernel, within enqueue_kernels(), and returns its result. On any thread, any number of times.
  /// Written arguments are updated in place; a resized argument is passed to `resized` with its number, and is an error
  /// without.
  torch::jit::Stack run(const std::function<void(std::size_t, const at::Tensor&)>& resized = {}) const;

  const OperatorTraits& traits() const { return traits_; }
  /// The memory that it reads and writes.
  const std::vector<MemoryAccess>& accesses() const { return accesses_; }

 private:
  KeptArgument kept(const c10::IValue& value, std::size_t argument);

  c10::OperatorHandle op_;
  const OperatorTraits& traits_;
  std::vector<KeptArgument> arguments_;
  std::vector<MemoryAccess> accesses_;
  std::optional<PhiloxState> random_;
};

/// Copies a tensor of the CPU, which the caller may change once the call has returned.
at::Tensor kept_values(const at::Tensor& tensor);

/// True for a defined tensor of the host device.
inline bool is_here(const at::Tensor& tensor) {
  return tensor.defined() && tensor.is_privateuseone();
}

/// A value with `f(tensor)` in place of each tensor: of one, or of those of a list, undefined ones too.
template <class F>
c10::IValue with_tensors(const c10::IValue& value, F&& f) {
  if (value.isTensor()) return f(value.toTensor());
  if (value.isTensorList()) {
    c10::List<at::Tensor> list;
    for (const at::Tensor& tensor : value.toTensorVector()) list.push_back(f(tensor));
    return list;
  }
  if (!value.isOptionalTensorList()) return value;
  c10::List<std::optional<at::Tensor>> list;
  for (const auto& tensor : value.toOptionalTensorVector()) {
    at::Tensor made = f(tensor.value_or(at::Tensor()));
    list.push_back(made.defined() ? std::optional(std::move(made)) : std::nullopt);
  }
  return list;
}

/// Calls `f` with each tensor of a value: one, or those of a list, undefined ones too.
template <class F>
void for_each_tensor(const c10::IValue& value, F&& f) {
  if (value.isTensor()) {
    f(value.toTensor());
  } else if (value.isTensorList()) {
    for (const at::Tensor& tensor : value.toTensorVector()) f(tensor);
  } else if (value.isOptionalTensorList()) {
    for (const auto& tensor : value.toOptionalTensorVector()) f(tensor.value_or(at::Tensor()));
  }
}

}  // namespace reprise::libtorch
