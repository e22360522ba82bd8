// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <torch/torch.h>

#include <memory>
#include <string>
#include <vector>

// Small networks, and a step of their training.

namespace reprise::libtorch::test {

struct NetworkImpl : torch::nn::Module {
  virtual torch::Tensor forward(torch::Tensor x) = 0;
};

using Network = std::shared_ptr<NetworkImpl>;

/// One of `perceptron`, `convolutions`, `lstm`, `gru`, `transformer`, made from the seed 3, on the CPU.
/// \param dropout where the network has any, its probability.
Network make_network(const std::string& name, double dropout);

/// Inputs and targets of one step, on the CPU.
struct Batch {
  torch::Tensor input, target;
};

std::vector<Batch> make_batches(const std::string& network, int count);

/// Cross entropy, for classes; the mean squared error else.
torch::Tensor loss_of(NetworkImpl& network, const torch::Tensor& input, const torch::Tensor& target);

std::unique_ptr<torch::optim::Optimizer> make_optimizer(const std::string& name, const NetworkImpl& network);

/// The whole step, from the gradients of the step before to new parameters; returns the loss.
torch::Tensor train_step(NetworkImpl& network, torch::optim::Optimizer& optimizer, const torch::Tensor& input,
                         const torch::Tensor& target);

/// Parameters and buffers, with their names.
torch::OrderedDict<std::string, torch::Tensor> state_of(const NetworkImpl& network);

/// Makes the values of `to` those of `from`.
void copy_state(const NetworkImpl& from, const NetworkImpl& to);

}  // namespace reprise::libtorch::test
