// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <random>
#include <vector>

#include "reprise/memory.h"
#include "reprise/stream.h"

namespace eager_parts {

/// Sizes of the model.
struct Shape {
  std::size_t hidden = 64;       ///< values of the state
  std::size_t vocabulary = 256;  ///< tokens
  unsigned layers = 12;
};

/// A model that generates tokens one by one: a state, layers that change it, and a score for each token. Its weights
/// follow from their indices.
class Model {
 public:
  explicit Model(const Shape& shape);

  /// The state of a sequence that begins with no token.
  void restart();
  /// All layers, then the scores: many small kernels, on the current stream.
  void score();
  /// Adds a token, one value in device memory, to the state.
  void append(const reprise::Buffer<int>& token);

  const reprise::Buffer<float>& scores() const { return scores_; }

 private:
  const Shape shape_;
  reprise::Buffer<float> state_, next_, scores_;
};

/// Chooses tokens on the host: one of the best, by a random number.
class Sampler {
 public:
  static constexpr std::size_t best = 5;

  explicit Sampler(unsigned seed) : random_(seed) {}

  /// Reads the scores after the work of the current stream, which must not be captured, and returns the token as a
  /// buffer of one value.
  reprise::Buffer<int> choose(const reprise::Buffer<float>& scores);
  const std::vector<int>& chosen() const { return chosen_; }

 private:
  std::mt19937 random_;
  std::vector<int> chosen_;
};

}  // namespace eager_parts
