// SPDX-License-Identifier: Apache-2.0
#include "libtorch/networks.h"

namespace benchmarks {
namespace {

// The layer, with the one argument that a Sequential passes.
struct BlockImpl : torch::nn::Module {
  BlockImpl()
      : layer(register_module(
            "layer", torch::nn::TransformerEncoderLayer(
                         torch::nn::TransformerEncoderLayerOptions(256, 4).dim_feedforward(1024).dropout(0)))) {}
  torch::Tensor forward(const torch::Tensor& x) { return layer->forward(x); }
  torch::nn::TransformerEncoderLayer layer;
};
TORCH_MODULE(Block);

// Before the host waits.
unsigned steps_on(const reprise::Device& device) {
  return device.type() == reprise::DeviceType::host ? 2 : 50;
}

}  // namespace

Network perceptron(unsigned layers, std::int64_t width, std::int64_t batch) {
  const auto make = [=] {
    torch::nn::Sequential network;
    for (unsigned i = 0; i < layers; ++i) {
      network->push_back(torch::nn::Linear(width, width));
      network->push_back(torch::nn::ReLU());
    }
    network->push_back(torch::nn::Linear(width, width));
    return network;
  };
  return {fmt::format("{} x {}, batch {}", layers, width, batch), make, {batch, width}};
}

Network convolutions() {
  const auto make = [] {
    const auto convolution = [](int in, int out) {
      return torch::nn::Conv2d(torch::nn::Conv2dOptions(in, out, 3).stride(2).padding(1));
    };
    return torch::nn::Sequential(convolution(3, 32), torch::nn::ReLU(), convolution(32, 64), torch::nn::ReLU(),
                                 convolution(64, 128), torch::nn::ReLU(), torch::nn::Flatten(),
                                 torch::nn::Linear(2048, 10));
  };
  return {"3 convolutions, batch 32", make, {32, 3, 32, 32}};
}

Network transformer_block() {
  return {"transformer block, 64 x 8 x 256", [] { return torch::nn::Sequential(Block()); }, {64, 8, 256}};
}

std::vector<double> step_times(const Settings& settings, const reprise::StreamRef& stream,
                               const std::vector<Side>& sides) {
  const unsigned steps = steps_on(settings.device);
  return medians(settings, sides.size(), [&](std::size_t side) {
    sides[side].step();
    stream.synchronize();
    return 1e6 / steps * seconds([&] {
             for (unsigned i = 0; i < steps; ++i) sides[side].step();
             stream.synchronize();
           });
  });
}

}  // namespace benchmarks
