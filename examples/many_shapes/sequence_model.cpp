// SPDX-License-Identifier: Apache-2.0
#include "sequence_model.h"

#include <random>

#include "reprise/kernel.h"

namespace many_shapes {
namespace {

struct Multiply {
  REPRISE_KERNEL void operator()(reprise::Thread t, const float* x, const float* weights, float* y, std::size_t width,
                                 std::size_t n) const {
    const std::size_t i = t.global_x();
    if (i >= n) return;
    const float* const row = x + i / width * width;
    float sum = 0;
    for (std::size_t k = 0; k < width; ++k) sum += row[k] * weights[k * width + i % width];
    y[i] = sum > 0 ? sum : 0.1f * sum;
  }
};

struct AverageBefore {
  REPRISE_KERNEL void operator()(reprise::Thread t, const float* x, float* y, std::size_t width, std::size_t n) const {
    const std::size_t i = t.global_x();
    if (i >= n) return;
    float sum = 0;
    for (std::size_t row = 0; row <= i / width; ++row) sum += x[row * width + i % width];
    y[i] = sum / static_cast<float>(i / width + 1);
  }
};

std::vector<float> random_values(std::size_t count, std::size_t seed, float range) {
  std::mt19937 random(static_cast<std::mt19937::result_type>(seed));
  std::vector<float> values(count);
  for (float& value : values) value = range * (static_cast<float>(random() % 2001) / 1000.0f - 1);
  return values;
}

reprise::Buffer<float> on_device(const std::vector<float>& values) {
  reprise::Buffer<float> made(values.size());
  made.write(values);
  return made;
}

}  // namespace

SequenceModel::SequenceModel(std::size_t layers, std::size_t width) : width_(width) {
  for (std::size_t layer = 0; layer < layers; ++layer)
    weights_.push_back(on_device(random_values(width * width, layer, 0.5f)));
}

reprise::Buffer<float> SequenceModel::forward(reprise::DeviceView<const float> tokens, std::size_t length) const {
  const std::size_t n = length * width_;
  reprise::Buffer<float> mixed(n), states(n);
  const float* from = tokens.data();
  for (const reprise::Buffer<float>& weights : weights_) {
    reprise::launch(n, AverageBefore{}, from, mixed.data(), width_, n);
    reprise::launch(n, Multiply{}, static_cast<const float*>(mixed.data()), static_cast<const float*>(weights.data()),
                    states.data(), width_, n);
    from = states.data();
  }
  return states;
}

reprise::Buffer<float> make_tokens(std::size_t number, std::size_t length, std::size_t width) {
  return on_device(random_values(length * width, 1000 + number, 1));
}

}  // namespace many_shapes
