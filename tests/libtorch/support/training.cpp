// SPDX-License-Identifier: Apache-2.0
#include "tests/libtorch/support/training.h"

#include <stdexcept>

namespace reprise::libtorch::test {
namespace {

namespace nn = torch::nn;
using torch::Tensor;

struct Perceptron final : NetworkImpl {
  explicit Perceptron(double dropout) {
    layers = register_module("layers", nn::Sequential(nn::Linear(8, 32), nn::ReLU(), nn::Dropout(dropout),
                                                      nn::Linear(32, 16), nn::GELU(), nn::Linear(16, 4)));
  }
  Tensor forward(Tensor x) override { return layers->forward(x); }
  nn::Sequential layers{nullptr};
};

struct Convolutions final : NetworkImpl {
  explicit Convolutions(double dropout) {
    layers =
        register_module("layers", nn::Sequential(nn::Conv2d(nn::Conv2dOptions(2, 6, 3).padding(1)), nn::BatchNorm2d(6),
                                                 nn::ReLU(), nn::MaxPool2d(2),
                                                 nn::Conv2d(nn::Conv2dOptions(6, 8, 3).stride(2).groups(2).bias(false)),
                                                 nn::BatchNorm2d(8), nn::SiLU(), nn::Dropout2d(dropout),
                                                 nn::AdaptiveAvgPool2d(2), nn::Flatten(), nn::Linear(32, 5)));
  }
  Tensor forward(Tensor x) override { return layers->forward(x); }
  nn::Sequential layers{nullptr};
};

struct Lstm final : NetworkImpl {
  explicit Lstm(double dropout) {
    recurrent = register_module("recurrent", nn::LSTM(nn::LSTMOptions(6, 10).num_layers(2).dropout(dropout)));
    last = register_module("last", nn::Linear(10, 3));
  }
  Tensor forward(Tensor x) override { return last->forward(std::get<0>(recurrent->forward(x))[-1]); }
  nn::LSTM recurrent{nullptr};
  nn::Linear last{nullptr};
};

struct Gru final : NetworkImpl {
  explicit Gru(double dropout) {
    recurrent = register_module(
        "recurrent",
        nn::GRU(
            nn::GRUOptions(6, 10).num_layers(2).bidirectional(true).bias(false).batch_first(true).dropout(dropout)));
    with_bias = register_module("with_bias", nn::GRU(20, 8));
    last = register_module("last", nn::Linear(8, 3));
  }
  Tensor forward(Tensor x) override {
    const Tensor by_time = std::get<0>(recurrent->forward(x.transpose(0, 1))).transpose(0, 1);
    return last->forward(std::get<0>(with_bias->forward(by_time))[-1]);
  }
  nn::GRU recurrent{nullptr}, with_bias{nullptr};
  nn::Linear last{nullptr};
};

struct Transformer final : NetworkImpl {
  explicit Transformer(double dropout) {
    embedding = register_module("embedding", nn::Embedding(12, 16));
    positions = register_parameter("positions", torch::randn({5, 1, 16}));
    layer = register_module(
        "layer",
        nn::TransformerEncoderLayer(nn::TransformerEncoderLayerOptions(16, 4).dim_feedforward(24).dropout(dropout)));
    attention =
        register_module("attention", nn::MultiheadAttention(nn::MultiheadAttentionOptions(16, 2).dropout(dropout)));
    norm = register_module("norm", nn::LayerNorm(nn::LayerNormOptions({16})));
    last = register_module("last", nn::Linear(16, 4));
  }
  Tensor forward(Tensor x) override {
    const Tensor encoded = layer->forward(embedding->forward(x) + positions);
    return last->forward(norm->forward(encoded + std::get<0>(attention->forward(encoded, encoded, encoded))).mean(0));
  }
  nn::Embedding embedding{nullptr};
  Tensor positions;
  nn::TransformerEncoderLayer layer{nullptr};
  nn::MultiheadAttention attention{nullptr};
  nn::LayerNorm norm{nullptr};
  nn::Linear last{nullptr};
};

}  // namespace

Network make_network(const std::string& name, double dropout) {
  torch::manual_seed(3);
  if (name == "perceptron") return std::make_shared<Perceptron>(dropout);
  if (name == "convolutions") return std::make_shared<Convolutions>(dropout);
  if (name == "lstm") return std::make_shared<Lstm>(dropout);
  if (name == "gru") return std::make_shared<Gru>(dropout);
  if (name == "transformer") return std::make_shared<Transformer>(dropout);
  throw std::invalid_argument("no network is called " + name);
}

std::vector<Batch> make_batches(const std::string& network, int count) {
  torch::manual_seed(5);
  std::vector<Batch> batches;
  for (int i = 0; i < count; ++i) {
    if (network == "perceptron") batches.push_back({torch::randn({9, 8}), torch::randn({9, 4})});
    if (network == "convolutions") batches.push_back({torch::randn({4, 2, 12, 12}), torch::randint(5, {4})});
    if (network == "lstm" || network == "gru") batches.push_back({torch::randn({5, 4, 6}), torch::randint(3, {4})});
    if (network == "transformer") batches.push_back({torch::randint(12, {5, 4}), torch::randint(4, {4})});
  }
  return batches;
}

Tensor loss_of(NetworkImpl& network, const Tensor& input, const Tensor& target) {
  const Tensor output = network.forward(input);
  return target.is_floating_point() ? torch::mse_loss(output, target) : torch::cross_entropy_loss(output, target);
}

std::unique_ptr<torch::optim::Optimizer> make_optimizer(const std::string& name, const NetworkImpl& network) {
  using namespace torch::optim;
  const auto parameters = network.parameters();
  if (name == "SGD") return std::make_unique<SGD>(parameters, SGDOptions(0.1));
  if (name == "SGD with momentum")
    return std::make_unique<SGD>(parameters, SGDOptions(0.05).momentum(0.9).nesterov(true).weight_decay(0.01));
  if (name == "RMSprop") return std::make_unique<RMSprop>(parameters, RMSpropOptions(0.003).momentum(0.5).eps(1e-4));
  // Where a gradient is nothing but rounding, a small eps would make steps of it.
  if (name == "Adam") return std::make_unique<Adam>(parameters, AdamOptions(0.003).eps(1e-4));
  if (name == "AdamW") return std::make_unique<AdamW>(parameters, AdamWOptions(0.003).eps(1e-4).amsgrad(true));
  throw std::invalid_argument("no optimizer is called " + name);
}

Tensor train_step(NetworkImpl& network, torch::optim::Optimizer& optimizer, const Tensor& input, const Tensor& target) {
  optimizer.zero_grad();
  Tensor loss = loss_of(network, input, target);
  loss.backward();
  optimizer.step();
  return loss.detach();
}

torch::OrderedDict<std::string, Tensor> state_of(const NetworkImpl& network) {
  auto state = network.named_parameters();
  for (const auto& buffer : network.named_buffers()) state.insert(buffer.key(), buffer.value());
  return state;
}

void copy_state(const NetworkImpl& from, const NetworkImpl& to) {
  const torch::NoGradGuard no_grad;
  const auto values = state_of(from);
  for (const auto& each : state_of(to)) each.value().copy_(values[each.key()]);
}

}  // namespace reprise::libtorch::test
