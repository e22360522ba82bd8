// SPDX-License-Identifier: Apache-2.0
#include "mlp.h"

#include <algorithm>
#include <cmath>
#include <random>

#include "reprise/kernel.h"

namespace mlp {
namespace {

/// x += bias, for each column of a matrix; then max(x, 0) if it is a hidden layer.
struct AddBias {
  REPRISE_KERNEL void operator()(reprise::Thread t, float* x, const float* bias, unsigned rows, std::size_t count,
                                 bool hidden) const {
    const std::size_t i = t.global_x();
    if (i >= count) return;
    const float value = x[i] + bias[i % rows];
    x[i] = hidden && value < 0 ? 0 : value;
  }
};

}  // namespace

std::vector<float> random_values(std::size_t count, unsigned seed) {
  std::mt19937 random(seed);
  std::vector<float> values(count);
  for (float& value : values) value = static_cast<float>(random() >> 8) * 0x1p-23F - 1;
  return values;
}

Network::Network(unsigned seed) {
  for (unsigned layer = 0; layer < layers; ++layer) {
    const std::size_t in = sizes[layer], out = sizes[layer + 1];
    host_weights_[layer] = random_values(in * out, seed + 2 * layer);
    // So that activations neither grow nor vanish from layer to layer.
    for (float& weight : host_weights_[layer]) weight *= 2 / std::sqrt(static_cast<float>(in));
    host_bias_[layer] = random_values(out, seed + 2 * layer + 1);
    weights_[layer] = reprise::Buffer<float>(host_weights_[layer]);
    bias_[layer] = reprise::Buffer<float>(host_bias_[layer]);
  }
}

Network::Activations::Activations(unsigned count) : columns(count) {
  for (unsigned i = 0; i <= layers; ++i) values[i] = reprise::Buffer<float>(std::size_t{sizes[i]} * columns);
}

void Network::forward(reprise::CublasHandle& blas, Activations& activations) const {
  const float one = 1, zero = 0;
  for (unsigned layer = 0; layer < layers; ++layer) {
    const int in = static_cast<int>(sizes[layer]), out = static_cast<int>(sizes[layer + 1]);
    const reprise::Buffer<float>& x = activations.values[layer];
    const reprise::Buffer<float>& y = activations.values[layer + 1];
    reprise::check_cublas(cublasSgemm(blas.on(), CUBLAS_OP_N, CUBLAS_OP_N, out, static_cast<int>(activations.columns),
                                      in, &one, weights_[layer].data(), out, x.data(), in, &zero, y.data(), out),
                          "cublasSgemm");
    reprise::launch(y.size(), AddBias{}, y.data(), bias_[layer].data(), sizes[layer + 1], y.size(), layer + 1 < layers);
  }
}

std::vector<float> Network::forward_on_host(const std::vector<float>& input, unsigned columns) const {
  std::vector<float> x = input;
  for (unsigned layer = 0; layer < layers; ++layer) {
    const std::size_t in = sizes[layer], out = sizes[layer + 1];
    std::vector<float> y(out * columns);
    for (std::size_t column = 0; column < columns; ++column) {
      for (std::size_t row = 0; row < out; ++row) {
        double sum = host_bias_[layer][row];
        for (std::size_t k = 0; k < in; ++k)
          sum += static_cast<double>(host_weights_[layer][k * out + row]) * x[column * in + k];
        y[column * out + row] = static_cast<float>(layer + 1 < layers ? std::max(sum, 0.0) : sum);
      }
    }
    x = std::move(y);
  }
  return x;
}

}  // namespace mlp
