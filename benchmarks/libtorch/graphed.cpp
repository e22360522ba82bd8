// SPDX-License-Identifier: Apache-2.0
// The cost of forward and backward of a graphed callable, compared with bare launches of the same two executables and
// with eager work.

#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "libtorch/benchmarks.h"
#include "libtorch/networks.h"
#include "reprise/libtorch/graphed_callables.h"
#include "submit.h"

namespace benchmarks {
namespace {

using reprise::libtorch::Gradients;
using reprise::libtorch::GraphedCallable;

// A network, and what is trained on it.
class Training {
 public:
  Training(const Network& how, torch::Device device) : network(how.make()) {
    network->to(device);
    x = torch::randn(how.input, device);
    gradient = torch::randn_like(network->forward(x));
    parameters_ = network->parameters();
  }

  void clear_gradients() {
    for (torch::Tensor& each : parameters_) each.mutable_grad().reset();
  }
  template <class F>
  void step(F&& forward) {
    forward(x).backward(gradient);
  }

  torch::nn::Sequential network;
  torch::Tensor x, gradient;

 private:
  std::vector<torch::Tensor> parameters_;
};

// One variant, and bare launches of its executables.
class Way {
 public:
  Way(const Settings& settings, const reprise::StreamRef& stream, const Network& how, torch::Device device,
      Gradients gradients)
      : training_(how, device) {
    reprise::libtorch::GraphedCallableOptions options;
    options.gradients = gradients;
    graphed_.emplace(make(training_, options));
    forward_ = bare_launch(settings.device, graphed_->forward_graph().raw_cuda_graph_exec(), stream.native());
    backward_ = bare_launch(settings.device, graphed_->backward_graph().raw_cuda_graph_exec(), stream.native());
  }

  void step() { training_.step(*graphed_); }
  void step_from_none() {
    training_.clear_gradients();
    step();
  }
  // Writes the existing gradients of the last step.
  void bare() {
    forward_();
    backward_();
  }

 private:
  using Graphed = GraphedCallable<torch::Tensor, torch::Tensor>;
  static Graphed make(Training& training, const reprise::libtorch::GraphedCallableOptions& options) {
    const auto callable = reprise::libtorch::with_module(
        [network = training.network](const torch::Tensor& x) mutable { return network->forward(x); }, training.network);
    return reprise::libtorch::make_graphed_callables(callable, training.x, options);
  }

  Training training_;
  std::optional<Graphed> graphed_;
  std::function<void()> forward_, backward_;
};

void compare(const Settings& settings, const reprise::StreamRef& stream, const Network& how, torch::Device device,
             Table& table) {
  Way fresh(settings, stream, how, device, Gradients::fresh);
  Way adding(settings, stream, how, device, Gradients::fresh);
  Way alias(settings, stream, how, device, Gradients::alias);
  Training eager(how, device);
  std::vector<Side> sides;  // each before the bare launches that it is compared with
  const auto add = [&](const char* name, Way& way, std::function<void()> step) {
    step();
    sides.push_back({name, std::move(step)});
    sides.push_back({name, [&way] { way.bare(); }});
  };
  add("default", fresh, [&] { fresh.step_from_none(); });
  add("alias", alias, [&] { alias.step_from_none(); });
  add("adding", adding, [&] { adding.step(); });
  sides.push_back({"eager", [&] {
                     eager.clear_gradients();
                     eager.step([&](const torch::Tensor& x) { return eager.network->forward(x); });
                   }});
  const std::vector<double> us = step_times(settings, stream, sides);
  for (std::size_t i = 0; i + 1 < sides.size(); i += 2)
    table.row({how.name, sides[i].name, us[i], us[i + 1], us[i] / us[i + 1]});
  table.row({how.name, sides.back().name, us.back(), {}, {}});
}

}  // namespace

void graphed(const Settings& settings) {
  const torch::Device device = tensor_device(settings);
  const reprise::Stream stream(settings.device);
  const reprise::StreamGuard guard(stream);
  Table table(settings, "graphed",
              "Forward and backward(g), from gradients set to none (\"adding\": into those that are there)",
              {{"network", "", 0, 32}, {"", "", 0, 20}, {"step", "us", 1}, {"bare", "us", 1}, {"ratio", "", 3}});
  for (const Network& how :
       {perceptron(4, 256, 32), perceptron(16, 256, 32), perceptron(8, 1024, 64), convolutions(), transformer_block()})
    compare(settings, stream, how, device, table);
}

}  // namespace benchmarks
