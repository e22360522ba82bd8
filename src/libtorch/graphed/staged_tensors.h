// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <ATen/core/Tensor.h>

#include <cstddef>
#include <cstdint>
#include <utility>
#include <vector>

#include "memory/copy_nodes.h"

namespace reprise::libtorch {

/// True if two tensors share memory, or may: also if they lie between each other's values.
bool may_overlap(const at::Tensor& a, const at::Tensor& b);
/// The addresses from the first byte to the one past the last, as numbers.
std::pair<std::uintptr_t, std::uintptr_t> memory_range(const at::Tensor& tensor);

/// Inputs of a graph that change at each replay: its own tensors, to which its first node copies the values. The
/// sources are parameters of the node; an operator copies before what the node cannot copy (other strides).
class StagedTensors {
 public:
  StagedTensors() = default;

  /// In a capture, before any node that reads them, on the current stream.
  /// \param tensors of one device; undefined ones are never staged.
  void capture(const std::vector<at::Tensor>& tensors);

  /// True if `from` overlaps a staged tensor other than in its own place: staging the others would overwrite it.
  bool in_the_way(std::size_t number, const at::Tensor& from) const;

  /// Makes the next replay read `from`, in the order of the current stream. Must live until then.
  /// \param from of the size, type and device of the tensor.
  void stage(std::size_t number, const at::Tensor& from);
  /// Makes the next replay read the tensor's present values.
  void keep(std::size_t number) { nodes_.set(number, {}); }

  void update(GraphExecHandle exec) { nodes_.update(exec); }

 private:
  struct Staged {
    at::Tensor tensor;
    void* data = nullptr;
    std::size_t bytes = 0;
    bool dense = false;  // bytes can be copied there
  };
  std::vector<Staged> staged_;
  std::uintptr_t begin_ = UINTPTR_MAX, end_ = 0;  // all lie between
  memory::CopyNodes nodes_;
};

/// True for the same values in the same places.
bool same_memory(const at::Tensor& a, const at::Tensor& b);

}  // namespace reprise::libtorch
