// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <ATen/core/Tensor.h>
#include <torch/csrc/distributed/c10d/Backend.hpp>

#include <string>
#include <vector>

namespace reprise::libtorch {

/// A parameter or buffer with its name.
struct NamedTensor {
  std::string name;
  at::Tensor tensor;
};

/// Compares what all ranks pass. To be called by all, outside of captures; waits for the others.
/// \param settings what besides must be the same, in a line.
/// \throws UsageError, on all ranks, if one of them differs from rank 0: names both, and the first difference.
void require_same_on_all_ranks(c10d::Backend& group, c10::Device device, const std::string& settings,
                               const std::vector<NamedTensor>& tensors);

/// Copies the values of rank 0 to all others. To be called by all, outside of captures.
void copy_from_first_rank(c10d::Backend& group, c10::Device device, const std::vector<NamedTensor>& tensors);

}  // namespace reprise::libtorch
