// SPDX-License-Identifier: Apache-2.0
// The cost of forward and backward of a graphed callable, compared with bare launches of the same two executables and
// with eager work.

#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "libtorch/benchmarks.h"
#include "reprise/libtorch/graphed_callables.h"
#include "submit.h"

namespace benchmarks {
namespace {

using reprise::libtorch::Gradients;
using reprise::libtorch::GraphedCallable;

// Before the host waits. On a host device this includes running the work.
unsigned steps_on(const reprise::Device& device) {
  return device.type() == reprise::DeviceType::host ? 2 : 50;
}

struct Shape {
  unsigned layers;
  std::int64_t width, batch;
};
constexpr Shape shapes[] = {{4, 256, 32}, {16, 256, 32}, {8, 1024, 64}};

torch::nn::Sequential make_network(const Shape& shape, torch::Device device) {
  torch::nn::Sequential network;
  for (unsigned i = 0; i < shape.layers; ++i) {
    network->push_back(torch::nn::Linear(shape.width, shape.width));
    network->push_back(torch::nn::ReLU());
  }
  network->push_back(torch::nn::Linear(shape.width, shape.width));
  network->to(device);
  return network;
}

// A network, and what is trained on it.
class Training {
 public:
  Training(const Shape& shape, torch::Device device)
      : network(make_network(shape, device)),
        x(torch::randn({shape.batch, shape.width}, device)),
        gradient(torch::randn({shape.batch, shape.width}, device)),
        parameters_(network->parameters()) {}

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
  Way(const Settings& settings, const reprise::StreamRef& stream, const Shape& shape, torch::Device device,
      Gradients gradients)
      : training_(shape, device) {
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

struct Side {
  std::string name;
  std::function<void()> step;
  const Samples* bare;  // for comparison; null for bare and eager variants
  Samples us = {};
};

void measure(const Settings& settings, const reprise::StreamRef& stream, std::vector<Side>& sides) {
  const unsigned steps = steps_on(settings.device);
  for (unsigned round = 0; round <= settings.rounds; ++round)
    for (Side& side : sides) {
      side.step();
      stream.synchronize();
      const double took = seconds([&] {
        for (unsigned i = 0; i < steps; ++i) side.step();
        stream.synchronize();
      });
      if (round > 0) side.us.add(1e6 * took / steps);  // the first one warms up
    }
}

void compare(const Settings& settings, const reprise::StreamRef& stream, const Shape& shape, torch::Device device) {
  Way fresh(settings, stream, shape, device, Gradients::fresh);
  Way adding(settings, stream, shape, device, Gradients::fresh);
  Way in_graph(settings, stream, shape, device, Gradients::accumulate_in_graph);
  Way alias(settings, stream, shape, device, Gradients::alias);
  Training eager(shape, device);
  std::vector<Side> sides;
  sides.reserve(9);  // they are pointed to
  const auto add = [&](const char* name, Way& way, std::function<void()> step) {
    sides.push_back({fmt::format("bare, {}", name), [&way] { way.bare(); }, nullptr});
    sides.push_back({name, std::move(step), &sides.back().us});
  };
  add("default", fresh, [&] { fresh.step_from_none(); });
  add("accumulate_in_graph", in_graph, [&] { in_graph.step_from_none(); });
  add("alias", alias, [&] { alias.step_from_none(); });
  add("adding", adding, [&] { adding.step(); });
  sides.push_back({"eager",
                   [&] {
                     eager.clear_gradients();
                     eager.step([&](const torch::Tensor& x) { return eager.network->forward(x); });
                   },
                   nullptr});
  fresh.step();
  in_graph.step();
  alias.step();
  adding.step();
  measure(settings, stream, sides);
  print("  {} x {}, batch {}\n", shape.layers, shape.width, shape.batch);
  for (const Side& side : sides) {
    if (side.bare != nullptr)
      print("    {:<20} {:>8.1f} {:>8.1f} {:>8.3f}\n", side.name, side.us.median(), side.bare->median(),
            side.us.median() / side.bare->median());
    else if (side.name == "eager")
      print("    {:<20} {:>8.1f}\n", side.name, side.us.median());
  }
}

}  // namespace

void graphed(const Settings& settings) {
  const torch::Device device = tensor_device(settings);
  const reprise::Stream stream(settings.device);
  const reprise::StreamGuard guard(stream);
  print(
      "Forward and backward(g) of networks of Linear and ReLU, from gradients set to none (\"adding\": into those\n"
      "that are there), us a step\n");
  print("    {:<20} {:>8} {:>8} {:>8}\n", "", "graphed", "bare", "ratio");
  for (const Shape& shape : shapes) compare(settings, stream, shape, device);
}

}  // namespace benchmarks
