// SPDX-License-Identifier: Apache-2.0
#include <c10/core/Event.h>
#include <c10/core/StreamGuard.h>
#include <c10/core/impl/VirtualGuardImpl.h>

#include <atomic>
#include <set>
#include <thread>

#include "backend/host_work.h"
#include "reprise/libtorch/graph.h"
#include "tests/libtorch/host/host_device_fixture.h"
#include "tests/support/by_steps.h"
#include "tests/support/text_of.h"

// Streams and events of libtorch and of this library: one current stream for both.

namespace reprise::libtorch::test {
namespace {

using ::reprise::test::text_of;
using ::testing::HasSubstr;

const c10::DeviceType type_here = c10::DeviceType::PrivateUse1;

TEST_F(OnHostDevice, BothLibrariesHaveOneCurrentStream) {
  const c10::impl::VirtualGuardImpl guard(type_here);
  EXPECT_EQ(stream_ref(guard.getStream(device_)), stream_.ref());
  const c10::Stream other = guard.getStreamFromGlobalPool(device_);
  {
    const c10::StreamGuard in(other);
    EXPECT_EQ(current_stream(), stream_ref(other));
    const Stream inner;
    {
      const StreamGuard in_ours(inner);
      EXPECT_EQ(guard.getStream(device_), c10_stream(inner));
    }
    EXPECT_EQ(guard.getStream(device_), other);
  }
  EXPECT_EQ(current_stream(), stream_.ref());
  EXPECT_EQ(stream_ref(guard.getDefaultStream(device_)), default_device().default_stream());
  std::thread([&] {
    EXPECT_EQ(guard.getStream(device_), guard.getDefaultStream(device_)) << "each thread has its own";
  }).join();
}

TEST_F(OnHostDevice, EventsOfLibtorchOrderAndTimeWork) {
  const c10::impl::VirtualGuardImpl guard(type_here);
  const c10::Stream ours = guard.getStream(device_), other = guard.getNewStream(device_);
  c10::Event start(type_here, c10::EventFlag::BACKEND_DEFAULT), end(type_here, c10::EventFlag::BACKEND_DEFAULT);
  EXPECT_TRUE(start.query()) << "never recorded";
  auto x = torch::rand({128, 128}, device_);
  start.record(ours);
  for (int i = 0; i < 10; ++i) x = x.mm(x).softmax(1);
  end.record(ours);
  torch::Tensor y;
  {
    const c10::StreamGuard in(other);
    end.block(other);
    y = x + 1;
  }
  other.synchronize();
  EXPECT_TRUE(end.query());
  EXPECT_TRUE(ours.query());
  EXPECT_GT(start.elapsedTime(end), 0);
  end.synchronize();
  EXPECT_TRUE(same(y, x + 1));
}

TEST_F(OnHostDevice, EventsOfLibtorchForkAndJoinACapture) {
  const c10::impl::VirtualGuardImpl guard(type_here);
  const c10::Stream side = guard.getNewStream(device_);
  const auto x = torch::zeros({16}, device_);
  torch::Tensor y, z;
  CUDAGraph graph;
  capture(graph, [&] {
    const c10::Stream main = guard.getStream(device_);
    c10::Event forked(type_here), joined(type_here);
    forked.record(main);
    {
      const c10::StreamGuard in(side);
      forked.block(side);
      y = x + 1;
      joined.record(side);
    }
    z = x * 3;
    joined.block(main);
    z = z + y;
  });
  x.fill_(2);
  graph.replay();
  EXPECT_TRUE(same(z, torch::full({16}, 9.0F)));
}

TEST_F(OnHostDevice, StreamsOfThePoolAreThirtyTwoGivenOutInTurn) {
  const c10::impl::VirtualGuardImpl guard(type_here);
  std::set<c10::StreamId> seen;
  for (int i = 0; i < 100; ++i) seen.insert(guard.getNewStream(device_).id());
  EXPECT_EQ(seen.size(), 32U);
}

TEST_F(OnHostDevice, BackwardRunsOnTheStreamOfTheForwardPass) {
  const Stream forward;
  const auto x = torch::rand({4}, device_).requires_grad_();
  stream_.synchronize();
  torch::Tensor loss;
  std::vector<StreamRef> seen;
  std::vector<std::thread::id> threads;
  {
    const StreamGuard in(forward);
    const auto y = x * 2;
    y.register_hook([&](const torch::Tensor& gradient) {
      seen.push_back(current_stream());
      threads.push_back(std::this_thread::get_id());
      return gradient;
    });
    loss = y.pow(2).sum();
  }
  loss.backward();
  ASSERT_EQ(seen.size(), 1U);
  EXPECT_EQ(seen[0], forward.ref());
  EXPECT_NE(threads[0], std::this_thread::get_id()) << "a thread of autograd's for the device";
  EXPECT_TRUE(same(x.grad(), x.detach() * 8)) << "the stream of the call waits for it";
}

TEST_F(OnHostDevice, BackwardIsCapturedFromAnotherStreamThanTheForwardPass) {
  const Stream side;
  const auto x = torch::rand({4}, device_).requires_grad_();
  torch::Tensor gradient;
  CUDAGraph graph;
  capture(graph, [&] {
    const auto loss = (x * x * x).sum();
    const StreamRef main = current_stream();
    side.wait(main);
    {
      const StreamGuard in(side);
      gradient = torch::autograd::grad({loss}, {x})[0] * 2;
    }
    main.wait(side);
  });
  x.detach().fill_(2);
  graph.replay();
  EXPECT_TRUE(same(gradient, torch::full({4}, 24.0F)));
}

TEST_F(OnHostDevice, SeveralThreadsCaptureAndRunTensorsAtOnce) {
  std::vector<std::thread> threads;
  std::atomic<int> right{0};
  for (int t = 0; t < 4; ++t)
    threads.emplace_back([&, t] {
      const DeviceGuard device(Device::parse("host"));
      const Stream stream;
      const StreamGuard in(stream);
      const auto x = torch::full({8}, static_cast<float>(t), device_).requires_grad_();
      torch::Tensor gradient;
      CUDAGraph graph;
      GraphOptions options;
      options.capture_error_mode = CaptureMode::thread;
      capture(graph, options, [&] { gradient = torch::autograd::grad({(x * x).sum()}, {x})[0]; });
      for (int i = 0; i < 5; ++i) {
        x.detach().fill_(t + i);
        graph.replay();
        right += same(gradient, torch::full({8}, 2.0F * static_cast<float>(t + i))) ? 1 : 0;
      }
    });
  for (auto& thread : threads) thread.join();
  EXPECT_EQ(right, 20);
}

TEST_F(OnHostDevice, TensorsCannotUseTheDeviceOfASimulator) {
  const HostSimulator simulator;
  const StreamRef stream = simulator.device().default_stream();
  EXPECT_THROW(static_cast<void>(c10_stream(stream)), UsageError);
  const DeviceGuard guard(simulator.device());
  EXPECT_THROW(torch::zeros({1}, torch::Device(type_here)), UsageError);
  EXPECT_EQ(torch::ones({1}, device_).item<float>(), 1.0F) << "those of other devices are as ever";
  EXPECT_EQ(current_device(), simulator.device());
}

// As on a machine with a GPU, whose CUDA device is current there.
TEST_F(OnHostDevice, TensorsAreRefusedInACaptureOfTheDeviceThatIsCurrentInstead) {
  const HostSimulator simulator;
  const DeviceGuard elsewhere(simulator.device());
  torch::Tensor x = torch::zeros({4}, device_);
  const auto captured = [&] { return capture([&] { x.add_(1); }); };
  {
    const c10::DeviceGuard among_host_devices(device_);
    const std::string what = text_of<UsageError>([&] { static_cast<void>(captured()); });
    EXPECT_THAT(what,
                HasSubstr("found a stream of host:0, where it would be executed at once and be missing in replays"));
    EXPECT_THAT(what, HasSubstr("begin it while host:0 is current (DeviceGuard);"));
  }
  const DeviceGuard here(Device::parse("host"));
  CUDAGraph graph = captured();
  EXPECT_TRUE(same(x, torch::zeros({4})));
  graph.replay();
  EXPECT_TRUE(same(x, torch::ones({4})));
}

TEST_F(OnHostDevice, MemoryThatAnotherStreamUsesIsNotGivenOutBefore) {
  reprise::test::skip_by_steps();
  const Stream side;
  auto x = torch::ones({1 << 10}, device_);
  stream_.synchronize();
  std::atomic<bool> open = false;
  auto result = torch::zeros({1 << 10}, device_);
  stream_.synchronize();
  backend::enqueue(side, "gate",
                   [&] {
                     while (!open) std::this_thread::yield();
                   },
                   {});
  {
    const StreamGuard in(side);
    result.add_(x);
  }
  x.record_stream(c10_stream(side));
  const void* const memory = x.data_ptr();
  x = torch::Tensor();
  const auto other = torch::zeros({1 << 10}, device_);
  EXPECT_NE(other.data_ptr(), memory);
  stream_.synchronize();
  open = true;
  side.synchronize();
  EXPECT_EQ(result.sum().item<float>(), 1 << 10);
}

}  // namespace
}  // namespace reprise::libtorch::test
