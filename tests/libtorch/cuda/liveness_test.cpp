// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <chrono>
#include <functional>
#include <thread>

#include "memory/watches/block_watch.h"
#include "tests/libtorch/cuda/cuda_tensors_fixture.h"
#include "tests/libtorch/cuda/side_stream.h"

// Input liveness of CUDA tensors, whose memory is c10's.

namespace reprise::libtorch::test {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::Not;
using ::testing::SizeIs;

class LivenessOfCudaTensors : public OnCudaDevice {
 protected:
  static GraphOptions checked() {
    GraphOptions options;
    options.check_input_liveness = true;
    return options;
  }
  static GraphOptions retaining() {
    GraphOptions options;
    options.retain_inputs = true;
    return options;
  }
  torch::Tensor ones(std::int64_t n = 1000) const { return torch::ones({n}, device_); }
  void capture_work(const std::function<void()>& body) { capture(graph_, checked(), body); }

  std::vector<DeadInput> dead() {
    try {
      graph_.replay();
    } catch (const DeadInputError& error) {
      text_ = error.what();
      return error.inputs();
    }
    torch::cuda::synchronize();
    return {};
  }
  void expect_replays() { EXPECT_THAT(dead(), IsEmpty()) << text_; }
  std::vector<const void*> dead_addresses() {
    std::vector<const void*> found;
    for (const DeadInput& each : dead()) found.push_back(each.address);
    return found;
  }
  std::vector<const void*> input_addresses() const {
    std::vector<const void*> found;
    for (const GraphInput& each : graph_.inputs()) found.push_back(each.address);
    return found;
  }

  /// Will it be true, within seconds?
  static bool eventually(const std::function<bool()>& condition) {
    const auto end = std::chrono::steady_clock::now() + std::chrono::seconds(5);
    while (!condition()) {
      if (std::chrono::steady_clock::now() > end) return false;
      std::this_thread::yield();
    }
    return true;
  }

