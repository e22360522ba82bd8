// SPDX-License-Identifier: Apache-2.0
#include "model.h"

#include <cmath>
#include <limits>

namespace train_transformer {
namespace {

using torch::Tensor;

struct AttentionImpl : torch::nn::Module {
  explicit AttentionImpl(const Sizes& sizes)
      : heads(sizes.heads),
        in(register_module("in", torch::nn::Linear(sizes.width, 3 * sizes.width))),
        out(register_module("out", torch::nn::Linear(sizes.width, sizes.width))),
        dropout(register_module("dropout", torch::nn::Dropout(sizes.dropout))) {
    const Tensor all = torch::full({sizes.context, sizes.context}, -std::numeric_limits<float>::infinity());
    later = register_buffer("later", all.triu(1));
  }

  Tensor forward(const Tensor& x) {
    const auto rows = x.size(0), length = x.size(1), width = x.size(2);
    const std::vector<Tensor> parts =
        in->forward(x).view({rows, length, 3, heads, width / heads}).permute({2, 0, 3, 1, 4}).unbind();
    const Tensor scores = parts[0].matmul(parts[1].transpose(2, 3)) / std::sqrt(static_cast<double>(width / heads));
    const Tensor weights = (scores + later.slice(0, 0, length).slice(1, 0, length)).softmax(3);
    return out->forward(dropout->forward(weights).matmul(parts[2]).transpose(1, 2).reshape({rows, length, width}));
  }

  std::int64_t heads;
  torch::nn::Linear in, out;
  torch::nn::Dropout dropout;
  Tensor later;  // minus infinity for the characters that come later
};
TORCH_MODULE(Attention);

struct BlockImpl : torch::nn::Module {
  explicit BlockImpl(const Sizes& sizes)
      : before_attention(register_module("before_attention", norm_of(sizes))),
        attention(register_module("attention", Attention(sizes))),
        before_network(register_module("before_network", norm_of(sizes))),
        network(register_module(
            "network", torch::nn::Sequential(torch::nn::Linear(sizes.width, 4 * sizes.width), torch::nn::GELU(),
                                             torch::nn::Linear(4 * sizes.width, sizes.width),
                                             torch::nn::Dropout(sizes.dropout)))) {}

  Tensor forward(const Tensor& x) {
    const Tensor y = x + attention->forward(before_attention->forward(x));
    return y + network->forward(before_network->forward(y));
  }

  static torch::nn::LayerNorm norm_of(const Sizes& sizes) {
    return torch::nn::LayerNorm(torch::nn::LayerNormOptions({sizes.width}));
  }

  torch::nn::LayerNorm before_attention;
  Attention attention;
  torch::nn::LayerNorm before_network;
  torch::nn::Sequential network;
};
TORCH_MODULE(Block);

}  // namespace

TransformerImpl::TransformerImpl(const Sizes& sizes) {
  characters = register_module("characters", torch::nn::Embedding(sizes.characters, sizes.width));
  positions = register_parameter("positions", 0.02 * torch::randn({sizes.context, sizes.width}));
  register_module("blocks", blocks);
  for (std::int64_t i = 0; i < sizes.blocks; ++i) blocks->push_back(Block(sizes));
  norm = register_module("norm", BlockImpl::norm_of(sizes));
  head = register_module("head", torch::nn::Linear(sizes.width, sizes.characters));
}

Tensor TransformerImpl::forward(const Tensor& text) {
  const Tensor x = characters->forward(text) + positions.slice(0, 0, text.size(1));
  return head->forward(norm->forward(blocks->forward(x)));
}

}  // namespace train_transformer
