// SPDX-License-Identifier: Apache-2.0
#include <atomic>
#include <memory>
#include <optional>

#include "backend/host_work.h"
#include "tests/unit/host/simulator_fixture.h"

// The end of a HostSimulator: what it waits for, what stays valid, and when its device is used again.

namespace reprise::simulator_test {

namespace {

/// A simulator that can be ended before what is on it.
struct Ending {
  explicit Ending(const HostDeviceOptions& options = {}) : simulator(std::in_place, options) {}
  Device device() const { return simulator->device(); }
  void end() { simulator.reset(); }
  std::optional<HostSimulator> simulator;
};

void set_flag(void* flag) {
  *static_cast<std::atomic<bool>*>(flag) = true;
}

TEST(EndOfAHostSimulator, WaitsForItsWork) {
  Ending ending;
  Gate gate(reprise::test::by_steps_too);
  std::atomic<bool> ran{false};
  {
    const Stream stream(ending.device());
    call_on_host(stream, &Gate::pass, &gate);
    call_on_host(stream, &set_flag, &ran);
  }
  std::thread opener([&] {
    EXPECT_TRUE(gate.wait_until_reached());
    gate.open();
  });
  ending.end();
  EXPECT_TRUE(ran);
  opener.join();
}

TEST(EndOfAHostSimulator, RunsWorkThatNothingHasWaitedFor) {
  Ending ending({.scheduler_seed = 3});
  std::atomic<bool> ran{false};
  call_on_host(ending.device().default_stream(), &set_flag, &ran);
  EXPECT_FALSE(ran);
  ending.end();
  EXPECT_TRUE(ran);
}

TEST(EndOfAHostSimulator, WaitsForReplaysOfGraphsThatAreGone) {
  for (const KeepGraph keep : {KeepGraph::no, KeepGraph::yes}) {
    const Warnings warnings;
    Ending ending;
    Gate gate(reprise::test::by_steps_too);
    auto held = std::make_shared<int>(1);
    const std::weak_ptr<int> alive = held;
    {
      const DeviceGuard guard(ending.device());
      CUDAGraph graph(keep);
      Buffer<int> x = zeros();
      capture(graph, [&] {
        call_on_host(current_stream(), &Gate::pass, &gate);
        add(x);
      });
      graph.retain(std::move(held));
      graph.replay();
      EXPECT_TRUE(gate.wait_until_reached());
    }
    EXPECT_FALSE(alive.expired());
    std::thread opener([&] { gate.open(); });
    ending.end();
    EXPECT_TRUE(alive.expired());
    EXPECT_THAT(warnings.texts(), IsEmpty());
    opener.join();
  }
}

TEST(EndOfAHostSimulator, LeavesValidWhatOutlivesIt) {
  const Warnings warnings;
  Ending ending;
  const Device device = ending.device();
  const Stream stream(device);
  Buffer<int> x;
  CUDAGraph graph;
  {
    const StreamGuard guard(stream);
    x = zeros();
    capture(graph, {}, [&] { add(x); });
  }
  ending.end();
  graph.replay(stream);
  graph.replay(stream);
  const StreamGuard guard(stream);
  EXPECT_EQ(first(x), 2);
  device.synchronize();
  EXPECT_THAT(warnings.texts(), IsEmpty());
}

// Options of no other test, so that each device is new or one of these.
constexpr HostDeviceOptions own_options{.memory_bytes = std::size_t{67} << 20};

TEST(EndOfAHostSimulator, LeavesItsDeviceForALaterOneWithEqualOptions) {
  Ending ending(own_options);
  const Device device = ending.device();
  ending.end();
  {
    const HostSimulator other({.memory_bytes = std::size_t{68} << 20});
    EXPECT_NE(other.device(), device);
    const HostSimulator next(own_options), after(own_options);
    EXPECT_EQ(next.device(), device);
    EXPECT_NE(after.device(), device);
  }
  EXPECT_EQ(HostSimulator(own_options).device(), device);
}

TEST(EndOfAHostSimulator, LeavesItsDeviceToNoOtherWhileMemoryOrAGraphIsLeft) {
  Ending ending(own_options);
  const Device device = ending.device();
  std::optional<Buffer<int>> left(std::in_place, 1, device.default_stream());
  ending.end();
  EXPECT_NE(HostSimulator(own_options).device(), device);
  left.reset();
  ending.simulator.emplace(own_options);
  ASSERT_EQ(ending.device(), device) << "its memory is free again";
  std::optional<HostBuffer<int>> pinned(std::in_place, 1, device);
  ending.end();
  EXPECT_NE(HostSimulator(own_options).device(), device);
  pinned.reset();
  ending.simulator.emplace(own_options);
  ASSERT_EQ(ending.device(), device);
  std::optional<CUDAGraph> graph = capture(device, [] { launch_host(current_stream(), [] {}); });
  ending.end();
  EXPECT_NE(HostSimulator(own_options).device(), device);
  graph.reset();
  EXPECT_EQ(HostSimulator(own_options).device(), device);
}

TEST(EndOfAHostSimulator, LeavesACaptureUnderway) {
  const Warnings warnings;
  Ending ending;
  const Stream stream(ending.device());
  const StreamGuard guard(stream);
  CUDAGraph graph;
  graph.capture_begin({.allow_empty = true});
  ending.end();
  graph.capture_end();
  graph.replay();
  EXPECT_THAT(warnings.texts(), IsEmpty());
}

TEST(EndOfAHostSimulator, IsQuietWhenAllIsGoneAndOnlyCachesAreLeft) {
  const Warnings warnings;
  {
    const CurrentSimulator simulator;
    { const Buffer<int> cached(1 << 20); }
    const Generator defaulted = default_generator(simulator.device());
    CUDAGraph graph;
    capture(graph, [&] {
      call_on_host(
          current_stream(), [](void*) {}, nullptr);
    });
    graph.replay();
  }
  EXPECT_THAT(warnings.texts(), IsEmpty());
}

TEST(EndOfAHostSimulator, LeavesABrokenDeviceToNoOther) {
  const Warnings warnings;
  std::optional<Device> broken;
  {
    const HostSimulator simulator(own_options);
    broken = simulator.device();
    const StreamRef stream = simulator.device().default_stream();
    { const Buffer<int> cached(1, stream); }
    backend::enqueue(stream, "throws", [] { throw std::runtime_error("of the test"); }, {});
    EXPECT_THAT(text_of<BackendError>([&] { stream.synchronize(); }),
                AllOf(HasSubstr("of the test"), HasSubstr("stays unusable until its HostSimulator ends")));
  }
  const HostSimulator next(own_options);
  EXPECT_NE(next.device(), *broken);
  next.device().synchronize();
  EXPECT_THAT(warnings.texts(), IsEmpty());
}

// One round on a new simulator; `round` numbers differ.
void use_everything(int round) {
  const HostSimulator simulator({.check_races = true});
  const Device device = simulator.device();
  EXPECT_EQ(current_stream(device), device.default_stream());
  EXPECT_EQ(device.memory_info().free, device.memory_info().total);
  CachingAllocator& allocator = CachingAllocator::of(device);
  EXPECT_EQ(allocator.device(), device);
  EXPECT_EQ(allocator.statistics().reserved_bytes, 0U);
  EXPECT_EQ(allocator.statistics().peak_reserved_bytes, 0U);
  const Generator generator = default_generator(device);
  EXPECT_EQ(generator.offset(), 0U);
  const DeviceGuard guard(device);
  const Stream stream;
  const StreamGuard on_stream(stream);
  Buffer<int> x = zeros();
  CUDAGraph graph;
  capture(graph, {.inputs = {.retain = true}}, [&] {
    static_cast<void>(generator.philox_state(1));
    add(x, round);
  });
  graph.replay();
  EXPECT_EQ(first(x), round);
  EXPECT_EQ(simulator.races().size(), 0U);
}

TEST(EndOfAHostSimulator, LeavesNothingForLaterOnes) {
  const Warnings warnings;
  std::thread other([] {
    for (int round = 100; round < 140; ++round) use_everything(round);
  });
  for (int round = 0; round < 40; ++round) use_everything(round);
  other.join();
  EXPECT_THAT(warnings.texts(), IsEmpty());
}

TEST(EndOfAHostSimulator, LeavesThreadsWithDefaultStreamsOfTheirOwn) {
  const StreamHandle own = reinterpret_cast<StreamHandle>(std::uintptr_t{2});
  Ending ending;
  std::atomic<bool> ran{false};
  std::thread([&] {
    call_on_host(StreamRef(ending.device(), own), &set_flag, &ran);
    ending.end();
    EXPECT_TRUE(ran);
    const HostSimulator next;
    StreamRef(next.device(), own).synchronize();
  }).join();
}

}  // namespace
}  // namespace reprise::simulator_test
