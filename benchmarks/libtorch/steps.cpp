// SPDX-License-Identifier: Apache-2.0
// The time of whole training steps: eager, with the network as a graphed callable, as one graph (graphed_step), and by
// bare launches of that graph.

#include <array>
#include <cstddef>
#include <exception>
#include <functional>
#include <string>
#include <tuple>
#include <vector>

#include "libtorch/benchmarks.h"
#include "libtorch/networks.h"
#include "reprise/libtorch/graphed_callables.h"
#include "reprise/libtorch/graphed_step.h"
#include "reprise/libtorch/optim.h"
#include "results.h"
#include "submit.h"

namespace benchmarks {
namespace {

struct Batch {
  torch::Tensor x, target;
};

// A network, its optimizer, and two batches that steps take in turns: the inputs of each step lie elsewhere.
class StepTraining {
 public:
  StepTraining(const Network& how, torch::Device device)
      : network(made_on(device, how)), optimizer_(network->parameters(), reprise::libtorch::optim::AdamWOptions(1e-4)) {
    for (Batch& each : batches_) {
      const torch::NoGradGuard no_grad;
      each.x = torch::randn(how.input, device);
      each.target = torch::randn_like(network->forward(each.x));
    }
  }

  const Batch& next_batch() { return batches_[turn_++ % batches_.size()]; }
  template <class Forward>
  void step(Forward&& forward) {
    const Batch& batch = next_batch();
    optimizer_.zero_grad();
    torch::mse_loss(forward(batch.x), batch.target).backward();
    optimizer_.step();
  }
  auto graphed_step() {
    const Batch& batch = batches_[0];
    return reprise::libtorch::graphed_step(network, torch::nn::MSELoss(), optimizer_,
                                           std::tuple(batch.x, batch.target));
  }

  torch::nn::Sequential network;

 private:
  static torch::nn::Sequential made_on(torch::Device device, const Network& how) {
    torch::nn::Sequential made = how.make();
    made->to(device);
    return made;
  }

  reprise::libtorch::optim::AdamW optimizer_;
  std::array<Batch, 2> batches_;
  std::size_t turn_ = 0;
};

void compare_steps(const Settings& settings, const reprise::StreamRef& stream, const Network& how, torch::Device device,
                   Table& table) {
  StepTraining eager(how, device), in_part(how, device), whole(how, device);
  const auto callable = reprise::libtorch::with_module(
      [network = in_part.network](const torch::Tensor& x) mutable { return network->forward(x); }, in_part.network);
  const torch::Tensor sample = in_part.next_batch().x;
  const auto graphed = reprise::libtorch::make_graphed_callables(callable, sample);
  const auto step = whole.graphed_step();
  const auto next = [&] {
    const Batch& batch = whole.next_batch();
    step(batch.x, batch.target);
  };
  next();  // before bare launches: they read its batch again
  const std::vector<Side> sides = {
      {"eager", [&] { eager.step([&](const torch::Tensor& x) { return eager.network->forward(x); }); }},
      {"graphed callables", [&] { in_part.step(graphed); }},
      {"graphed_step", next},
      {"bare", bare_launch(settings.device, step.graph().raw_cuda_graph_exec(), stream.native())}};
  const std::vector<double> us = step_times(settings, stream, sides);
  const double bare = us.back();
  for (std::size_t i = 0; i + 1 < sides.size(); ++i) {
    const bool is_that_graph = sides[i].name == "graphed_step";
    table.row({how.name, sides[i].name, us[i], is_that_graph ? Cell(bare) : Cell(),
               is_that_graph ? Cell(us[i] / bare) : Cell()});
  }
}

}  // namespace

void steps(const Settings& settings) {
  const torch::Device device = tensor_device(settings);
  const reprise::Stream stream(settings.device);
  const reprise::StreamGuard guard(stream);
  Table table(settings, "steps", "A training step: forward, loss, backward and AdamW",
              {{"network", "", 0, 32}, {"", "", 0, 20}, {"step", "us", 1}, {"bare", "us", 1}, {"ratio", "", 3}});
  for (const Network& how : {perceptron(4, 256, 32), convolutions(), transformer_block()}) {
    try {
      compare_steps(settings, stream, how, device, table);
    } catch (const std::exception& error) {
      settings.results->add_failure("steps, " + how.name, error.what());
    }
  }
}

}  // namespace benchmarks
