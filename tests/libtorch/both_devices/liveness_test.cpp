// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <cstdint>
#include <functional>
#include <thread>
#include <vector>

#include "memory/watches/block_watch.h"
#include "tests/libtorch/both_devices/device_fixture.h"

// Input liveness of tensors: what counts is their memory, which is c10's on CUDA devices.

namespace reprise::libtorch::test {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::Not;
using ::testing::SizeIs;
using ::testing::UnorderedElementsAre;

class LivenessOfTensors : public OnDevice {
 protected:
  void SetUp() override { memory_of_tensors(); }  // nothing is cached

  static GraphOptions checked() {
    GraphOptions options;
    options.check_input_liveness = true;
    return options;
  }
  static GraphOptions retaining() {
    GraphOptions options;
    options.inputs.retain = true;
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
    here_.synchronize();
    return {};
  }
  void expect_replays() { EXPECT_THAT(dead(), IsEmpty()) << text_; }
  std::vector<const void*> dead_addresses() {
    std::vector<const void*> found;
    for (const DeadInput& each : dead()) found.push_back(each.address);
    return found;
  }

  CUDAGraph graph_;
  std::string text_;  // of the last refusal
};

TEST_F(LivenessOfTensors, ReplaysWhileTheInputsLive) {
  auto x = ones(), y = ones();
  capture_work([&] { y.add_(x); });
  expect_replays();
  expect_replays();
  EXPECT_TRUE(same(y, torch::full({1000}, 3.0F)));
  EXPECT_THAT(input_addresses(graph_), UnorderedElementsAre(x.data_ptr(), y.data_ptr()));
}

TEST_F(LivenessOfTensors, ADeadOneIsNamedWithTheOperatorsThatUseIt) {
  REPRISE_HOST_ONLY("nodes of CUDA devices are named after kernels");
  auto x = torch::rand({8, 8}, device_), y = torch::rand({8, 8}, device_);
  torch::Tensor z;
  capture_work([&] { z = torch::mm(x.add(1), y).mul(x); });
  const void* const memory = x.data_ptr();
  x.reset();
  const std::vector<DeadInput> found = dead();
  ASSERT_THAT(found, SizeIs(1));
  EXPECT_EQ(found[0].address, memory);
  ASSERT_THAT(found[0].nodes, SizeIs(2));
  EXPECT_THAT(found[0].nodes[0], HasSubstr("aten::add"));
  EXPECT_THAT(found[0].nodes[0], HasSubstr("(node 0)"));
  EXPECT_THAT(found[0].nodes[1], HasSubstr("aten::mul"));
  EXPECT_THAT(text_, HasSubstr("aten::add"));
  EXPECT_THAT(text_, Not(HasSubstr("aten::mm")));
}

TEST_F(LivenessOfTensors, ADeadOneIsNamedWithTheKernelsThatUseIt) {
  REPRISE_CUDA_ONLY("nodes of the host device are named after operators");
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

TEST_F(LivenessOfTensors, IsOverForGoodAlsoWhenTheAddressIsGivenOutAgain) {
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

TEST_F(LivenessOfTensors, WhatWasMadeInTheCaptureMayDie) {
  auto x = ones();
  torch::Tensor kept;
  capture_work([&] {
    const auto between = x + 1;
    kept = between * 2;
  });
  kept.reset();
  expect_replays();
  EXPECT_THAT(input_addresses(graph_), ElementsAre(x.data_ptr()));
}

TEST_F(LivenessOfTensors, OfOneGraphMayComeFromAnotherInTheSamePool) {
  auto x = ones();
  CUDAGraph first;
  torch::Tensor between, result;
  capture(first, [&] { between = x + 1; });
  GraphOptions options = checked();
  options.pool = first.pool();
  capture(graph_, options, [&] { result = between * 2; });
  between.reset();
  expect_replays();
}

TEST_F(LivenessOfTensors, AViewMayDieWhileItsBaseLives) {
  auto base = torch::ones({4, 1000}, device_);
  auto row = base[2], result = ones();
  capture_work([&] { result.add_(row); });
  row.reset();
  expect_replays();
  EXPECT_TRUE(same(result, torch::full({1000}, 2.0F)));
}

TEST_F(LivenessOfTensors, ABaseMayDieWhileAViewLives) {
  auto base = torch::ones({4, 1000}, device_);
  auto result = ones();
  capture_work([&] { result.add_(base[2]); });
  auto row = base[3];
  base.reset();
  expect_replays();
  row.reset();
  EXPECT_THAT(dead(), SizeIs(1));
}

TEST_F(LivenessOfTensors, AnInputThatIsSetToOtherMemoryIsDead) {
  auto x = ones(), y = ones();
  capture_work([&] { y.add_(x); });
  const void* const memory = x.data_ptr();
  x.set_(ones());
  EXPECT_THAT(dead_addresses(), ElementsAre(memory));
}

TEST_F(LivenessOfTensors, AnInputThatIsSetToOtherMemoryMayLeaveItsOwnToAnotherTensor) {
  auto x = ones(), y = ones();
  capture_work([&] { y.add_(x); });
  const auto alias = x.detach();
  x.set_(ones());
  expect_replays();
}

TEST_F(LivenessOfTensors, AnInputThatIsResizedToMoreMemoryIsDead) {
  auto x = ones(), y = ones();
  capture_work([&] { y.add_(x); });
  const void* const memory = x.data_ptr();
  x.resize_({500});
  expect_replays();
  x.resize_({1 << 20});
  EXPECT_THAT(dead_addresses(), ElementsAre(memory));
}

TEST_F(LivenessOfTensors, SeveralDeadOnesAreNamedAtOnce) {
  std::vector<torch::Tensor> inputs;
  for (int i = 0; i < 5; ++i) inputs.push_back(ones());
  torch::Tensor sum;
  capture_work([&] { sum = torch::stack(inputs).sum(0); });
  inputs.resize(2);
  EXPECT_THAT(dead(), SizeIs(3));
  EXPECT_THAT(text_, HasSubstr("3 of the 5 inputs"));
}

TEST_F(LivenessOfTensors, AnInputThatDiesInTheCaptureIsDead) {
  auto x = ones(), y = ones();
  const void* const memory = x.data_ptr();
  capture_work([&] {
    y.add_(x);
    x.reset();
  });
  EXPECT_THAT(dead_addresses(), ElementsAre(memory));
}

TEST_F(LivenessOfTensors, AnInputThatAnotherThreadFreesIsDead) {
  auto x = ones(), y = ones();
  capture_work([&] { y.add_(x); });
  std::thread([&] { x.reset(); }).join();
  EXPECT_THAT(dead(), SizeIs(1));
}

TEST_F(LivenessOfTensors, BeginsAnewWithTheNextCapture) {
  auto x = ones(), y = ones();
  capture_work([&] { y.add_(x); });
  x.reset();
  EXPECT_THAT(dead(), SizeIs(1));
  graph_.reset();
  x = ones();
  capture_work([&] { y.add_(x); });
  expect_replays();
}

TEST_F(LivenessOfTensors, OfTwoGraphsWithTheSameInputBothAreRefused) {
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

TEST_F(LivenessOfTensors, FreesOfOtherMemoryAreNotLookedAt) {
  auto x = ones(), y = ones();
  capture_work([&] { y.add_(x); });
  const std::uint64_t before = memory::BlockWatch::frees;
  for (int i = 0; i < 10; ++i) static_cast<void>(ones());
  EXPECT_EQ(memory::BlockWatch::frees, before);
  x.reset();
  EXPECT_EQ(memory::BlockWatch::frees, before + 1);
}

// --- What is an input, and what looks like one -----------------------------------------------------------------------

TEST_F(LivenessOfTensors, UnwrittenWordsInTheParametersOfAKernelAreNoInputs) {
  // The parameters of a concatenation have room for many addresses, and what lies there from a call before is left.
  std::vector<torch::Tensor> others;
  for (int i = 0; i < 60; ++i) others.push_back(ones());
  const auto a = ones(), b = ones();
  torch::Tensor y;
  static_cast<void>(torch::cat(others));
  capture_work([&] { y = torch::cat({a, b}); });
  EXPECT_THAT(input_addresses(graph_), UnorderedElementsAre(a.data_ptr(), b.data_ptr()));
  others.clear();
  expect_replays();
}

TEST_F(LivenessOfTensors, WhatNoOperatorWasGivenIsAnInputOfOtherNodes) {
  auto x = ones(), y = ones(), z = ones();
  capture_work([&] {
    z.add_(1);
    copy_async(y.data_ptr(), x.data_ptr(), x.nbytes());
    z.add_(1);
  });
  EXPECT_THAT(input_addresses(graph_), UnorderedElementsAre(x.data_ptr(), y.data_ptr(), z.data_ptr()));
  const void* const memory = x.data_ptr();
  x.reset();
  const std::vector<DeadInput> found = dead();
  ASSERT_THAT(found, SizeIs(1));
  EXPECT_EQ(found[0].address, memory);
  EXPECT_THAT(found[0].nodes, ElementsAre("memcpy source (node 1)"));
}

TEST_F(LivenessOfTensors, ATrainingStepHasItsDataParametersAndGradientsAsInputs) {
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
  const auto inputs = input_addresses(graph_);
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

TEST_F(LivenessOfTensors, GradientsThatAreSetToNoneAreDeadAndNewOnesAreNot) {
  torch::nn::Linear model(8, 4);
  model->to(device_);
  const auto x = torch::rand({16, 8}, device_);
  const auto step = [&] { model->forward(x).sum().backward(); };
  on_side_stream(step);  // makes the gradients, to which the graph adds
  capture_work(step);
  expect_replays();
  model->zero_grad();  // to none
  EXPECT_THAT(dead(), SizeIs(2));
  on_side_stream(step);
  EXPECT_THAT(dead(), SizeIs(2)) << "new ones are in other memory, or have it from those that died";
  graph_.reset();
  capture_work(step);
  expect_replays();
}

// --- Keeping them ----------------------------------------------------------------------------------------------------

TEST_F(LivenessOfTensors, TheGraphMayKeepItsInputs) {
  auto x = ones(), y = ones();
  capture(graph_, retaining(), [&] { y.add_(x); });
  for (const GraphInput& each : graph_.inputs()) EXPECT_TRUE(each.retained);
  const void* const memory = x.data_ptr();
  x.reset();
  const auto other = ones();
  EXPECT_NE(other.data_ptr(), memory);
  expect_replays();
  EXPECT_TRUE(same(y, torch::full({1000}, 2.0F)));
  const auto before = memory_of_tensors().allocated_bytes;
  graph_.reset();
  EXPECT_TRUE(eventually([&] { return memory_of_tensors().allocated_bytes < before; })) << "released with the graph";
}

TEST_F(LivenessOfTensors, AnInputThatIsKeptAndResizedIsDead) {
  REPRISE_CUDA_ONLY("graphs of the host device keep the memory, not the tensor's storage");
  auto x = ones(), y = ones();
  capture(graph_, retaining(), [&] { y.add_(x); });
  const void* const memory = x.data_ptr();
  x.resize_({1 << 20});
  EXPECT_THAT(dead_addresses(), ElementsAre(memory));
}

TEST_F(LivenessOfTensors, WhatNoOperatorWasGivenIsCheckedInsteadOfKept) {
  REPRISE_CUDA_ONLY("graphs of the host device keep it, too");
  auto x = ones(), y = ones();
  capture(graph_, retaining(), [&] { copy_async(y.data_ptr(), x.data_ptr(), x.nbytes()); });
  for (const GraphInput& each : graph_.inputs()) EXPECT_FALSE(each.retained);
  x.reset();
  EXPECT_THAT(dead(), SizeIs(1));
}

TEST_F(LivenessOfTensors, PinnedMemoryThatIsCopiedFromIsAnInputWhichGraphsOfTheHostDeviceKeep) {
  REPRISE_HOST_ONLY("only the host device copies from pinned memory that is gone");
  auto pinned = torch::ones({1000}).pin_memory();
  auto x = ones();
  capture_work([&] { x.copy_(pinned, /*non_blocking=*/true); });
  ASSERT_THAT(graph_.inputs(), SizeIs(2));
  const auto is_pinned = [&](const GraphInput& each) { return each.address == pinned.data_ptr(); };
  const std::vector<GraphInput> inputs = graph_.inputs();
  const auto found = std::find_if(inputs.begin(), inputs.end(), is_pinned);
  ASSERT_NE(found, inputs.end());
  EXPECT_THAT(found->nodes, ElementsAre("memcpy source (node 0)"));
  pinned.fill_(5);
  pinned.reset();
  const auto other = torch::zeros({1000}).pin_memory();
  expect_replays();
  EXPECT_TRUE(same(x, torch::full({1000}, 5.0F)));
}

TEST_F(LivenessOfTensors, PinnedMemoryThatIsCopiedFromIsAnInput) {
  REPRISE_CUDA_ONLY("graphs of the host device keep it");
  auto pinned = torch::full({1000}, 5.0F).pin_memory();
  auto x = ones();
  capture_work([&] { x.copy_(pinned, /*non_blocking=*/true); });
  expect_replays();
  EXPECT_EQ(x[0].item<float>(), 5);
  const void* const memory = pinned.data_ptr();
  pinned.reset();
  EXPECT_THAT(dead_addresses(), ElementsAre(memory));
}

TEST_F(LivenessOfTensors, PinnedMemoryIsKeptAsOtherMemoryIs) {
  auto pinned = torch::full({1000}, 5.0F).pin_memory();
  auto x = ones();
  capture(graph_, retaining(), [&] { x.copy_(pinned, /*non_blocking=*/true); });
  pinned.reset();
  const auto other = torch::zeros({1000}).pin_memory();
  expect_replays();
  EXPECT_EQ(x[0].item<float>(), 5);
}

TEST_F(LivenessOfTensors, WhatIsFreedInTheCaptureIsKeptAsWell) {
  auto x = ones(), y = ones(), unused = ones();
  auto pinned = torch::full({1000}, 5.0F).pin_memory();
  const auto before = memory_of_tensors().allocated_bytes;
  capture(graph_, retaining(), [&] {
    y.add_(x);
    x = torch::Tensor();
    unused = torch::Tensor();
    const auto temporary = y + 1;
    y.copy_(temporary);
    y.add_(pinned.to(device_, /*non_blocking=*/true));
    pinned.reset();
  });
  EXPECT_EQ(memory_of_tensors().allocated_bytes, before - 4096) << "what the graph does not use is freed";
  for (const GraphInput& each : graph_.inputs()) EXPECT_TRUE(each.retained);
  const auto other = ones(), more = ones(), host = torch::zeros({1000}).pin_memory();
  expect_replays();
  EXPECT_TRUE(same(y, torch::full({1000}, 8.0F)));
  const auto held = memory_of_tensors().allocated_bytes;
  graph_.reset();
  EXPECT_TRUE(eventually([&] { return memory_of_tensors().allocated_bytes < held; })) << "released with the graph";
}

TEST_F(LivenessOfTensors, WhatIsFreedInTheCaptureIsDeadWithoutAnOption) {
  REPRISE_HOST_ONLY("in captures of CUDA tensors, operators are observed with an option only");
  auto x = ones(), y = ones();
  const void* const memory = x.data_ptr();
  capture(graph_, {}, [&] {
    y.add_(x);
    x = torch::Tensor();
  });
  EXPECT_THAT(dead_addresses(), ElementsAre(memory));
}

TEST_F(LivenessOfTensors, NamesTheCodeThatAllocatedAndFreedTheMemory) {
  capture(graph_, checked(), [&] { static_cast<void>(ones()); });  // from now on c10's allocator notifies
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
