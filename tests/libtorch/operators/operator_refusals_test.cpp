// SPDX-License-Identifier: Apache-2.0
#include <functional>
#include <string>
#include <vector>

#include "tests/libtorch/host/host_device_fixture.h"
#include "tests/libtorch/support/error_text.h"

// Calls that the CPU refuses are refused at the call on the host device, which is as usable after them as before:
// types, sizes, numbers; and what CUDA refuses in a capture.

namespace reprise::libtorch::test {
namespace {

using ::testing::HasSubstr;

// Makes tensors on the device that is being tried.
struct Maker {
  torch::Device device;
  torch::Tensor ones(c10::IntArrayRef sizes, torch::Dtype type = torch::kFloat) const {
    return torch::ones(sizes, torch::dtype(type)).to(device);
  }
  torch::Tensor zeros(c10::IntArrayRef sizes, torch::Dtype type = torch::kLong) const {
    return torch::zeros(sizes, torch::dtype(type)).to(device);
  }
};

struct WrongCall {
  const char* name;
  std::function<void(const Maker&)> call;
};

using M = const Maker&;

const std::vector<WrongCall>& wrong_types() {
  static const std::vector<WrongCall> all{
      {"mm",
       [](M m) {
         torch::mm(m.ones({2, 2}), m.ones({2, 2}, torch::kDouble));
       }},
      {"mm of bool",
       [](M m) {
         torch::mm(m.ones({2, 2}, torch::kBool), m.ones({2, 2}, torch::kBool));
       }},
      {"bmm",
       [](M m) {
         torch::bmm(m.ones({2, 2, 2}), m.ones({2, 2, 2}, torch::kDouble));
       }},
      {"linear",
       [](M m) {
         torch::linear(m.ones({2, 2}, torch::kHalf), m.ones({2, 2}));
       }},
      {"addmm",
       [](M m) {
         torch::addmm(m.ones({2}, torch::kDouble), m.ones({2, 2}), m.ones({2, 2}));
       }},
      {"dot", [](M m) { torch::dot(m.ones({2}), m.ones({2}, torch::kDouble)); }},
      {"conv2d",
       [](M m) {
         torch::conv2d(m.ones({1, 1, 3, 3}, torch::kDouble), m.ones({1, 1, 2, 2}));
       }},
      {"embedding",
       [](M m) {
         torch::embedding(m.ones({2, 2}), m.ones({2}));
       }},
      {"gather", [](M m) { m.ones({2}).gather(0, m.zeros({2}, torch::kFloat)); }},
      {"index_select", [](M m) { m.ones({2}).index_select(0, m.zeros({2}, torch::kFloat)); }},
      {"take", [](M m) { m.ones({2}).take(m.zeros({2}, torch::kFloat)); }},
      {"index", [](M m) { m.ones({2}).index({m.zeros({2}, torch::kFloat)}); }},
      {"softmax of integers", [](M m) { torch::softmax(m.ones({2}, torch::kInt), 0); }},
      {"nll_loss, int targets",
       [](M m) {
         torch::nll_loss(m.ones({2, 3}), m.zeros({2}, torch::kInt));
       }},
      {"nll_loss, float targets",
       [](M m) {
         torch::nll_loss(m.ones({2, 3}), m.zeros({2}, torch::kFloat));
       }},
      {"bitwise_and of floats", [](M m) { torch::bitwise_and(m.ones({2}), m.ones({2})); }},
      {"linalg_svd of halves",
       [](M m) {
         torch::linalg_svd(m.ones({2, 2}, torch::kHalf));
       }},
      {"linalg_cholesky_ex of integers",
       [](M m) {
         torch::linalg_cholesky_ex(m.ones({2, 2}, torch::kInt));
       }},
      {"index_add_", [](M m) { m.ones({2}).index_add_(0, m.zeros({1}), m.ones({1}, torch::kDouble)); }},
      {"scatter_add_", [](M m) { m.ones({2}).scatter_add_(0, m.zeros({1}), m.ones({1}, torch::kDouble)); }},
      {"index_put_", [](M m) { m.ones({2}).index_put_({m.zeros({1})}, m.ones({1}, torch::kDouble)); }},
      {"sort of complex numbers", [](M m) { torch::sort(m.ones({2}, torch::kComplexFloat)); }},
      {"max of complex numbers", [](M m) { m.ones({2}, torch::kComplexFloat).max(); }},
      {"max_pool2d of bool",
       [](M m) {
         torch::max_pool2d(m.ones({1, 1, 4, 4}, torch::kBool), 2);
       }},
      {"avg_pool2d of bool",
       [](M m) {
         torch::avg_pool2d(m.ones({1, 1, 4, 4}, torch::kBool), 2);
       }},
      {"gelu of integers", [](M m) { torch::gelu(m.ones({2}, torch::kInt)); }},
      {"normal_ of integers", [](M m) { m.ones({2}, torch::kInt).normal_(); }},
      {"upsample_bilinear2d of integers",
       [](M m) {
         torch::upsample_bilinear2d(m.ones({1, 1, 4, 4}, torch::kInt), {8, 8}, false);
       }},
      {"masked_scatter_",
       [](M m) { m.ones({2}).masked_scatter_(m.ones({2}, torch::kBool), m.ones({2}, torch::kDouble)); }},
      {"where", [](M m) { torch::where(m.ones({2}), m.ones({2}), m.ones({2})); }},
      {"add_out of integers",
       [](M m) {
         auto out = m.ones({2}, torch::kInt);
         torch::add_out(out, m.ones({2}), m.ones({2}));
       }},
      {"bincount of floats", [](M m) { torch::bincount(m.ones({2})); }},
  };
  return all;
}

const std::vector<WrongCall>& wrong_sizes_and_numbers() {
  static const std::vector<WrongCall> all{
      {"cumsum", [](M m) { m.ones({2}).cumsum(5); }},
      {"topk", [](M m) { m.ones({2}).topk(5); }},
      {"kthvalue", [](M m) { m.ones({2}).kthvalue(5); }},
      {"cdist",
       [](M m) {
         torch::cdist(m.ones({2, 3}), m.ones({2, 4}));
       }},
      {"linalg_solve_triangular",
       [](M m) {
         torch::linalg_solve_triangular(m.ones({2, 2}), m.ones({3, 3}), true);
       }},
      {"grid_sampler",
       [](M m) {
         torch::grid_sampler(m.ones({1, 1, 4, 4}), m.ones({2, 3, 3, 2}), 0, 0, false);
       }},
      {"uniform_", [](M m) { m.ones({2}).uniform_(3, 1); }},
      {"bernoulli_", [](M m) { m.ones({2}).bernoulli_(1.5); }},
      {"random_", [](M m) { m.zeros({2}).random_(5, 2); }},
      {"exponential_", [](M m) { m.ones({2}).exponential_(-1); }},
      {"normal_", [](M m) { m.ones({2}).normal_(0, -1); }},
      {"geometric_", [](M m) { m.ones({2}).geometric_(2); }},
      {"col2im",
       [](M m) {
         torch::col2im(m.ones({1, 8, 7}), {5, 5}, {2, 2}, {1, 1}, {0, 0}, {1, 1});
       }},
      {"_foreach_add_",
       [](M m) {
         std::vector<torch::Tensor> one{m.ones({2})}, other{m.ones({3})};
         torch::_foreach_add_(one, other);
       }},
      {"flip", [](M m) { torch::flip(m.ones({2}), {3}); }},
      {"copy_", [](M m) { m.ones({2}).copy_(m.ones({3})); }},
      {"copy_ to one value many times", [](M m) { m.ones({1}).expand({3}).copy_(m.ones({3})); }},
      {"copy_ to a part of itself",
       [](M m) {
         const auto x = m.ones({6});
         x.narrow(0, 1, 5).copy_(x.narrow(0, 0, 5));
       }},
      {"masked_select", [](M m) { m.ones({4}).masked_select(m.ones({6}, torch::kBool)); }},
      {"index by a mask", [](M m) { m.ones({4}).index({m.ones({6}, torch::kBool)}); }},
      {"index_put_ by a mask", [](M m) { m.ones({4}).index_put_({m.ones({6}, torch::kBool)}, m.ones({6})); }},
      {"unique_dim", [](M m) { torch::unique_dim(m.ones({4}), 5); }},
      {"bincount", [](M m) { torch::bincount(m.zeros({2}) - 1); }},
  };
  return all;
}

class WrongCalls : public OnHostDevice {
 protected:
  void try_all(const std::vector<WrongCall>& all) {
    for (const WrongCall& wrong : all) {
      SCOPED_TRACE(wrong.name);
      EXPECT_NE(error_text([&] { wrong.call({torch::kCPU}); }), "") << "the CPU takes it";
      EXPECT_NE(error_text([&] { wrong.call({device_}); }), "");
      ASSERT_EQ(torch::ones({3}, device_).sum().item<float>(), 3) << "the device is not usable any more";
    }
  }
};

TEST_F(WrongCalls, OfTypesAreRefusedAtOnceAndLeaveTheDeviceUsable) {
  try_all(wrong_types());
}

TEST_F(WrongCalls, OfSizesAndNumbersAreRefusedAtOnceAndLeaveTheDeviceUsable) {
  try_all(wrong_sizes_and_numbers());
}

TEST_F(WrongCalls, InACaptureAreNoNodes) {
  auto x = torch::zeros({2}, device_);
  const auto a = torch::ones({2, 2}, device_), b = a.to(torch::kDouble);
  CUDAGraph graph;
  capture(graph, [&] {
    x.add_(1);
    EXPECT_THROW(static_cast<void>(torch::mm(a, b)), c10::Error);
  });
  EXPECT_EQ(graph.node_count(), 1U);
  graph.replay();
  EXPECT_EQ(x.sum().item<float>(), 2);
}

TEST_F(WrongCalls, SayThatTheyWereTriedWithOtherValues) {
  const auto a = torch::ones({2, 2}, device_), b = a.to(torch::kDouble);
  try {
    static_cast<void>(torch::mm(a, b));
    FAIL() << "taken";
  } catch (const c10::Error& error) {
    EXPECT_THAT(error.what_without_backtrace(),
                HasSubstr("aten::mm.out refused its arguments, tried with tensors of ones"));
  }
}

TEST_F(WrongCalls, WithTensorsOfTheCpuTouchNoneOfThem) {
  auto x = torch::zeros({4});
  const auto places = torch::tensor({2, 3}).to(device_), mask = torch::ones({4}, torch::kBool).to(device_);
  EXPECT_NE(error_text([&] { x.index_put_({places}, torch::tensor({8.0F, 9.0F}).to(device_)); }), "");
  EXPECT_NE(error_text([&] { x.index_put_({mask}, torch::tensor(9.0F).to(device_)); }), "");
  EXPECT_NE(error_text([&] { x.index_fill_(0, places, 5); }), "");
  EXPECT_NE(error_text([&] { x.put_(places, torch::tensor({8.0F, 9.0F}).to(device_)); }), "");
  EXPECT_NE(error_text([&] { x.masked_fill_(mask, 7); }), "");
  EXPECT_NE(error_text([&] { torch::zeros({}).masked_fill_(torch::tensor(true).to(device_), 7); }), "");
  EXPECT_NE(error_text([&] { x.index({places}); }), "");
  EXPECT_EQ(x.sum().item<float>(), 0);
}

TEST_F(WrongCalls, OfAnOutputThatIsAnInputAndTooLargeAreRefused) {
  auto x = torch::ones({2, 3}, device_);
  EXPECT_THAT(error_text([&] { torch::sum_out(x, x, {1}); }), HasSubstr("is an input too"));
  EXPECT_EQ(x.sizes(), (c10::IntArrayRef{2, 3}));
  EXPECT_EQ(x.sum().item<float>(), 6);
}

TEST_F(WrongCalls, OfTooMuchMemoryAreOutOfMemory) {
  EXPECT_THROW(static_cast<void>(torch::empty({std::int64_t{1} << 50}, device_)), c10::OutOfMemoryError);
  EXPECT_EQ(torch::ones({3}, device_).sum().item<float>(), 3);
}

TEST_F(WrongCalls, WithIndicesOfTheCpuWaitAndAreRefusedInACapture) {
  const auto x = torch::arange(4, device_).to(torch::kFloat);
  const auto places = torch::tensor({3, 1});
  EXPECT_TRUE(same(x.index({places}), torch::tensor({3.0F, 1.0F})));
  CUDAGraph graph;
  EXPECT_THROW(capture(graph, [&] { static_cast<void>(x.index({places})); }), std::exception);
  EXPECT_TRUE(same(x.index({places}), torch::tensor({3.0F, 1.0F})));
}

}  // namespace
}  // namespace reprise::libtorch::test
