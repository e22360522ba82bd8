// SPDX-License-Identifier: Apache-2.0
// Trains a network on several GPUs, a process for each: forward pass, backward pass with the all-reduces of the
// gradients, and optimizer are one graph. Started by a launcher:
//   torchrun --no-python --nproc-per-node=2 bin/data_parallel
//   mpirun -n 2 bin/data_parallel

#include <torch/torch.h>

#include <chrono>
#include <string>

#include "group.h"
#include "reprise/libtorch/graph.h"
#include "reprise/libtorch/host_device.h"
#include "reprise/libtorch/optim.h"
#include "support/program.h"
#include "support/tensors.h"

namespace data_parallel {
namespace {

using example::say;
using torch::Tensor;
namespace lib = reprise::libtorch;

struct Options {
  std::string device = "cuda";
  int steps = 200;
  int rows = 64;  // of each rank
};

torch::Device device_of(const std::string& name, int local_rank) {
  if (name == "host") return lib::host_device();
  if (static_cast<int>(torch::cuda::device_count()) <= local_rank)
    throw example::InputError("--device: libtorch finds no CUDA device for each rank of this machine");
  return torch::Device(torch::kCUDA, static_cast<c10::DeviceIndex>(local_rank));
}

bool run(const Options& options) {
  const lib::ProcessEnvironment environment = lib::process_environment();
  const torch::Device device = device_of(options.device, environment.local_rank);
  const reprise::DeviceGuard on_device(example::library_device(device));
  const auto group = make_group(device, environment);

  torch::manual_seed(static_cast<std::uint64_t>(environment.rank));  // rank 0 has the values that all begin with
  torch::nn::Sequential model(torch::nn::Linear(8, 128), torch::nn::GELU(), torch::nn::Linear(128, 1));
  model->to(device);
  lib::DataParallel parallel(*model, group);
  lib::optim::AdamW optimizer(model->parameters(), lib::optim::AdamWOptions(0.01));

  const Tensor x = torch::zeros({options.rows, 8}, device), target = torch::zeros({options.rows, 1}, device);
  Tensor loss;
  reprise::GraphOptions how;
  how.name = "step";
  how.warmup = 1;
  how.progress_marks = true;  // an error after the time says where the graph waits
  reprise::CUDAGraph step = reprise::capture(how, [&] {
    optimizer.zero_grad();
    {
      const reprise::annotate scope("forward and backward");
      loss = torch::mse_loss(model->forward(x), target);
      loss.backward();
    }
    {
      const reprise::annotate scope("reductions");
      parallel.finish();
    }
    const reprise::annotate scope("optimizer");
    optimizer.step();
  });

  float first = 0;
  const auto begin = std::chrono::steady_clock::now();
  for (int i = 0; i < options.steps; ++i) {
    const Tensor rows = torch::rand({options.rows, 8});  // of this rank alone
    x.copy_(rows);
    target.copy_(rows.sum(1, true));
    step.replay();
    step.synchronize(std::chrono::minutes(1));  // waits no longer for a rank that is gone
    if (i == 0) first = loss.item<float>();
  }
  const std::chrono::duration<double, std::micro> time = std::chrono::steady_clock::now() - begin;
  const auto last = loss.item<float>();
  double sum = 0;
  for (const Tensor& each : model->parameters()) sum += each.sum().item<double>();
  say("rank {} of {} on {}: loss {:.4f} at first, {:.4f} after {} steps of {:.0f} us; parameters add up to {:.6f}\n",
      environment.rank, environment.world_size, device.str(), first, last, options.steps, time.count() / options.steps,
      sum);
  // The store ends with the process that runs it: none ends before all are done.
  if (environment.world_size > 1)
    if (const auto all_done = group->barrier()) all_done->wait();
  return last < first;
}

}  // namespace
}  // namespace data_parallel

int main(int argc, char** argv) {
  data_parallel::Options options;
  CLI::App app("Trains a network on several GPUs, each step one graph. Start it with torchrun --no-python or mpirun.",
               "data_parallel");
  app.add_option("--device", options.device, "Where the tensors of each rank lie")
      ->capture_default_str()
      ->type_name("TYPE")
      ->check(CLI::IsMember({"host", "cuda"}));
  app.add_option("--steps", options.steps, "Steps of training")
      ->capture_default_str()
      ->type_name("N")
      ->check(CLI::Range(1, 1 << 20));
  app.add_option("--rows", options.rows, "Rows of a step that each rank has")
      ->capture_default_str()
      ->type_name("N")
      ->check(CLI::Range(1, 1 << 20));
  return example::run(app, argc, argv, [&] { return data_parallel::run(options); });
}
