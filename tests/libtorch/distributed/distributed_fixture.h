// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <gmock/gmock.h>
#include <torch/torch.h>
#include <torch/csrc/distributed/c10d/PrefixStore.hpp>

#include <chrono>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include "libtorch/tensor_device.h"
#include "reprise/libtorch/distributed.h"
#include "reprise/libtorch/graph.h"
#include "reprise/libtorch/optim.h"
#include "reprise/reprise.h"
#include "tests/libtorch/both_devices/device.h"
#include "tests/libtorch/distributed/store_group.h"

namespace reprise::libtorch::test {

using torch::Tensor;

/// The device of this rank.
inline c10::Device device_of_rank(int rank) {
  c10::Device device = tested_device();
  if (device.is_cuda()) device.set_index(static_cast<c10::DeviceIndex>(rank));
  return device;
}

/// A test that two processes run, on a device each.
class TwoProcesses : public ::testing::Test {
 protected:
  void SetUp() override {
    const auto* const test = ::testing::UnitTest::GetInstance()->current_test_info();
    environment_.store_prefix = std::string("/") + test->test_suite_name() + "/" + test->name();
    store_ = c10::make_intrusive<c10d::PrefixStore>(environment_.store_prefix, connection());
    if (device_.is_cuda() && torch::cuda::device_count() < 2) GTEST_SKIP() << "needs two CUDA devices";
    here_.emplace(device_of_tensors(device_));
    device_guard_.emplace(*here_);
    stream_.emplace(*here_);
    stream_guard_.emplace(stream_->ref());
    torch::set_num_threads(1);
  }
  // No test begins before the other process has ended the one before, nor beside its collectives: those of two groups
  // have no order that is the same on both ranks.
  void TearDown() override {
    if (!here_) return;
    here_->synchronize();
    meet("end");
  }

  int rank() const { return environment_.rank; }

  /// Waits for the other process.
  void meet(const std::string& where) const {
    store_->set(where + std::to_string(rank()), "here");
    const auto end = std::chrono::steady_clock::now() + std::chrono::minutes(5);
    while (!store_->check({where + std::to_string(1 - rank())})) {  // wait() would keep others from the connection
      ASSERT_LT(std::chrono::steady_clock::now(), end) << "the other process did not come to " << where;
      std::this_thread::sleep_for(std::chrono::microseconds(100));
    }
  }

  /// A group of both processes, with communicators of its own.
  c10::intrusive_ptr<c10d::Backend> make_group() {
    const std::string name = "group" + std::to_string(groups_++);
    if (!device_.is_cuda()) return c10::make_intrusive<StoreGroup>(store_, name, rank(), environment_.world_size);
    ProcessEnvironment of_group = environment_;
    of_group.store_prefix += name;
    return init_process_group(device_, of_group);
  }

  Tensor on_device(const Tensor& tensor) const { return tensor.to(device_); }

  template <class F>
  static std::string refusal_of(F&& f) {
    try {
      f();
    } catch (const UsageError& error) {
      return error.what();
    }
    return "";
  }

  ProcessEnvironment environment_ = process_environment();
  const c10::Device device_ = device_of_rank(environment_.local_rank);
  c10::intrusive_ptr<c10d::Store> store_;
  std::optional<Device> here_;
  std::optional<DeviceGuard> device_guard_;
  std::optional<Stream> stream_;
  std::optional<StreamGuard> stream_guard_;

 private:
  // One for all tests of the process: a server takes seconds to accept many.
  static const c10::intrusive_ptr<c10d::Store>& connection() {
    static const c10::intrusive_ptr<c10d::Store> made = [] {
      ProcessEnvironment environment = process_environment();
      environment.store_prefix = "/tests";
      return rendezvous(environment);
    }();
    return made;
  }

  int groups_ = 0;
};

/// A model with parameters of several sizes, the same on each rank for the same seed.
inline torch::nn::Sequential make_perceptron(std::uint64_t seed) {
  torch::manual_seed(seed);
  return torch::nn::Sequential(torch::nn::Linear(6, 16), torch::nn::Tanh(), torch::nn::Linear(16, 16),
                               torch::nn::Tanh(), torch::nn::Linear(16, 2));
}

/// The part of rank `rank` of the batch of a step; all of it for -1. On the CPU.
struct Part {
  Tensor input, target;
  Part(int step, int rank) {
    torch::manual_seed(static_cast<std::uint64_t>(100 + step));
    input = torch::randn({8, 6});
    target = torch::randn({8, 2});
    if (rank < 0) return;
    input = input.narrow(0, 4 * rank, 4).contiguous();
    target = target.narrow(0, 4 * rank, 4).contiguous();
  }
};

/// Trains as one process does, with the whole batch, and returns the parameters.
inline std::vector<Tensor> parameters_of_one_process(torch::nn::Sequential model, int steps, c10::Device device) {
  model->to(device);
  optim::SGD optimizer(model->parameters(), optim::SGDOptions(0.1).momentum(0.9));
  for (int step = 0; step < steps; ++step) {
    const Part part(step, -1);
    optimizer.zero_grad();
    torch::mse_loss(model->forward(part.input.to(device)), part.target.to(device)).backward();
    optimizer.step();
  }
  return model->parameters();
}

inline void expect_close(const std::vector<Tensor>& found, const std::vector<Tensor>& expected) {
  ASSERT_EQ(found.size(), expected.size());
  for (std::size_t i = 0; i < found.size(); ++i) {
    const Tensor a = found[i].detach().cpu(), b = expected[i].detach().cpu();
    EXPECT_TRUE(torch::allclose(a, b, 1e-5, 1e-6)) << "parameter " << i << " differs by " << (a - b).abs().max();
  }
}

}  // namespace reprise::libtorch::test
