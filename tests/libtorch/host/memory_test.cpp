// SPDX-License-Identifier: Apache-2.0
#include <malloc.h>

#include <atomic>
#include <cstdlib>
#include <thread>

#include "backend/host_work.h"
#include "tests/libtorch/host/host_device_fixture.h"
#include "tests/libtorch/support/error_text.h"
#include "tests/support/by_steps.h"

// Memory of tensors on the host device: pinned memory and copies, views and their storage, private pools.

namespace reprise::libtorch::test {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;

// What an operation is refused with, or nothing.
std::string refusal_in_a_capture(const std::function<void()>& body) {
  CUDAGraph graph;
  return error_text([&] { capture(graph, body); });
}

PoolStatistics pool_statistics(const CUDAGraph& graph) {
  return CachingAllocator::of(Device::parse("host")).statistics(graph.pool());
}

// --- Pinned memory and copies ----------------------------------------------------------------------------------------

TEST_F(OnHostDevice, PinnedMemoryIsKnownAndIsCopiedBothWaysWithoutWaiting) {
  const auto pageable = torch::rand({64});
  const auto pinned = pageable.pin_memory();
  EXPECT_TRUE(pinned.is_pinned());
  EXPECT_FALSE(pageable.is_pinned());
  EXPECT_FALSE(here(pageable).is_pinned());
  EXPECT_TRUE(pinned.pin_memory().is_same(pinned));
  EXPECT_TRUE(torch::empty({3}, torch::TensorOptions().pinned_memory(true)).is_pinned());
  EXPECT_THROW(torch::empty({3}, torch::TensorOptions().device(device_).pinned_memory(true)), c10::Error);

  const auto there = pinned.to(device_, /*non_blocking=*/true);
  const auto back = torch::zeros({64}, torch::TensorOptions().pinned_memory(true));
  back.copy_(there.mul(2), /*non_blocking=*/true);
  stream_.synchronize();
  EXPECT_TRUE(same(back, pageable * 2));
}

TEST_F(OnHostDevice, PinnedMemoryThatIsFreedBeforeItsCopyIsReadNevertheless) {
  reprise::test::skip_by_steps();
  const auto values = torch::rand({1 << 10});
  auto pinned = values.pin_memory();
  std::atomic<bool> open = false;
  backend::enqueue(stream_, "gate",
                   [&] {
                     while (!open) std::this_thread::yield();
                   },
                   {});
  const auto there = pinned.to(device_, true);
  pinned = torch::Tensor();  // waits for nothing
  const auto other = torch::zeros({1 << 10}).pin_memory();
  open = true;
  EXPECT_TRUE(same(there, values));
}

TEST_F(OnHostDevice, CopiesOfPinnedMemoryInAGraphReadAndWriteItInEachReplay) {
  const auto in = torch::zeros({8}, torch::TensorOptions().pinned_memory(true));  // by CUDA, if there is a GPU
  const auto out = torch::zeros({8}).pin_memory();
  CUDAGraph graph;
  capture(graph, [&] { out.copy_(in.to(device_, true).mul_(3), true); });
  for (int i = 0; i < 3; ++i) {
    in.fill_(i + 1);
    graph.replay();
    stream_.synchronize();
    EXPECT_TRUE(same(out, torch::full({8}, 3.0F * static_cast<float>(i + 1))));
  }
}

TEST_F(OnHostDevice, ACaptureRefusesCopiesThatWait) {
  const auto x = torch::rand({4}, device_);
  const auto pageable = torch::rand({4}), pinned = torch::rand({4}).pin_memory();
  EXPECT_THAT(refusal_in_a_capture([&] { static_cast<void>(x.cpu()); }),
              HasSubstr("aten::copy_ to the CPU has to wait"));
  EXPECT_THAT(refusal_in_a_capture([&] { pageable.copy_(x); }), HasSubstr("aten::copy_ to the CPU has to wait"));
  EXPECT_THAT(refusal_in_a_capture([&] { pageable.copy_(x, true); }), HasSubstr("aten::copy_ to the CPU has to wait"));
  EXPECT_THAT(refusal_in_a_capture([&] { pinned.copy_(x); }), HasSubstr("aten::copy_ to the CPU has to wait"));
  EXPECT_THAT(refusal_in_a_capture([&] { x.copy_(pinned); }), HasSubstr("has to wait"));
  EXPECT_THAT(refusal_in_a_capture([&] { x.copy_(pageable); }), HasSubstr("has to wait"));
  EXPECT_THAT(refusal_in_a_capture([&] { x.copy_(pageable, true); }), HasSubstr("pageable memory"));
  EXPECT_THAT(refusal_in_a_capture([&] { static_cast<void>(pageable.to(device_, true)); }),
              HasSubstr("pageable memory"));
  EXPECT_THAT(refusal_in_a_capture([&] {
                x.copy_(torch::rand({4}).pin_memory().expand({2, 4}).t().select(1, 0), true);
              }),
              "");
  EXPECT_THAT(refusal_in_a_capture([&] { static_cast<void>(x.sum().item<float>()); }), HasSubstr("item()"));
  EXPECT_THAT(refusal_in_a_capture([&] { static_cast<void>(torch::equal(x, x + 1)); }), HasSubstr("aten::equal"));
  EXPECT_EQ(refusal_in_a_capture([&] {
              x.add_(1);
              EXPECT_TRUE(torch::equal(x, x)) << "known without looking";
              EXPECT_FALSE(torch::equal(x, x.view({2, 2})));
            }),
            "");
  EXPECT_TRUE(torch::equal(x, x.clone())) << "and the stream is as it was";
  EXPECT_FALSE(torch::equal(x, x + 1));
}

TEST_F(OnHostDevice, AGraphKeepsThePinnedMemoryThatItCopiesFrom) {
  torch::Tensor x, y;
  const auto integers = torch::full({1024}, 4, torch::kLong).pin_memory();
  CUDAGraph graph;
  capture(graph, [&] {
    x = torch::full({1024}, 3.0F).pin_memory().to(device_, true);
    y = torch::empty({1024}, device_).copy_(integers, true);
  });
  std::vector<torch::Tensor> others;
  for (int i = 0; i < 4; ++i) others.push_back(torch::full({1024}, -1.0F).pin_memory());
  for (int i = 0; i < 2; ++i) {
    graph.replay();
    EXPECT_TRUE(same(x, torch::full({1024}, 3.0F)));
    EXPECT_TRUE(same(y, torch::full({1024}, 4.0F)));
  }
}

TEST_F(OnHostDevice, CopiesTurnTypesStridesAndSizesAsTheCpusDo) {
  const auto a = torch::rand({3, 4});
  const auto check = [&](const torch::Tensor& from, const torch::Tensor& to) {
    const auto expected = to.clone().copy_(from);
    EXPECT_TRUE(same(here(to).copy_(here(from)), expected));
    EXPECT_TRUE(same(here(to).copy_(from), expected));
    EXPECT_TRUE(same(to.clone().copy_(here(from)), expected));
  };
  check(a, torch::zeros({3, 4}, torch::kDouble));
  check(a * 10, torch::zeros({3, 4}, torch::kLong));
  check(a.t(), torch::zeros({4, 3}));
  check(a.select(0, 1), torch::zeros({3, 4}));
  check(a.slice(1, 0, 4, 2), torch::zeros({3, 2}, torch::kHalf));
  check(torch::complex(a, a).conj(), torch::zeros({3, 4}, torch::kComplexFloat));
  check(torch::empty({0, 4}), torch::zeros({0, 4}));
  auto columns = here(torch::zeros({4, 4})).slice(1, 1, 3);
  columns.copy_(torch::ones({4, 2}));
  EXPECT_EQ(columns.sum().item<float>(), 8);
}

TEST_F(OnHostDevice, TensorsMoveBetweenTwoHostDevices) {
  if (at::globalContext().getAcceleratorHooksInterface(at::kPrivateUse1).deviceCount() < 2)
    GTEST_SKIP() << "needs two devices (REPRISE_HOST_DEVICES=2 gives them)";
  const auto second = host_device(1);
  const auto values = torch::rand({1 << 14});
  auto x = here(values);
  const auto y = x.mul(2).to(second);
  x.zero_();  // after the copy, in the order of both devices
  EXPECT_EQ(y.device(), second);
  EXPECT_TRUE(same(y, values * 2));
  EXPECT_TRUE(same(y.to(device_), values * 2));
  EXPECT_THROW(static_cast<void>(x + y), c10::Error);
  {
    const c10::DeviceGuard guard(second);
    EXPECT_EQ(torch::zeros({1}, torch::Device(c10::DeviceType::PrivateUse1)).device(), second);
    EXPECT_EQ(current_device(), Device::parse("host:1"));
  }
  EXPECT_EQ(current_device(), Device::parse("host"));
  const auto leaf = torch::rand({4}, device_).requires_grad_();
  leaf.to(second).pow(2).sum().backward();
  EXPECT_EQ(leaf.grad().device(), device_);
  EXPECT_TRUE(same(leaf.grad(), leaf.detach() * 2));
}

// --- Views and storage -----------------------------------------------------------------------------------------------

TEST_F(OnHostDevice, ViewsShareTheMemoryOfTheirBase) {
  const auto base = here(torch::arange(24, torch::kFloat));
  const auto expect_view = [&](const torch::Tensor& view, const torch::Tensor& expected) {
    EXPECT_TRUE(view.is_alias_of(base));
    EXPECT_EQ(view.strides(), expected.strides());
    EXPECT_TRUE(same(view, expected));
  };
  const auto on_cpu = torch::arange(24, torch::kFloat);
  expect_view(base.view({4, 6}), on_cpu.view({4, 6}));
  expect_view(base.view({4, 6}).t(), on_cpu.view({4, 6}).t());
  expect_view(base.as_strided({3, 2}, {2, 5}, 4), on_cpu.as_strided({3, 2}, {2, 5}, 4));
  expect_view(base.slice(0, 3, 20, 4), on_cpu.slice(0, 3, 20, 4));
  expect_view(base.view({2, 3, 4}).permute({2, 0, 1}).select(1, 1),
              on_cpu.view({2, 3, 4}).permute({2, 0, 1}).select(1, 1));
  expect_view(base.unfold(0, 5, 3), on_cpu.unfold(0, 5, 3));
  expect_view(base.view({4, 6}).diagonal(1), on_cpu.view({4, 6}).diagonal(1));
  expect_view(base.view({1, 24}).expand({3, 24}), on_cpu.view({1, 24}).expand({3, 24}));
  expect_view(base.view({4, 6}).split(2)[1], on_cpu.view({4, 6}).split(2)[1]);
  expect_view(base.view({4, 6}).unbind(1)[2], on_cpu.view({4, 6}).unbind(1)[2]);
  expect_view(base.detach(), on_cpu);
  expect_view(base.view(torch::kInt), on_cpu.view(torch::kInt));
  expect_view(base.view(torch::kDouble), on_cpu.view(torch::kDouble));
  expect_view(torch::view_as_complex(base.view({12, 2})), torch::view_as_complex(on_cpu.view({12, 2})));
  base.view({4, 6}).slice(1, 2, 4).zero_();
  on_cpu.view({4, 6}).slice(1, 2, 4).zero_();
  EXPECT_TRUE(same(base, on_cpu));
  const auto complex = here(torch::complex(on_cpu, on_cpu + 1));
  EXPECT_TRUE(torch::view_as_real(complex).is_alias_of(complex));
  EXPECT_TRUE(same(torch::view_as_real(complex), torch::view_as_real(complex.cpu())));
}

TEST_F(OnHostDevice, StoragesAreSetSharedAndResized) {
  const auto base = here(torch::arange(6, torch::kFloat));
  auto x = torch::empty({0}, device_);
  x.set_(base);
  EXPECT_TRUE(x.is_alias_of(base));
  EXPECT_TRUE(same(x, base));
  x.set_(base.storage(), 2, {2}, {2});
  EXPECT_TRUE(same(x, torch::tensor({2.0F, 4.0F})));
  x.set_(base.storage());
  EXPECT_EQ(x.numel(), 6);
  x.set_();
  EXPECT_EQ(x.numel(), 0);
  EXPECT_EQ(x.device(), device_);
  EXPECT_FALSE(x.is_alias_of(base));

  auto grown = here(torch::arange(4, torch::kFloat));
  grown.resize_({2, 4});
  EXPECT_TRUE(same(grown[0], torch::arange(4, torch::kFloat))) << "what was there is kept";
  const auto* const memory = grown.data_ptr();
  grown.resize_({3});
  EXPECT_EQ(grown.data_ptr(), memory) << "less needs no other memory";
  auto same_size = torch::empty({0}, device_);
  same_size.resize_as_(base);
  EXPECT_EQ(same_size.sizes(), base.sizes());
  auto data = torch::zeros({2}, device_);
  data.set_data(base);
  EXPECT_TRUE(data.is_alias_of(base));
}

// --- Private pools ---------------------------------------------------------------------------------------------------

TEST_F(OnHostDevice, TensorsMadeInACaptureAreInThePoolOfTheGraphAndOutliveTheirScope) {
  const auto x = torch::zeros({1 << 10}, device_);
  torch::Tensor y;
  CUDAGraph graph;
  capture(graph, [&] {
    const auto gone = x + 1;
    y = (gone * gone).exp_().log_();
  });
  EXPECT_GE(pool_statistics(graph).reserved_bytes, 2U << 20);
  EXPECT_EQ(pool_statistics(graph).allocations, 1U) << "what lives on is y";
  const auto others = torch::rand({1 << 10}, device_);  // not in the memory that a replay writes
  const auto kept = others.clone();
  x.fill_(2);
  graph.replay();
  EXPECT_TRUE(torch::allclose(y.cpu(), torch::full({1 << 10}, 9.0F)));
  y = torch::Tensor();
  const auto again = torch::rand({1 << 10}, device_);
  const auto kept_again = again.clone();
  graph.replay();
  EXPECT_TRUE(same(others, kept));
  EXPECT_TRUE(same(again, kept_again)) << "the pool's memory is given to no one else";
}

TEST_F(OnHostDevice, ThePoolOfAGraphGoesBackWhenGraphAndTensorsAreGone) {
  auto& allocator = CachingAllocator::of(Device::parse("host"));
  stream_.synchronize();
  allocator.empty_cache();
  const auto before = allocator.statistics().reserved_bytes;
  CUDAGraph graph;
  torch::Tensor y;
  capture(graph, [&] { y = torch::ones({1 << 20}, device_) + 1; });
  EXPECT_GT(allocator.statistics().reserved_bytes, before);
  graph.replay();
  stream_.synchronize();
  graph.reset();
  EXPECT_EQ(y.sum().item<float>(), 2 << 20) << "the tensor keeps its memory without the graph";
  y = torch::Tensor();
  allocator.empty_cache();
  EXPECT_LE(allocator.statistics().reserved_bytes, before + (2U << 20));
}

TEST_F(OnHostDevice, TwoGraphsShareAPool) {
  const auto x = torch::ones({8}, device_);
  torch::Tensor y, z;
  CUDAGraph first, second;
  capture(first, [&] { y = x * 2; });
  GraphOptions options;
  options.pool = first.pool();
  capture(second, options, [&] { z = y + 1; });
  EXPECT_EQ(first.pool(), second.pool());
  x.fill_(5);
  first.replay();
  second.replay();
  EXPECT_TRUE(same(z, torch::full({8}, 11.0F)));
}

TEST_F(OnHostDevice, TheInputsOfAGraphAreTheTensorsFromBeforeItAndNotItsRandomNumbers) {
  const auto x = torch::rand({64}, device_);
  torch::Tensor y;
  CUDAGraph graph;
  GraphOptions options;
  options.check_input_liveness = true;
  capture(graph, options, [&] { y = torch::dropout(x * 2, 0.5, true); });
  ASSERT_EQ(graph.inputs().size(), 1U);
  EXPECT_EQ(graph.inputs()[0].address, x.data_ptr());
  graph.replay();
}

// --- Errors ----------------------------------------------------------------------------------------------------------

TEST_F(OnHostDevice, AnOperatorsMistakeIsToldAtTheCallInItsOwnWords) {
  const auto a = torch::rand({2, 3}, device_);
  EXPECT_THAT(error_text([&] { static_cast<void>(torch::mm(a, a)); }), HasSubstr("2x3"));
  EXPECT_THAT(error_text([&] { static_cast<void>(a + torch::rand({4}, device_)); }), HasSubstr("must match"));
  EXPECT_THAT(error_text([&] { static_cast<void>(a.view({7})); }), HasSubstr("invalid for input of size 6"));
  EXPECT_THAT(error_text([&] {
                static_cast<void>(torch::conv2d(a.view({1, 2, 3, 1}), a.view({1, 6, 1, 1})));
              }),
              HasSubstr("channels"));
  EXPECT_TRUE(same(a, a)) << "nothing was given to the device";
}

// An error on the device stays: a process of its own.
TEST_F(OnHostDevice, AMistakeInTheValuesIsToldWithTheNameOfTheOperator) {
  GTEST_FLAG_SET(death_test_style, "threadsafe");
  EXPECT_EXIT(
      {
        torch::nn::Embedding table(4, 2);
        table->to(device_);
        const auto index = here(torch::tensor({1, 9}));
        static_cast<void>(table->forward(index));
        std::string text;
        try {
          stream_.synchronize();
        } catch (const std::exception& error) {
          text = error.what();
        }
        const bool named =
            text.find("aten::embedding") != std::string::npos || text.find("aten::index_select") != std::string::npos;
        const bool short_text = text.find("frame #") == std::string::npos;
        std::fputs(text.c_str(), stderr);
        std::_Exit(named && short_text ? 0 : 1);
      },
      ::testing::ExitedWithCode(0), "out of range");
}

// Kernels use static objects of libtorch, which std::exit() destroys. Memory that is freed is filled, to be noticed.
TEST_F(OnHostDevice, TheProcessMayEndWhileReplaysArePending) {
  GTEST_FLAG_SET(death_test_style, "threadsafe");
  EXPECT_EXIT(
      {
        mallopt(M_PERTURB, 165);
        const torch::Tensor a = torch::rand({64, 64}, device_);
        torch::Tensor product;
        CUDAGraph graph = capture({.warmup = 1}, [&] { product = torch::addmm(a, a, a); });
        for (int i = 0; i < 20000; ++i) graph.replay();
        std::exit(7);
      },
      ::testing::ExitedWithCode(7), "");
}

}  // namespace
}  // namespace reprise::libtorch::test
