// SPDX-License-Identifier: Apache-2.0
// Forward, loss, backward and optimizer of a network as one graph: "Whole-network capture" of PyTorch's notes on CUDA
// graphs. With --precision float16 it is their "Usage with torch.cuda.amp": the same step with autocast and a scaler
// of gradients, all of it in the graph, where PyTorch's leaves the scaler's step eager. Trains once eagerly and once by
// replays, and compares.

#include <ATen/autocast_mode.h>
#include <torch/torch.h>

#include <optional>
#include <string>
#include <vector>

#include "reprise/libtorch/grad_scaler.h"
#include "reprise/libtorch/graph.h"
#include "reprise/libtorch/optim.h"
#include "support/program.h"
#include "support/tensors.h"

namespace whole_network {
namespace {

using example::say;
using torch::Tensor;
namespace lib = reprise::libtorch;

struct Options {
  std::optional<std::string> device;
  std::string precision = "float32";
  int steps = 100;
};

/// Python's `with torch.autocast(...)`.
class Autocast {
 public:
  Autocast(c10::DeviceType device, bool enabled)
      : device_(device), enabled_before_(at::autocast::is_autocast_enabled(device)) {
    at::autocast::set_autocast_enabled(device_, enabled);
    at::autocast::increment_nesting();
  }
  ~Autocast() {
    if (at::autocast::decrement_nesting() == 0) at::autocast::clear_cache();
    at::autocast::set_autocast_enabled(device_, enabled_before_);
  }
  Autocast(const Autocast&) = delete;
  Autocast& operator=(const Autocast&) = delete;

 private:
  const c10::DeviceType device_;
  const bool enabled_before_;
};

/// A network and what trains it. The graph reads `x` and `target`, and writes `loss`.
struct Training {
  Training(torch::Device device, bool in_mixed)
      : model(torch::nn::Linear(8, 64), torch::nn::GELU(), torch::nn::Dropout(0.1), torch::nn::Linear(64, 64),
              torch::nn::GELU(), torch::nn::Linear(64, 1)),
        mixed(in_mixed) {
    model->to(device);  // before the optimizer is made
    optimizer.emplace(model->parameters(), lib::optim::AdamWOptions(0.003));
    // A scale that grows every 20 steps soon overflows: such a step changes nothing, and halves the scale.
    scaler.emplace(device, lib::GradScalerOptions{.growth_interval = 20, .enabled = in_mixed});
    x = torch::zeros({32, 8}, device);
    target = torch::zeros({32, 1}, device);
  }

  void step() {
    optimizer->zero_grad();
    {
      const Autocast scope(x.device().type(), mixed);
      loss = torch::mse_loss(model->forward(x), target);
    }
    scaler->scale(loss).backward();
    scaler->step(*optimizer);
    scaler->update();
  }
  void set_batch(const Tensor& rows) {
    x.copy_(rows);
    target.copy_(rows.sum(1, /*keepdim=*/true));
  }

  torch::nn::Sequential model;
  bool mixed;
  std::optional<lib::optim::AdamW> optimizer;
  std::optional<lib::GradScaler> scaler;
  Tensor x, target, loss;
};

/// The losses of all steps but the first, and the parameters in the end.
struct Result {
  std::vector<float> losses;
  std::vector<Tensor> parameters;
  double microseconds = 0;  // for a step
};

template <class Step>
Result train(Training& training, const std::vector<Tensor>& batches, const Step& step) {
  Result result;
  torch::manual_seed(3);  // a warm-up leaves the generator as it was, an eager step does not
  std::size_t next = 1;
  const auto steps = static_cast<unsigned>(batches.size() - next);
  result.microseconds = example::microseconds(steps, [&] {
    training.set_batch(batches[next++]);
    step();
    result.losses.push_back(training.loss.item<float>());  // waits: outside of the graph
  });
  for (const Tensor& each : training.model->parameters()) result.parameters.push_back(each.detach().cpu());
  return result;
}

bool same(const Result& one, const Result& other) {
  bool same = one.losses == other.losses;
  for (std::size_t i = 0; i < one.parameters.size(); ++i) same &= one.parameters[i].equal(other.parameters[i]);
  return same;
}

bool run(const Options& options) {
  const torch::Device device = example::tensor_device(options.device);
  const reprise::DeviceGuard on_device(example::library_device(device));
  const bool mixed = options.precision == "float16";
  torch::manual_seed(1);
  std::vector<Tensor> batches;
  for (int i = 0; i <= options.steps; ++i) batches.push_back(torch::rand({32, 8}).to(device));
  const auto training = [&] {
    torch::manual_seed(2);
    return Training(device, mixed);
  };

  Training eager = training();
  eager.set_batch(batches[0]);
  eager.step();
  const Result one = train(eager, batches, [&] { eager.step(); });

  Training graphed = training();
  graphed.set_batch(batches[0]);
  // The warm-up is the first step: cuBLAS makes its handle then.
  reprise::CUDAGraph graph = reprise::capture({.warmup = 1}, [&] { graphed.step(); });
  const Result other = train(graphed, batches, [&] { graph.replay(); });

  const bool equal = same(one, other);
  say("device     {}\n", device.str());
  say("step       forward, loss, backward and AdamW in {}: a graph of {} nodes\n", options.precision,
      graph.node_count());
  say("loss       {:.4f} at first, {:.4f} after {} steps\n", one.losses.front(), one.losses.back(), options.steps);
  say("graphed    {} as eager\n",
      equal ? "the same losses and parameters, to the last bit," : "NOT the same losses and parameters");
  say("time       {:.0f} us a step eager, {:.0f} us replayed, {:.2f} x\n", one.microseconds, other.microseconds,
      one.microseconds / other.microseconds);
  if (mixed)
    say("scale      {:.0f} in the end; {} steps were skipped, eagerly {}\n", graphed.scaler->get_scale(),
        graphed.scaler->skipped_steps(), eager.scaler->skipped_steps());
  return equal;
}

}  // namespace
}  // namespace whole_network

int main(int argc, char** argv) {
  whole_network::Options options;
  CLI::App app("Trains a network whose whole step is one graph, also in mixed precision.", "whole_network");
  example::add_device_option(app, options.device);
  app.add_option("--precision", options.precision, "float16: with autocast and a scaler of gradients")
      ->capture_default_str()
      ->type_name("TYPE")
      ->check(CLI::IsMember({"float32", "float16"}));
  app.add_option("--steps", options.steps, "Replays")
      ->capture_default_str()
      ->type_name("N")
      ->check(CLI::Range(1, 1 << 20));
  return example::run(app, argc, argv, [&] { return whole_network::run(options); });
}
