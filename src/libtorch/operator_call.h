// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <ATen/core/Tensor.h>
#include <ATen/core/dispatch/Dispatcher.h>
#include <ATen/core/stack.h>

#include <optional>
#include <vector>

#include "reprise/kernel.h"
#include "reprise/random.h"

namespace reprise::libtorch {

/// A tensor of the host device as a node remembers it: memory, sizes, strides and type, and not the tensor, whose
/// memory may be given out again in the order of the stream.
struct TensorOperand {
  explicit TensorOperand(const at::Tensor& tensor);

  /// The same values as a CPU tensor. Where the operator runs.
  at::Tensor on_cpu() const;
  /// From the first to the last value.
  MemoryAccess access(bool writes) const;

  void* data;
  c10::SmallVector<std::int64_t, 5> sizes, strides;
  c10::ScalarType dtype;
};

/// One argument of an operator, kept for when it runs.
struct KeptArgument {
  enum class Kind { value, tensor, tensors, generator };
  Kind kind = Kind::value;
  c10::IValue value;                                   ///< a value; for a list of tensors, its type
  std::vector<std::optional<TensorOperand>> operands;  ///< one, or those of a list; none: not defined
  std::vector<at::Tensor> cpu;                         ///< in the places of CPU tensors in a list
};

/// A call of an operator with tensors of the host device: what it needs to run later, by the CPU's kernel.
class OperatorCall {
 public:
  /// Keeps the last arguments of the stack; they stay there.
  OperatorCall(const c10::OperatorHandle& op, const torch::jit::Stack& stack, const std::vector<bool>& writes);

  /// Draws made by the operator come from here. To be called before it runs.
  void draw_from(const PhiloxState& state) { random_ = state; }

  /// Runs the CPU's kernel; returns what the operator returns. On any thread, any number of times.
  torch::jit::Stack run() const;

  const c10::OperatorHandle& op() const { return op_; }
  /// What it reads and writes.
  const std::vector<MemoryAccess>& accesses() const { return accesses_; }

 private:
  void keep_tensor(KeptArgument& kept, const at::Tensor& tensor, bool writes);
  c10::IValue restored(const KeptArgument& kept) const;

  c10::OperatorHandle op_;
  std::vector<KeptArgument> arguments_;
  std::vector<MemoryAccess> accesses_;
  std::optional<PhiloxState> random_;
};

/// Is it a defined tensor of the host device?
inline bool is_here(const at::Tensor& tensor) {
  return tensor.defined() && tensor.is_privateuseone();
}

}  // namespace reprise::libtorch