  CUDAGraph graph_;
  std::string text_;  // of the last refusal
};

TEST_F(LivenessOfCudaTensors, ReplaysWhileTheInputsLive) {
  auto x = ones(), y = ones();
  capture_work([&] { y.add_(x); });
  expect_replays();
  expect_replays();
  EXPECT_TRUE(torch::equal(y, torch::full_like(y, 3)));
  EXPECT_THAT(input_addresses(), ::testing::UnorderedElementsAre(x.data_ptr(), y.data_ptr()));
}

TEST_F(LivenessOfCudaTensors, ADeadOneIsNamedWithTheKernelsThatUseIt) {
  auto x = torch::rand({32, 32}, device_), y = torch::rand({32, 32}, device_);
  torch::Tensor z;
  on_side_stream([&] { torch::mm(x, y); });  // makes the handle of cuBLAS
  capture_work([&] { z = torch::mm(x, y) + 1; });
  expect_replays();
  const void* const memory = y.data_ptr();
  y.reset();
  const std::vector<DeadInput> found = dead();
  ASSERT_THAT(found, SizeIs(1));
  EXPECT_EQ(found[0].address, memory);
  EXPECT_GE(found[0].bytes, 32U * 32U * sizeof(float));
  ASSERT_THAT(found[0].nodes, Not(IsEmpty()));
  EXPECT_THAT(found[0].nodes[0], HasSubstr("kernel "));
  EXPECT_FALSE(found[0].given_out_again);
  EXPECT_THAT(text_, HasSubstr("1 of the 2 inputs"));
}

TEST_F(LivenessOfCudaTensors, IsOverForGoodAlsoWhenTheAddressIsGivenOutAgain) {
  auto x = ones(), y = ones();
  capture_work([&] { y.add_(x); });
  const void* const memory = x.data_ptr();
  x.reset();
  const auto other = ones();
  ASSERT_EQ(other.data_ptr(), memory);
  const std::vector<DeadInput> found = dead();
  ASSERT_THAT(found, SizeIs(1));
  EXPECT_TRUE(found[0].given_out_again);
}

TEST_F(LivenessOfCudaTensors, WhatWasMadeInTheCaptureMayDie) {
  auto x = ones();
  torch::Tensor kept;
  capture_work([&] {
    const auto between = x + 1;
    kept = between * 2;
  });
  kept.reset();
  expect_replays();
  EXPECT_THAT(input_addresses(), ElementsAre(x.data_ptr()));
}

TEST_F(LivenessOfCudaTensors, OfOneGraphMayComeFromAnotherInTheSamePool) {
  auto x = ones();
  CUDAGraph first;
  torch::Tensor between, result;
  capture(first, {}, [&] { between = x + 1; });
  GraphOptions options = checked();
  options.pool = first.pool();
  capture(graph_, options, [&] { result = between * 2; });
  between.reset();
  expect_replays();
}

TEST_F(LivenessOfCudaTensors, ViewsAndBasesAreTheSameMemory) {
  auto base = torch::ones({4, 1000}, device_);
  auto row = base[2], result = ones();
  capture_work([&] { result.add_(row); });
  row.reset();
  expect_replays();
  row = base[3];
  base.reset();
  expect_replays();
  row.reset();
  EXPECT_THAT(dead(), SizeIs(1));
}

TEST_F(LivenessOfCudaTensors, AnInputThatIsSetToOtherMemoryIsDead) {
  auto x = ones(), y = ones();
  capture_work([&] { y.add_(x); });
  const void* const memory = x.data_ptr();
  x.set_(ones());
  EXPECT_THAT(dead_addresses(), ElementsAre(memory));
}

TEST_F(LivenessOfCudaTensors, AnInputThatIsResizedToMoreMemoryIsDead) {
  auto x = ones(), y = ones();
  capture_work([&] { y.add_(x); });
  const void* const memory = x.data_ptr();
  x.resize_({500});
  expect_replays();
  x.resize_({1 << 20});
  EXPECT_THAT(dead_addresses(), ElementsAre(memory));
}

TEST_F(LivenessOfCudaTensors, SeveralDeadOnesAreNamedAtOnce) {
  std::vector<torch::Tensor> inputs;
  for (int i = 0; i < 5; ++i) inputs.push_back(ones());
  torch::Tensor sum;
  capture_work([&] { sum = torch::stack(inputs).sum(0); });
  inputs.resize(2);
  EXPECT_THAT(dead(), SizeIs(3));
  EXPECT_THAT(text_, HasSubstr("3 of the 5 inputs"));
}

TEST_F(LivenessOfCudaTensors, AnInputThatDiesInTheCaptureIsDead) {
  auto x = ones(), y = ones();
  const void* const memory = x.data_ptr();
  capture_work([&] {
    y.add_(x);
    x.reset();
  });
  EXPECT_THAT(dead_addresses(), ElementsAre(memory));
}

TEST_F(LivenessOfCudaTensors, AnInputThatAnotherThreadFreesIsDead) {
  auto x = ones(), y = ones();
  capture_work([&] { y.add_(x); });
  std::thread([&] { x.reset(); }).join();
  EXPECT_THAT(dead(), SizeIs(1));
}

TEST_F(LivenessOfCudaTensors, BeginsAnewWithTheNextCapture) {
  auto x = ones(), y = ones();
  capture_work([&] { y.add_(x); });
  x.reset();
  EXPECT_THAT(dead(), SizeIs(1));
  graph_.reset();
  x = ones();
  capture_work([&] { y.add_(x); });
  expect_replays();
}

TEST_F(LivenessOfCudaTensors, OfTwoGraphsWithTheSameInputBothAreRefused) {
  auto x = ones(), y = ones();
  capture_work([&] { y.add_(x); });
  CUDAGraph other;
  capture(other, checked(), [&] { y.mul_(x); });
  other.replay();
  x.reset();
  EXPECT_THROW(other.replay(), DeadInputError);
  EXPECT_THAT(dead(), SizeIs(1));
  other.reset();
  EXPECT_THAT(dead(), SizeIs(1));
}

TEST_F(LivenessOfCudaTensors, FreesOfOtherMemoryAreNotLookedAt) {
  auto x = ones(), y = ones();
  capture_work([&] { y.add_(x); });
  const std::uint64_t before = memory::BlockWatch::frees;
  for (int i = 0; i < 10; ++i) static_cast<void>(ones());
  EXPECT_EQ(memory::BlockWatch::frees, before);
  x.reset();
  EXPECT_EQ(memory::BlockWatch::frees, before + 1);
}

// --- What is an input, and what looks like one -----------------------------------------------------------------------

TEST_F(LivenessOfCudaTensors, WordsThatNobodyWroteInTheParametersOfAKernelAreNoInputs) {
  // The parameters of a concatenation have room for many addresses, and what lies there from a call before is left.
  std::vector<torch::Tensor> others;
  for (int i = 0; i < 60; ++i) others.push_back(ones());
  const auto a = ones(), b = ones();
  torch::Tensor y;
  static_cast<void>(torch::cat(others));
  capture_work([&] { y = torch::cat({a, b}); });
  EXPECT_THAT(input_addresses(), ::testing::UnorderedElementsAre(a.data_ptr(), b.data_ptr()));
  others.clear();
  expect_replays();
}

TEST_F(LivenessOfCudaTensors, WhatNoOperatorWasGivenIsAnInputOfOtherNodes) {
  auto x = ones(), y = ones(), z = ones();
  capture_work([&] {
    z.add_(1);
    copy_async(y.data_ptr(), x.data_ptr(), x.nbytes());
    z.add_(1);
  });
  EXPECT_THAT(input_addresses(), ::testing::UnorderedElementsAre(x.data_ptr(), y.data_ptr(), z.data_ptr()));
  const void* const memory = x.data_ptr();
  x.reset();
  const std::vector<DeadInput> found = dead();
  ASSERT_THAT(found, SizeIs(1));
  EXPECT_EQ(found[0].address, memory);
  EXPECT_THAT(found[0].nodes, ElementsAre("memcpy source (node 1)"));
}

TEST_F(LivenessOfCudaTensors, ATrainingStepHasItsDataParametersAndGradientsAsInputs) {
  torch::nn::Sequential model(torch::nn::Conv2d(torch::nn::Conv2dOptions(3, 8, 3)), torch::nn::BatchNorm2d(8),
                              torch::nn::ReLU(), torch::nn::Flatten(), torch::nn::Linear(8 * 36, 4));
  model->to(device_);
  const auto x = torch::rand({16, 3, 8, 8}, device_);
  const auto step = [&] { model->forward(x).sum().backward(); };
  on_side_stream([&] {
    for (int i = 0; i < 3; ++i) step();
  });
  capture_work(step);
  expect_replays();
  const auto inputs = input_addresses();
  const auto is_input = [&](const torch::Tensor& each) {
    return std::find(inputs.begin(), inputs.end(), each.data_ptr()) != inputs.end();
  };
  EXPECT_TRUE(is_input(x));
  for (const auto& each : model->parameters()) {
    EXPECT_TRUE(is_input(each));
    EXPECT_TRUE(is_input(each.grad()));
  }
  model->zero_grad();  // to none
  EXPECT_THAT(dead(), SizeIs(model->parameters().size()));
}

// --- Keeping them ----------------------------------------------------------------------------------------------------

TEST_F(LivenessOfCudaTensors, TheGraphMayKeepItsInputs) {
  auto x = ones(), y = ones();
  capture(graph_, retaining(), [&] { y.add_(x); });
  for (const GraphInput& each : graph_.inputs()) EXPECT_TRUE(each.retained);
  const void* const memory = x.data_ptr();
  x.reset();
  const auto other = ones();
  EXPECT_NE(other.data_ptr(), memory);
  expect_replays();
  EXPECT_TRUE(torch::equal(y, torch::full_like(y, 2)));
  const auto before = allocated();
  graph_.reset();
  EXPECT_TRUE(eventually([&] { return allocated() < before; })) << "let go of with the graph";
}

TEST_F(LivenessOfCudaTensors, AnInputThatIsKeptAndResizedIsDead) {
  auto x = ones(), y = ones();
  capture(graph_, retaining(), [&] { y.add_(x); });
  const void* const memory = x.data_ptr();
  x.resize_({1 << 20});
  EXPECT_THAT(dead_addresses(), ElementsAre(memory));
}

TEST_F(LivenessOfCudaTensors, WhatNoOperatorWasGivenIsCheckedInsteadOfKept) {
  auto x = ones(), y = ones();
  capture(graph_, retaining(), [&] { copy_async(y.data_ptr(), x.data_ptr(), x.nbytes()); });
  for (const GraphInput& each : graph_.inputs()) EXPECT_FALSE(each.retained);
  x.reset();
  EXPECT_THAT(dead(), SizeIs(1));
}

TEST_F(LivenessOfCudaTensors, PinnedMemoryThatIsCopiedFromIsAnInput) {
  auto pinned = torch::full({1000}, 5.0F).pin_memory();
  auto x = ones();
  capture_work([&] { x.copy_(pinned, /*non_blocking=*/true); });
  expect_replays();
  EXPECT_EQ(x[0].item<float>(), 5);
  const void* const memory = pinned.data_ptr();
  pinned.reset();
  EXPECT_THAT(dead_addresses(), ElementsAre(memory));
}

TEST_F(LivenessOfCudaTensors, PinnedMemoryIsKeptAsOtherMemoryIs) {
  auto pinned = torch::full({1000}, 5.0F).pin_memory();
  auto x = ones();
  capture(graph_, retaining(), [&] { x.copy_(pinned, /*non_blocking=*/true); });
  pinned.reset();
  const auto other = torch::zeros({1000}).pin_memory();
  expect_replays();
  EXPECT_EQ(x[0].item<float>(), 5);
}

TEST_F(LivenessOfCudaTensors, TellsWhoAllocatedAndFreedTheMemory) {
  capture(graph_, checked(), [&] { static_cast<void>(ones()); });  // from now on c10's allocator tells
  graph_.reset();
  record_allocation_stacks(true);
  auto x = ones(), y = ones();
  capture_work([&] { y.add_(x); });
  x.reset();
  const std::vector<DeadInput> found = dead();
  record_allocation_stacks(false);
  ASSERT_THAT(found, SizeIs(1));
  EXPECT_THAT(found[0].created, Not(IsEmpty()));
  EXPECT_THAT(found[0].freed, Not(IsEmpty()));
}

}  // namespace
}  // namespace reprise::libtorch::test
