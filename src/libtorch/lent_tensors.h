// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <ATen/core/Tensor.h>

#include <cstddef>
#include <memory>
#include <vector>

#include "libtorch/pool_order.h"

// Tensors that graphed callables return: in memory of the graph, or copied from there.

namespace reprise::libtorch {

/// Memory of a graph as the result of a call: a tensor with a storage of its own over the same memory, which it keeps
/// alive. Whatever is made of it (views, detached ones) has the same storage, and so is known as a result of that call.
at::Tensor lend(const at::Tensor& memory, std::shared_ptr<Call> call);

/// The call that lent the memory of a tensor; null if none did.
const Call* lent_by(const at::Tensor& tensor);

/// Copies of the same tensors, made again and again by one kernel, each time in new memory.
class FreshCopies {
 public:
  FreshCopies() = default;
  /// \param sources each without gaps and overlaps; undefined ones stay so.
  /// \param second number of the first source that is copied into another piece of memory than those before: memory is
  ///        freed when all copies in it are gone.
  FreshCopies(std::vector<at::Tensor> sources, std::size_t second);

  /// In the order of the current stream.
  std::vector<at::Tensor> make() const;

 private:
  struct Source {
    at::Tensor tensor;
    std::size_t buffer, offset, bytes;
  };
  std::vector<Source> sources_;
  std::size_t buffer_bytes_[2] = {0, 0};
};

}  // namespace reprise::libtorch
