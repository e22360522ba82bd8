// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <ATen/core/Tensor.h>

#include <cstddef>
#include <cstdint>
#include <memory>
#include <vector>

#include "libtorch/graphed/pool_order.h"
#include "memory/copy_nodes.h"

// Tensors that graphed callables return: in memory of the graph, or copied from there.

namespace reprise::libtorch {

/// Sizes, strides and type of `like`, in a storage.
/// \param offset in values.
at::Tensor tensor_in(c10::Storage storage, const at::Tensor& like, std::int64_t offset);

/// New memory for work of the current stream; its device is the current one.
c10::Storage new_storage(c10::Device device, std::size_t bytes);

/// The alignment of parts of one allocation, in bytes: at least that of a separate tensor.
inline constexpr std::size_t part_alignment = 256;
constexpr std::size_t aligned_size(std::size_t bytes) {
  return (bytes + part_alignment - 1) / part_alignment * part_alignment;
}

/// Memory of a graph as the result of a call: a tensor with a separate storage over the same memory, which it keeps
/// alive. Tensors derived from it (views, detached ones) have the same storage, and so count as results of that call.
at::Tensor lend(const at::Tensor& memory, std::shared_ptr<GraphedCall> call);

/// The call whose result a tensor is; null if none.
const GraphedCall* lent_by(const at::Tensor& tensor);

/// Copies of the same tensors of a graph, made by the last nodes of the graph itself, at each replay in new memory.
class FreshCopies {
 public:
  FreshCopies() = default;

  /// In a capture, on the current stream.
  /// \param sources each without gaps and overlaps, and valid when the replay ends; undefined ones stay so.
  /// \param second number of the first source that is copied into a second allocation: memory is freed when all its
  ///        copies are gone.
  void capture(const std::vector<at::Tensor>& sources, std::size_t second);

  /// Returns the tensors for the next replay to write, in memory for the current stream.
  std::vector<at::Tensor> make();
  void update(GraphExecHandle exec) { nodes_.update(exec); }

 private:
  struct Source {
    at::Tensor like;  // has no memory
    const void* data = nullptr;
    std::size_t buffer = 0, offset = 0, bytes = 0;
  };
  std::vector<Source> sources_;
  std::size_t buffer_bytes_[2] = {0, 0};
  memory::CopyNodes nodes_;
};

}  // namespace reprise::libtorch
