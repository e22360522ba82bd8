// SPDX-License-Identifier: Apache-2.0
#include "tests/libtorch/host/host_device_fixture.h"

#include <string>
#include <thread>

#include "tests/libtorch/support/error_text.h"

// Calls of operators: what comes at the call, what later, and what an operator may do with its outputs.

namespace reprise::libtorch::test {
namespace {

using ::testing::HasSubstr;

class OperatorCalls : public OnHostDevice {
 protected:
  void expect_usable() { EXPECT_EQ(torch::ones({3}, device_).sum().item<float>(), 3); }
};

TEST_F(OperatorCalls, ThatDoNotFitAreRefusedAtOnceAndLeaveTheDeviceUsable) {
  const auto a = torch::ones({2, 3}, device_), b = torch::ones({4, 5}, device_);
  auto out = torch::empty({2, 5}, device_);
  EXPECT_THAT(error_text([&] { torch::mm(a, b); }), HasSubstr("mat1 and mat2"));
  EXPECT_THAT(error_text([&] { torch::mm_out(out, a, b); }), HasSubstr("mat1 and mat2"));
  EXPECT_THAT(error_text([&] { a + b; }), HasSubstr("size of tensor a"));
  EXPECT_THAT(error_text([&] { torch::conv2d(a, b); }), HasSubstr("conv2d"));
  EXPECT_THAT(error_text([&] { a.masked_fill(a, 1.0); }), HasSubstr("bool"));
  expect_usable();
}

TEST_F(OperatorCalls, ThatDoNotFitBreakNoCapture) {
  const auto a = torch::ones({2, 3}, device_), b = torch::ones({4, 5}, device_);
  auto x = torch::zeros({4}, device_);
  CUDAGraph graph;
  capture(graph, [&] {
    EXPECT_THROW(torch::mm(a, b), c10::Error);
    x.add_(1);
  });
  graph.replay();
  EXPECT_EQ(x.sum().item<float>(), 4);
}

TEST_F(OperatorCalls, TakeNumbersOfTheCpuAndNoOtherTensorsOfIt) {
  const auto x = torch::ones({2}, device_);
  EXPECT_EQ((x + torch::tensor(2.0F)).sum().item<float>(), 6);
  EXPECT_EQ(x.index({torch::tensor({0, 0, 1})}).sizes(), (c10::IntArrayRef{3})) << "indices may be there, as on CUDA";
  EXPECT_THAT(error_text([&] { x + torch::ones({2}); }), HasSubstr("device"));
  EXPECT_THAT(error_text([&] { torch::cat({x, torch::ones({2})}); }), HasSubstr("expected all tensors on one device"));
  expect_usable();
}

TEST_F(OperatorCalls, ReadANumberOfTheCpuWhenTheyAreCalled) {
  auto x = torch::zeros({2}, device_), number = torch::tensor(1.0F);
  CUDAGraph graph;
  capture(graph, [&] { x.add_(number); });
  number.fill_(100);
  graph.replay();
  EXPECT_EQ(x.sum().item<float>(), 2);
}

TEST_F(OperatorCalls, GiveAnOutputItsSize) {
  const auto x = torch::rand({3, 4}, device_);
  auto out = torch::empty({0}, device_);
  torch::sum_out(out, x, {1});
  EXPECT_EQ(out.sizes(), (c10::IntArrayRef{3}));
  EXPECT_TRUE(same(out, x.sum(1)));
  auto values = torch::empty({0}, device_), indices = torch::empty({0}, torch::device(device_).dtype(torch::kLong));
  torch::sort_out(values, indices, x, 1);
  EXPECT_TRUE(same(values, std::get<0>(x.sort(1))));
  EXPECT_TRUE(same(indices, std::get<1>(x.sort(1))));
}

TEST_F(OperatorCalls, KeepTheAddressOfAnOutputThatAKernelMakesLargerOnTheWay) {
  const auto x = torch::rand({30, 40}, device_), y = torch::rand({30, 40}, device_);
  auto loss = torch::zeros({}, device_);
  const void* const address = loss.data_ptr();
  torch::mse_loss_out(loss, x, y);
  EXPECT_EQ(loss.data_ptr(), address);
  EXPECT_TRUE(same(loss, torch::mse_loss(x, y)));
}

TEST_F(OperatorCalls, WhoseSizeValuesDecideWaitAndFillTheGivenOutput) {
  const auto x = torch::tensor({0.0F, 1.0F, 0.0F, 2.0F}).to(device_);
  EXPECT_EQ(x.nonzero().sizes(), (c10::IntArrayRef{2, 1}));
  auto out = torch::empty({0}, torch::device(device_).dtype(torch::kLong));
  torch::nonzero_out(out, x);
  EXPECT_TRUE(same(out, x.nonzero()));
  EXPECT_EQ(std::get<0>(at::_unique2(x)).size(0), 3);
}

TEST_F(OperatorCalls, ReturnNewTensorsBesideArgumentsThatTheyWrite) {
  const auto x = torch::rand({8, 4}, device_);
  auto mean = torch::zeros({4}, device_), variance = torch::ones({4}, device_);
  const auto result =
      at::_native_batch_norm_legit(x, {}, {}, mean, variance, /*training=*/true, /*momentum=*/1.0, /*eps=*/1e-5);
  EXPECT_EQ(std::get<0>(result).sizes(), x.sizes());
  EXPECT_TRUE(torch::allclose(mean.cpu(), x.cpu().mean(0)));
  EXPECT_FALSE(std::get<0>(result).is_alias_of(mean));
}

TEST_F(OperatorCalls, OnPartsOfATensorTouchNothingElse) {
  auto x = torch::zeros({4, 6}, device_);
  x.slice(1, 1, 3).add_(1);
  x.select(0, 2).mul_(5);
  x.t().narrow(0, 5, 1).sub_(1);
  auto expected = torch::zeros({4, 6});
  expected.slice(1, 1, 3).add_(1);
  expected.select(0, 2).mul_(5);
  expected.t().narrow(0, 5, 1).sub_(1);
  EXPECT_TRUE(same(x, expected));
}

TEST_F(OperatorCalls, OnTensorsWithoutElementsDoNothingAndAreCaptured) {
  const auto nothing = torch::empty({0, 3}, device_);
  EXPECT_EQ((nothing + 1).sizes(), (c10::IntArrayRef{0, 3}));
  EXPECT_TRUE(same(nothing.sum(0), torch::zeros({3})));
}

TEST_F(OperatorCalls, UseMemoryOfTensorsThatAreGoneWhenTheyRun) {
  auto total = torch::zeros({256}, device_);
  for (int i = 0; i < 200; ++i) {
    const auto temporary = torch::full({256}, static_cast<double>(i), device_);
    total.add_(temporary);
  }
  EXPECT_EQ(total[7].item<float>(), 199 * 200 / 2);
}

TEST_F(OperatorCalls, AreNamedByTheirNodes) {
  auto x = torch::rand({4, 4}, device_);
  CUDAGraph graph(KeepGraph::yes);
  GraphOptions options;
  options.check_input_liveness = true;
  capture(graph, options, [&] { x.copy_(x.mm(x)); });
  const auto inputs = graph.inputs();
  ASSERT_EQ(inputs.size(), 1U) << "what the operators make is the graph's own";
  EXPECT_EQ(inputs[0].address, x.data_ptr());
  EXPECT_THAT(inputs[0].nodes, ::testing::Contains(HasSubstr("aten::mm")));
  x.reset();
  try {
    graph.replay();
    FAIL() << "replayed with memory that was freed";
  } catch (const DeadInputError& error) {
    EXPECT_THAT(error.what(), HasSubstr("aten::mm"));
  }
}

TEST_F(OperatorCalls, OfSparseTensorsAreRefusedWithTheReason) {
  const auto x = torch::eye(3).to(device_);
  EXPECT_NE(error_text([&] { x.to_sparse(); }), "");
  expect_usable();
}

TEST_F(OperatorCalls, LeaveTheCpusThreadsAlone) {
  constexpr int threads = 3;
  torch::set_num_threads(threads);
  const auto x = torch::rand({64, 64}, device_);
  EXPECT_GT(x.mm(x).sum().item<float>(), 0);
  EXPECT_EQ(torch::get_num_threads(), threads);
  int of_a_new_thread = 0;
  std::thread([&] { of_a_new_thread = torch::get_num_threads(); }).join();
  EXPECT_EQ(of_a_new_thread, threads);
}

TEST_F(OperatorCalls, DrawOtherNumbersAtEachOffset) {
  torch::manual_seed(1);
  const auto first = torch::rand({4}, device_);
  bool repeated = false;
  for (int i = 0; i < 300; ++i) repeated = repeated || torch::equal(torch::rand({4}, device_), first);
  EXPECT_FALSE(repeated);
  const auto many = torch::rand({100000}, device_).cpu();
  EXPECT_NEAR(many.mean().item<double>(), 0.5, 0.01);
  EXPECT_NEAR(many.var().item<double>(), 1.0 / 12, 0.002);
}

TEST_F(OperatorCalls, TellWhetherATensorIsSetToAnother) {
  const auto x = torch::rand({4}, device_);
  EXPECT_TRUE(x.is_set_to(x));
  EXPECT_FALSE(x.is_set_to(x.clone()));
  EXPECT_FALSE(x.is_set_to(x.narrow(0, 0, 2)));
}

TEST_F(OperatorCalls, LeaveTheCpusGeneratorAlone) {
  torch::manual_seed(5);
  const auto expected = torch::rand({4});
  torch::manual_seed(5);
  const auto x = torch::rand({7}, device_), y = torch::full({7}, 0.5, device_);
  static_cast<void>(torch::bernoulli(y));
  static_cast<void>(torch::dropout(x, 0.5, true));
  static_cast<void>(torch::multinomial(y, 2));
  EXPECT_TRUE(same(torch::rand({4}), expected));
}

TEST_F(OperatorCalls, WorkWhereThereIsNoDriverOfCuda) {
  if (torch::cuda::is_available()) GTEST_SKIP() << "there is a GPU";
  EXPECT_NE(error_text([&] { torch::ones({1}, torch::kCUDA); }), "");
  expect_usable();
}

}  // namespace
}  // namespace reprise::libtorch::test
