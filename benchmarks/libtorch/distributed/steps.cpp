// SPDX-License-Identifier: Apache-2.0
// Training steps on several GPUs, each a graph, for data_parallel.py: one process for each GPU. Each line of the input
// is a command, and each is answered by a line:
//   make LAYERS WIDTH ROWS BUCKET_BYTES    captures another step, of a perceptron, and answers with its number. With
//                                          "default", buckets have the size that DataParallel chooses; with 0, there
//                                          are no reductions
//   measure NUMBER STEPS                   microseconds a step
//   drop                                   destroys all steps
// All ranks have to get the same lines.

#include <torch/torch.h>

#include <cstddef>
#include <iostream>
#include <memory>
#include <optional>
#include <sstream>
#include <stdexcept>
#include <string>
#include <vector>

#include "libtorch/networks.h"
#include "reprise/device.h"
#include "reprise/libtorch/distributed.h"
#include "reprise/libtorch/graph.h"
#include "reprise/libtorch/host_device.h"
#include "reprise/libtorch/optim.h"
#include "support.h"

namespace {

namespace lib = reprise::libtorch;

/// Forward, loss, backward with its reductions, and optimizer.
class Step {
 public:
  Step(const benchmarks::Network& how, torch::Device device, const c10::intrusive_ptr<c10d::Backend>& group,
       std::optional<lib::DataParallelOptions> reductions)
      : network_(how.make()) {
    network_->to(device);
    if (reductions) parallel_.emplace(*network_, group, *reductions);
    optimizer_.emplace(network_->parameters(), lib::optim::AdamWOptions(1e-4));
    input_ = torch::randn(how.input, device);
    target_ = torch::randn(how.input, device);
    reprise::capture(graph_, {.warmup = 1}, [&] {
      optimizer_->zero_grad();
      torch::mse_loss(network_->forward(input_), target_).backward();
      if (parallel_) parallel_->finish();
      optimizer_->step();
    });
  }

  std::size_t bucket_count() const { return parallel_ ? parallel_->bucket_count() : 0; }
  double microseconds(unsigned steps, const reprise::StreamRef& stream) const {
    const auto run = [&](unsigned times) {
      for (unsigned i = 0; i < times; ++i) graph_.replay();
      stream.synchronize();
    };
    run(3);
    return 1e6 * benchmarks::seconds([&] { run(steps); }) / steps;
  }

 private:
  torch::nn::Sequential network_;
  std::optional<lib::DataParallel> parallel_;
  std::optional<lib::optim::AdamW> optimizer_;
  torch::Tensor input_, target_;
  mutable reprise::CUDAGraph graph_;
};

void serve(torch::Device device, const lib::ProcessEnvironment& environment) {
  const auto group = lib::init_process_group(device, environment);
  const reprise::Stream stream;
  const reprise::StreamGuard guard(stream);
  std::vector<std::unique_ptr<Step>> steps;
  for (std::string line; std::getline(std::cin, line);) {
    std::istringstream in(line);
    std::string command, bucket_bytes;
    in >> command;
    if (command == "make") {
      unsigned layers = 0;
      std::int64_t width = 0, rows = 0;
      in >> layers >> width >> rows >> bucket_bytes;
      std::optional<lib::DataParallelOptions> reductions;
      if (bucket_bytes != "0") reductions.emplace();
      if (reductions && bucket_bytes != "default") reductions->bucket_bytes = std::stoull(bucket_bytes);
      steps.push_back(
          std::make_unique<Step>(benchmarks::perceptron(layers - 1, width, rows), device, group, reductions));
      std::cout << "step " << steps.size() - 1 << " with " << steps.back()->bucket_count() << " buckets" << std::endl;
    } else if (command == "measure") {
      std::size_t number = 0;
      unsigned count = 0;
      in >> number >> count;
      std::cout << steps.at(number)->microseconds(count, stream) << std::endl;
    } else if (command == "drop") {
      steps.clear();
      std::cout << "none" << std::endl;
    } else {
      throw std::invalid_argument("expected make, measure or drop; found " + line);
    }
  }
}

}  // namespace

int main(int argc, char** argv) try {
  if (argc > 2 || (argc == 2 && std::string(argv[1]) != "host"))
    throw std::invalid_argument("expected no argument, or `host` for tensors of the host device");
  const lib::ProcessEnvironment environment = lib::process_environment();
  const torch::Device device = argc == 2
                                   ? lib::host_device()
                                   : torch::Device(torch::kCUDA, static_cast<c10::DeviceIndex>(environment.local_rank));
  const reprise::DeviceGuard on_device(
      reprise::Device::parse(argc == 2 ? "host" : "cuda:" + std::to_string(environment.local_rank)));
  serve(device, environment);
  return 0;
} catch (const std::exception& error) {
  std::cerr << "reprise_data_parallel_steps: error: " << error.what() << std::endl;
  return 1;
}
