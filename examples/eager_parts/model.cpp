// SPDX-License-Identifier: Apache-2.0
#include "model.h"

#include <algorithm>
#include <numeric>

#include "reprise/kernel.h"

namespace eager_parts {
namespace {

/// A weight between -1 and 1.
REPRISE_KERNEL float weight(unsigned layer, std::size_t row, std::size_t column) {
  const auto mixed = static_cast<unsigned>((row * 31 + column * 17 + layer * 101 + 7) % 257);
  return static_cast<float>(mixed) / 128.0f - 1.0f;
}

/// y = x + w x / (1 + |w x|), a row a thread
struct Layer {
  REPRISE_KERNEL void operator()(reprise::Thread t, unsigned layer, const float* x, float* y, std::size_t n) const {
    const std::size_t row = t.global_x();
    if (row >= n) return;
    float sum = 0;
    for (std::size_t i = 0; i < n; ++i) sum += weight(layer, row, i) * x[i];
    y[row] = 0.5f * x[row] + sum / (1.0f + (sum < 0 ? -sum : sum));
  }
};

/// The score of a token
struct Score {
  REPRISE_KERNEL void operator()(reprise::Thread t, const float* x, std::size_t n, float* scores,
                                 std::size_t tokens) const {
    const std::size_t token = t.global_x();
    if (token >= tokens) return;
    float sum = 0;
    for (std::size_t i = 0; i < n; ++i) sum += weight(1000, token, i) * x[i];
    scores[token] = sum;
  }
};

/// The state, with a token
struct Append {
  REPRISE_KERNEL void operator()(reprise::Thread t, const int* token, float* x, std::size_t n) const {
    const std::size_t i = t.global_x();
    if (i < n) x[i] = 0.5f * x[i] + weight(2000, static_cast<std::size_t>(*token), i);
  }
};

}  // namespace

Model::Model(const Shape& shape) : shape_(shape), state_(shape.hidden), next_(shape.hidden), scores_(shape.vocabulary) {
  restart();
}

void Model::restart() {
  std::vector<float> first(shape_.hidden);
  for (std::size_t i = 0; i < first.size(); ++i) first[i] = weight(3000, 0, i);
  state_.write(first);
}

void Model::score() {
  const std::size_t n = shape_.hidden;
  for (unsigned layer = 0; layer < shape_.layers; ++layer) {
    reprise::launch(n, Layer{}, layer, state_.data(), next_.data(), n);
    reprise::copy_async(state_.data(), next_.data(), state_.size_bytes());
  }
  reprise::launch(scores_.size(), Score{}, state_.data(), n, scores_.data(), scores_.size());
}

void Model::append(const reprise::Buffer<int>& token) {
  reprise::launch(state_.size(), Append{}, token.data(), state_.data(), state_.size());
}

reprise::Buffer<int> Sampler::choose(const reprise::Buffer<float>& scores) {
  const std::vector<float> values = scores.read();
  std::vector<int> tokens(values.size());
  std::iota(tokens.begin(), tokens.end(), 0);
  const auto better = [&](int a, int b) {
    return values[static_cast<std::size_t>(a)] != values[static_cast<std::size_t>(b)]
               ? values[static_cast<std::size_t>(a)] > values[static_cast<std::size_t>(b)]
               : a < b;
  };
  const std::size_t kept = std::min(best, tokens.size());
  std::partial_sort(tokens.begin(), tokens.begin() + static_cast<std::ptrdiff_t>(kept), tokens.end(), better);
  chosen_.push_back(tokens[random_() % kept]);
  return reprise::Buffer<int>(std::span<const int>(&chosen_.back(), 1));
}

}  // namespace eager_parts
