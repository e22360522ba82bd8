// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <torch/torch.h>

#include <cstdint>

namespace train_transformer {

/// Sizes of a Transformer.
struct Sizes {
  std::int64_t characters;  ///< kinds of them
  std::int64_t context;     ///< characters that a prediction is made of, at most
  std::int64_t blocks;
  std::int64_t width;  ///< a multiple of `heads`
  std::int64_t heads;
  double dropout;
};

/// A decoder: blocks of causal attention and a network of two layers, each with a norm before it.
struct TransformerImpl : torch::nn::Module {
  explicit TransformerImpl(const Sizes& sizes);

  /// \param text numbers of characters, {rows, length}, where the length is `context` or less.
  /// \returns what follows each character: logits, {rows, length, characters}.
  torch::Tensor forward(const torch::Tensor& text);

  torch::nn::Embedding characters{nullptr};
  torch::Tensor positions;
  torch::nn::Sequential blocks;
  torch::nn::LayerNorm norm{nullptr};
  torch::nn::Linear head{nullptr};
};
TORCH_MODULE(Transformer);

}  // namespace train_transformer
