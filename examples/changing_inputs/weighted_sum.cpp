// SPDX-License-Identifier: Apache-2.0
#include "weighted_sum.h"

#include "reprise/kernel.h"

namespace changing_inputs {
namespace {

// Small whole numbers, so that all sums are exact.
float value_of(std::size_t input, unsigned step, std::size_t i) {
  return static_cast<float>((3 * input + 5 * step + i) % 16);
}

struct AddWeighted {
  REPRISE_KERNEL void operator()(reprise::Thread t, const float* x, float weight, float* sum, std::size_t n) const {
    if (t.global_x() < n) sum[t.global_x()] += weight * x[t.global_x()];
  }
};

}  // namespace

Inputs make_inputs(std::size_t count, std::size_t values, unsigned step) {
  Inputs inputs;
  for (std::size_t input = 0; input < count; ++input) {
    std::vector<float> on_host(values);
    for (std::size_t i = 0; i < values; ++i) on_host[i] = value_of(input, step, i);
    inputs.emplace_back(values).write(on_host);
  }
  return inputs;
}

void WeightedSum::run(const Inputs& inputs, const reprise::StreamRef& stream) {
  sum_.fill_bytes_async(0, stream);
  float weight = 0;
  for (const reprise::Buffer<float>& x : inputs)
    reprise::launch(stream, sum_.size(), AddWeighted{}, x.data(), weight += 1, sum_.data(), sum_.size());
}

std::vector<float> WeightedSum::expected(std::size_t inputs, unsigned step) const {
  std::vector<float> sums(sum_.size(), 0);
  for (std::size_t input = 0; input < inputs; ++input)
    for (std::size_t i = 0; i < sums.size(); ++i) sums[i] += static_cast<float>(input + 1) * value_of(input, step, i);
  return sums;
}

}  // namespace changing_inputs
