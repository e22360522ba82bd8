// SPDX-License-Identifier: Apache-2.0
#include "tests/libtorch/both_devices/device_fixture.h"

// compare() of graphs of tensors.

namespace reprise::libtorch::test {
namespace {

using ::testing::Each;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

class CompareOfTensors : public OnDevice {
 protected:
  void SetUp() override {
    on_side_stream([&] { body(); });  // makes the handle of cuBLAS
    y_.zero_();
    z_.zero_();
  }

  void body() {
    y_.copy_(torch::relu(torch::matmul(x_, weight_)) * rate_);
    z_.add_(y_);
  }
  CUDAGraph captured() {
    return capture([&] { body(); });
  }
  Comparison compared(const CUDAGraph& graph) {
    return compare(graph, [&] { body(); });
  }

  const torch::NoGradGuard no_grad_;
  Tensor x_ = here(torch::ones({4, 4})), weight_ = here(torch::full({4, 4}, 0.5F)), y_ = here(torch::zeros({4, 4})),
         z_ = here(torch::zeros({4, 4}));
  double rate_ = 0.5;
};

TEST_F(CompareOfTensors, FindsNothingWhereTheBodyIsTheSameAndChangesNothing) {
  CUDAGraph graph = captured();
  const Comparison found = compared(graph);
  EXPECT_TRUE(found.same()) << found.str();
  EXPECT_GT(found.nodes, 0u);
  EXPECT_THAT(found.notes, IsEmpty());
  EXPECT_TRUE(same(z_, torch::zeros({4, 4})));
  graph.replay();
  EXPECT_TRUE(same(z_, torch::full({4, 4}, 1.F)));
}

TEST_F(CompareOfTensors, MemoryThatTheCapturesAllocatedIsNoDifferenceOfParameters) {
  const auto step = [&] { y_.copy_(((x_ + 1) * 2 - z_) * (x_ + 3)); };
  const CUDAGraph graph = capture(step);
  const Comparison found = compare(graph, step);
  EXPECT_TRUE(found.same()) << found.str();
  EXPECT_THAT(found.parameters, IsEmpty()) << found.str();
}

TEST_F(CompareOfTensors, FindsAnotherNumberWhereItIsUsedFirst) {
  const CUDAGraph graph = captured();
  rate_ = 0.25;
  const Comparison found = compared(graph);
  ASSERT_TRUE(found.difference);
  EXPECT_EQ(found.difference->kind, FirstDifferenceKind::result) << found.str();
  EXPECT_NE(found.difference->address, found.difference->second_address) << "in the memory of each capture";
}

TEST_F(CompareOfTensors, FindsATensorThatWasFreed) {
  const CUDAGraph graph = captured();
  weight_ = here(torch::full({4, 4}, 2.F));
  const Comparison found = compared(graph);
  ASSERT_TRUE(found.difference);
  EXPECT_EQ(found.difference->kind, FirstDifferenceKind::stale_pointer) << found.str();
  EXPECT_EQ(found.difference->second_address, weight_.data_ptr());
}

TEST_F(CompareOfTensors, FindsAnotherSliceOfATensorOfTheCapture) {
  std::int64_t row = 1;
  const auto step = [&] {
    const Tensor rows = torch::cumsum(x_, 0) + 1;
    y_.copy_(rows.slice(0, row, row + 1).expand({4, 4}) * 1);
  };
  const CUDAGraph graph = capture(step);
  EXPECT_TRUE(compare(graph, step).same());
  row = 2;
  const Comparison found = compare(graph, step);
  ASSERT_TRUE(found.difference);
  EXPECT_EQ(found.difference->kind, FirstDifferenceKind::result) << found.str();
  EXPECT_THAT(found.notes, IsEmpty());
}

TEST_F(CompareOfTensors, DrawsTheSameRandomNumbersInBoth) {
  const auto step = [&] { y_.copy_(torch::rand({4, 4}, x_.options()) + torch::rand({4, 4}, x_.options())); };
  on_side_stream(step);
  CUDAGraph graph = capture(step);
  graph.replay();
  const Comparison found = compare(graph, step);
  EXPECT_TRUE(found.same()) << found.str();
}

TEST_F(CompareOfTensors, TakesAStepOfTrainingAndLeavesTheWeights) {
  const torch::AutoGradMode with_gradients(true);
  torch::nn::Sequential net(torch::nn::Linear(4, 8), torch::nn::ReLU(), torch::nn::Linear(8, 1));
  net->to(device_);
  double rate = 0.5;
  const auto step = [&] {
    for (Tensor& each : net->parameters())
      if (each.grad().defined()) each.mutable_grad().zero_();
    net->forward(x_).square().mean().backward();
    const torch::NoGradGuard no_grad;
    for (Tensor& each : net->parameters()) each.add_(each.grad(), -rate);
  };
  on_side_stream(step);
  const CUDAGraph graph = capture(step);
  const Tensor before = net->parameters()[0].detach().cpu().clone();
  const Comparison found = compare(graph, step);
  EXPECT_TRUE(found.same()) << found.str();
  EXPECT_THAT(found.notes, IsEmpty());
  EXPECT_TRUE(same(net->parameters()[0].detach(), before));
  rate = 0.25;
  EXPECT_TRUE(compare(graph, step).difference);
  EXPECT_TRUE(same(net->parameters()[0].detach(), before));
}

// In a pool that another graph filled before, tensors may have no partners: these are noted, and are no difference.
TEST_F(CompareOfTensors, TakesAGraphInAPoolOfOthers) {
  const MempoolId pool = graph_pool_handle();
  Tensor kept;
  const CUDAGraph other = capture({.pool = pool}, [&] {
    const Tensor freed = x_ + 1;
    kept = freed * 2;
  });
  const auto step = [&] {
    const Tensor first = x_ * 3;
    z_.copy_(first + (x_ - 1));
  };
  const CUDAGraph graph = capture({.pool = pool}, step);
  const Comparison found = compare(graph, step);
  EXPECT_TRUE(found.same()) << found.str();
  EXPECT_THAT(found.notes, Each(HasSubstr("were not compared")));
}

}  // namespace
}  // namespace reprise::libtorch::test
