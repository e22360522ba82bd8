// SPDX-License-Identifier: Apache-2.0
#include <algorithm>

#include "reprise/libtorch/graph.h"
#include "tests/libtorch/host/host_device_fixture.h"

// Input liveness of tensors: what counts is their memory.

namespace reprise::libtorch::test {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::Not;
using ::testing::SizeIs;

class LivenessOfTensors : public OnHostDevice {
 protected:
  static GraphOptions checked() {
    GraphOptions options;
    options.check_input_liveness = true;
    return options;
  }
  torch::Tensor ones() const { return torch::ones({64}, device_); }
  void capture_work(const std::function<void()>& body) { capture(graph_, checked(), body); }

  std::vector<DeadInput> dead() {
    try {
      graph_.replay();
    } catch (const DeadInputError& error) {
      text_ = error.what();
      return error.inputs();
    }
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
  EXPECT_TRUE(same(y, torch::full({64}, 3.0F)));
  EXPECT_THAT(graph_.inputs(), SizeIs(2));
}

TEST_F(LivenessOfTensors, ADeadOneIsNamedWithTheOperatorsThatUseIt) {
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

TEST_F(LivenessOfTensors, WhatWasMadeInTheCaptureMayDie) {
  auto x = ones();
  torch::Tensor kept;
  capture_work([&] {
    const auto between = x + 1;
    kept = between * 2;
  });
  kept.reset();
  expect_replays();
}

TEST_F(LivenessOfTensors, OfOneGraphMayComeFromAnotherInTheSamePool) {
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

TEST_F(LivenessOfTensors, AViewMayDieWhileItsBaseLives) {
  auto base = torch::ones({4, 64}, device_);
  auto row = base[2], result = ones();
  capture_work([&] { result.add_(row); });
  row.reset();
  expect_replays();
  EXPECT_TRUE(same(result, torch::full({64}, 2.0F)));
}

TEST_F(LivenessOfTensors, ABaseMayDieWhileAViewLives) {
  auto base = torch::ones({4, 64}, device_);
  auto result = ones();
  capture_work([&] { result.add_(base[2]); });
  const auto row = base[3];
  base.reset();
  expect_replays();
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
  x.resize_({32});
  expect_replays();  // the same memory
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

TEST_F(LivenessOfTensors, AnInputThatDiesInTheCaptureIsDead) {
  auto x = ones(), y = ones();
  capture_work([&] {
    y.add_(x);
    x.reset();
  });
  EXPECT_THAT(dead(), SizeIs(1));
}

TEST_F(LivenessOfTensors, TheGraphMayKeepItsInputs) {
  auto x = ones(), y = ones();
  GraphOptions options;
  options.retain_inputs = true;
  capture(graph_, options, [&] { y.add_(x); });
  const void* const memory = x.data_ptr();
  x.reset();
  const auto other = ones();
  EXPECT_NE(other.data_ptr(), memory);
  expect_replays();
  EXPECT_TRUE(same(y, torch::full({64}, 2.0F)));
  for (const GraphInput& each : graph_.inputs()) EXPECT_TRUE(each.retained);
}

TEST_F(LivenessOfTensors, GradientsThatAreSetToNoneAreDeadAndNewOnesAreNot) {
  torch::nn::Linear model(8, 4);
  model->to(device_);
  const auto x = torch::rand({16, 8}, device_);
  const auto step = [&] { model->forward(x).sum().backward(); };
  step();  // makes the gradients, to which the graph adds
  capture_work(step);
  expect_replays();
  model->zero_grad();  // to none
  EXPECT_THAT(dead(), SizeIs(2));
  EXPECT_THAT(text_, HasSubstr("aten::"));
  step();
  EXPECT_THAT(dead(), SizeIs(2)) << "new ones are in other memory, or have it from those that died";
  graph_.reset();
  capture_work(step);
  expect_replays();
}

TEST_F(LivenessOfTensors, PinnedMemoryThatIsCopiedFromIsAnInputWhichGraphsOfTheHostDeviceKeep) {
  auto pinned = torch::ones({64}).pin_memory();
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
  const auto other = torch::zeros({64}).pin_memory();
  expect_replays();
  EXPECT_TRUE(same(x, torch::full({64}, 5.0F)));
}

TEST_F(LivenessOfTensors, TellsWhoAllocatedAndFreedTheMemory) {
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
