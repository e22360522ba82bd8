// SPDX-License-Identifier: Apache-2.0
// A network that can be captured in part: the body becomes two graphs, forward and backward, while the loss, which
// depends on values, stays eager: "Partial-network capture" of PyTorch's notes on CUDA graphs. Trains once eagerly and
// once graphed, and compares.

#include <torch/torch.h>

#include <optional>
#include <string>
#include <vector>

#include "reprise/libtorch/graph.h"
#include "reprise/libtorch/graphed_callables.h"
#include "support/program.h"
#include "support/tensors.h"

namespace graphed_callables {
namespace {

using example::say;
using torch::Tensor;
namespace lib = reprise::libtorch;

struct Options {
  std::optional<std::string> device;
  int steps = 60;
  int micro_batches = 2;
};

struct NetworkImpl : torch::nn::Module {
  NetworkImpl() {
    embed = register_module("embed", torch::nn::Linear(8, 64));
    body = register_module("body",
                           torch::nn::Sequential(torch::nn::Linear(64, 64), torch::nn::GELU(), torch::nn::Dropout(0.1),
                                                 torch::nn::Linear(64, 64), torch::nn::GELU(),
                                                 torch::nn::LayerNorm(torch::nn::LayerNormOptions({64}))));
    head = register_module("head", torch::nn::Linear(64, 1));
  }
  torch::nn::Linear embed{nullptr}, head{nullptr};
  torch::nn::Sequential body{nullptr};
};
TORCH_MODULE(Network);

// The rows that count, and their number, depend on values: no graph can do that.
Tensor loss_of(const Tensor& found, const Tensor& wanted) {
  const Tensor error = (found - wanted).pow(2);
  const Tensor counted = error.masked_select(error.detach() < 100);
  return counted.numel() > 0 ? counted.mean() : error.mean();
}

struct Trained {
  std::vector<float> losses;
  double microseconds = 0;  // for a step
};

// `body`: the network's, or its graphed callable.
template <class Body>
Trained train(const Options& options, const torch::Device& device, Network& network, const Body& body) {
  torch::optim::SGD optimizer(network->parameters(), torch::optim::SGDOptions(0.01).momentum(0.5));
  torch::manual_seed(2);
  Trained trained;
  const auto step = [&] {
    optimizer.zero_grad();
    float sum = 0;
    for (int i = 0; i < options.micro_batches; ++i) {
      const Tensor x = torch::rand({32, 8}).to(device);
      const Tensor h = network->embed->forward(x).relu();
      const Tensor loss = loss_of(network->head->forward(body(h)), x.sum(1, /*keepdim=*/true));
      (loss / options.micro_batches).backward();
      sum += loss.item<float>();
    }
    optimizer.step();
    trained.losses.push_back(sum / static_cast<float>(options.micro_batches));
  };
  trained.microseconds = example::microseconds(static_cast<unsigned>(options.steps), step);
  return trained;
}

bool run(const Options& options) {
  const torch::Device device = example::tensor_device(options.device);
  const reprise::DeviceGuard on_device(example::library_device(device));
  const auto network = [&] {
    torch::manual_seed(1);
    Network made;
    made->to(device);
    return made;
  };
  Network eager = network(), graphed = network();
  say("device     {}\n", device.str());
  say("network    {} parameters, {} of them in the graphed body\n", eager->parameters().size(),
      eager->body->parameters().size());
  say("step       {} micro-batches, their gradients added up\n", options.micro_batches);

  const Tensor sample = torch::rand({32, 64}).to(device).requires_grad_();
  const auto body = lib::make_graphed_callables(graphed->body, sample);

  const Trained one = train(options, device, eager, [&](const Tensor& h) { return eager->body->forward(h); });
  const Trained other = train(options, device, graphed, body);
  const bool same = one.losses == other.losses;
  say("loss       {:.4f} at first, {:.4f} after {} steps\n", one.losses.front(), one.losses.back(), options.steps);
  say("graphed    {} in every step\n", same ? "the same loss, to the last bit," : "NOT the same loss");
  say("time       {:.0f} us a step eager, {:.0f} us with the graphed body, {:.2f} x\n", one.microseconds,
      other.microseconds, one.microseconds / other.microseconds);

  graphed->eval();  // runs the original body, with any number of rows
  const torch::NoGradGuard no_grad;
  const Tensor x = torch::rand({5, 8}).to(device);
  const Tensor found = graphed->head->forward(body(graphed->embed->forward(x).relu()));
  say("evaluation {:.3f} mean error on rows that it was not captured for\n",
      (found - x.sum(1, true)).abs().mean().item<float>());
  return same;
}

}  // namespace
}  // namespace graphed_callables

int main(int argc, char** argv) {
  graphed_callables::Options options;
  CLI::App app("Trains a network whose body is captured as two graphs, forward and backward, and whose loss is eager.",
               "graphed_callables");
  example::add_device_option(app, options.device);
  app.add_option("--steps", options.steps, "Steps of training")
      ->capture_default_str()
      ->type_name("N")
      ->check(CLI::Range(1, 1 << 20));
  app.add_option("--micro-batches", options.micro_batches, "Backwards that are added up in one step")
      ->capture_default_str()
      ->type_name("N")
      ->check(CLI::Range(1, 1 << 10));
  return example::run(app, argc, argv, [&] { return graphed_callables::run(options); });
}
