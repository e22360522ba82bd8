// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <vector>

#include "reprise/memory.h"
#include "reprise/stream.h"

namespace changing_inputs {

/// The inputs of one step: arrays on the device.
using Inputs = std::vector<reprise::Buffer<float>>;

/// `count` arrays of `values` values, different for each `step`.
Inputs make_inputs(std::size_t count, std::size_t values, unsigned step);

/// A step that reads many arrays: sum[i] = 1 * inputs[0][i] + 2 * inputs[1][i] + ..., a kernel each.
class WeightedSum {
 public:
  explicit WeightedSum(std::size_t values) : sum_(values) {}

  /// Submits a step to `stream`, to run or to be captured.
  void run(const Inputs& inputs, const reprise::StreamRef& stream);

  /// Returns the sums of the last step, after the work of `stream`.
  std::vector<float> result(const reprise::StreamRef& stream) const { return sum_.read(stream); }
  /// Computes them on the host.
  std::vector<float> expected(std::size_t inputs, unsigned step) const;

 private:
  reprise::Buffer<float> sum_;
};

}  // namespace changing_inputs
