// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <vector>

#include "reprise/cublas.h"
#include "reprise/memory.h"

namespace mlp {

/// A network of three layers, forward only: each is a matrix product by cuBLAS and a kernel that adds the bias and,
/// except in the last layer, replaces negative values by 0.
///
/// Matrices are column-major, as in cuBLAS: a column of activations is one input of the batch.
class Network {
 public:
  static constexpr unsigned layers = 3;
  static constexpr unsigned sizes[layers + 1] = {256, 512, 512, 64};  ///< of input, hidden layers, output

  /// Random weights, in the memory of the current device.
  explicit Network(unsigned seed);

  /// Memory for the activations of a batch.
  struct Activations {
    explicit Activations(unsigned columns);

    unsigned columns;
    reprise::Buffer<float> values[layers + 1];  // input, hidden layers, output
  };

  /// Submits the work to the current stream, to run or to be captured.
  void forward(reprise::CublasHandle& blas, Activations& activations) const;

  /// The output for an input, computed on the host.
  std::vector<float> forward_on_host(const std::vector<float>& input, unsigned columns) const;

 private:
  std::vector<float> host_weights_[layers], host_bias_[layers];
  reprise::Buffer<float> weights_[layers], bias_[layers];
};

/// `count` numbers between -1 and 1.
std::vector<float> random_values(std::size_t count, unsigned seed);

}  // namespace mlp
