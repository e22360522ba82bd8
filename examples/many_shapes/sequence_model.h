// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <vector>

#include "reprise/reprise.h"

namespace many_shapes {

/// A model of sequences: layers that multiply each token by a matrix, and average it with the tokens before it.
class SequenceModel {
 public:
  /// \param width values of a token.
  SequenceModel(std::size_t layers, std::size_t width);

  /// Returns the tokens after all layers, in the order of the current stream.
  /// \param tokens `length` rows of width() values.
  /// \param length rows; those behind the true ones do not change what comes out of these.
  reprise::Buffer<float> forward(reprise::DeviceView<const float> tokens, std::size_t length) const;

  std::size_t width() const noexcept { return width_; }

 private:
  std::size_t width_;
  std::vector<reprise::Buffer<float>> weights_;  // of each layer
};

/// Random tokens of a sequence, the same for the same number.
reprise::Buffer<float> make_tokens(std::size_t number, std::size_t length, std::size_t width);

}  // namespace many_shapes
