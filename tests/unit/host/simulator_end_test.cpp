// SPDX-License-Identifier: Apache-2.0
#include <atomic>
#include <memory>
#include <optional>

#include "backend/host_work.h"
#include "tests/unit/host/simulator_fixture.h"

// The end of a HostSimulator: what it waits for, what keeps its device open, and what is left of it.

namespace reprise::simulator_test {

using ::testing::ElementsAre;

namespace {

// How many more simulators there can be.
std::size_t free_simulators() {
  std::vector<std::unique_ptr<HostSimulator>> made;
  try {
    for (;;) made.push_back(std::make_unique<HostSimulator>());
  } catch (const UsageError&) {
    return made.size();
  }
}

bool all_become_free() {
  const auto deadline = std::chrono::steady_clock::now() + reprise::test::patience;
  while (free_simulators() != 16)
    if (std::chrono::steady_clock::now() > deadline) return false;
  return true;
}

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
  EXPECT_EQ(free_simulators(), 16U);
}

TEST(EndOfAHostSimulator, SaysWhatStillUsesItsDevice) {
  const Warnings warnings;
  Ending ending;
  const std::string name = ending.device().str();
  {
    std::optional<DeviceGuard> guard(ending.device());
    const Buffer<int> x(512), y(512);
    const Stream stream;
    const Event event, other;
    CUDAGraph graph;
    capture(graph, {.stream = stream, .name = "step"}, [&] { call_on_host(current_stream(), &set_flag, nullptr); });
    guard.reset();
    ending.end();
    EXPECT_THAT(warnings.texts(),
                ElementsAre(AllOf(HasSubstr("A HostSimulator ended while its device, " + name +
                                            ", is still used by 2 buffers (4096 bytes), 1 stream, 2 events and 1 "
                                            "graph (`step`):"),
                                  HasSubstr("Destroy them before the HostSimulator"))));
  }
  EXPECT_EQ(free_simulators(), 16U);
}

TEST(EndOfAHostSimulator, LeavesTheDeviceOpenForWhatStillUsesIt) {
  const Warnings warnings;
  Ending ending;
  std::optional<CUDAGraph> graph(std::in_place);
  std::optional<Stream> stream(ending.device());
  std::optional<Buffer<int>> x;
  {
    const StreamGuard guard(*stream);
    x = zeros();
    capture(*graph, {}, [&] { add(*x); });
  }
  ending.end();
  EXPECT_EQ(warnings.texts().size(), 1U);
  EXPECT_EQ(free_simulators(), 15U);
  graph->replay(*stream);
  graph->replay(*stream);
  {
    const StreamGuard guard(*stream);
    EXPECT_EQ(first(*x), 2);
  }
  stream.reset();
  EXPECT_EQ(free_simulators(), 15U);
  x.reset();
  EXPECT_EQ(free_simulators(), 15U);
  graph.reset();
  EXPECT_EQ(free_simulators(), 16U);
  EXPECT_EQ(warnings.texts().size(), 1U);
}

TEST(EndOfAHostSimulator, LeavesTheDeviceOpenForEachKindOfUse) {
  const auto keeps_open = [](const char* what, auto make) {
    const Warnings warnings;
    Ending ending;
    {
      const auto user = make(ending.device());
      ending.end();
      EXPECT_EQ(free_simulators(), 15U) << what;
      EXPECT_THAT(warnings.texts(), ElementsAre(HasSubstr(std::string("is still used by ") + what)));
    }
    EXPECT_EQ(free_simulators(), 16U) << what;
  };
  keeps_open("1 buffer (512 bytes)", [](Device device) { return Buffer<int>(1, device.default_stream()); });
  keeps_open("1 stream", [](Device device) { return Stream(device); });
  keeps_open("1 event", [](Device device) { return Event(device); });
  keeps_open("1 generator", [](Device device) { return Generator(device); });
  keeps_open("1 guard", [](Device device) { return std::make_unique<DeviceGuard>(device); });
  keeps_open("1 guard", [](Device device) { return std::make_unique<StreamGuard>(device.default_stream()); });
  keeps_open("1 injected failure", [](Device device) {
    return std::make_unique<InjectedFailure>(HostFailure{.call = "cuMemAlloc", .device = device});
  });
  keeps_open("1 graph", [](Device device) {
    const DeviceGuard guard(device);
    auto graph = std::make_unique<CUDAGraph>();
    capture(*graph, {.allow_empty = true}, [] {});
    return graph;
  });
}

TEST(EndOfAHostSimulator, LeavesTheDeviceOpenForACaptureThatIsUnderway) {
  const Warnings warnings;
  Ending ending;
  {
    const Stream stream(ending.device());
    const StreamGuard guard(stream);
    CUDAGraph graph;
    graph.capture_begin({.allow_empty = true});
    ending.end();
    EXPECT_THAT(warnings.texts(), ElementsAre(HasSubstr("1 stream, 1 graph and 1 guard")));
    graph.capture_end();
    graph.replay();
  }
  EXPECT_TRUE(all_become_free());  // when the replay is over
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
  EXPECT_EQ(free_simulators(), 16U);
}

TEST(EndOfAHostSimulator, IsQuietWhenItsDeviceIsBroken) {
  const Warnings warnings;
  {
    const HostSimulator simulator;
    const StreamRef stream = simulator.device().default_stream();
    { const Buffer<int> cached(1, stream); }
    backend::enqueue(stream, "throws", [] { throw std::runtime_error("of the test"); }, {});
    EXPECT_THAT(text_of<BackendError>([&] { stream.synchronize(); }),
                AllOf(HasSubstr("of the test"), HasSubstr("stays unusable until its HostSimulator ends")));
  }
  EXPECT_THAT(warnings.texts(), IsEmpty());
  EXPECT_EQ(free_simulators(), 16U);
}

TEST(EndOfAHostSimulator, CountsAsNoCallThatIsToFail) {
  const Warnings warnings;
  const InjectedFailure free_fails({.call = "cuMemFree"}), synchronize_fails({.call = "cuCtxSynchronize"});
  {
    const HostSimulator simulator;
    const Buffer<int> cached(1, simulator.device().default_stream());
  }
  EXPECT_FALSE(free_fails.happened());
  EXPECT_FALSE(synchronize_fails.happened());
  EXPECT_THAT(warnings.texts(), IsEmpty());
}

TEST(EndOfAHostSimulator, CanComeFromAnotherThread) {
  const Warnings warnings;
  Ending ending;
  auto stream = std::make_unique<Stream>(ending.device());
  std::thread([&] { ending.end(); }).join();
  std::thread([&] { stream.reset(); }).join();
  EXPECT_EQ(free_simulators(), 16U);
}

TEST(EndOfAHostSimulator, CanComeFromAnOperationThatHadTheLastUse) {
  const Warnings warnings;
  Ending ending;
  Gate gate(reprise::test::by_steps_too);
  auto stream = std::make_unique<Stream>(ending.device());
  auto x = std::make_shared<Buffer<int>>(1, *stream);
  ending.end();
  backend::enqueue(*stream, "holds", [x = std::move(x), &gate] { gate.stand(); }, {});
  EXPECT_TRUE(gate.wait_until_reached());
  stream.reset();
  EXPECT_EQ(free_simulators(), 15U);
  gate.open();
  EXPECT_TRUE(all_become_free());
}

TEST(EndOfAHostSimulator, LeavesDeviceValuesThatAreRefused) {
  std::optional<HostSimulator> simulator(std::in_place);
  const Device device = simulator->device();
  const StreamRef stream = device.default_stream();
  simulator.reset();
  const auto refused = AllOf(HasSubstr(device.str()), HasSubstr("HostSimulator"), HasSubstr("ended"));
  EXPECT_THAT(text_of<UsageError>([&] { const Stream made(device); }), refused);
  EXPECT_THAT(text_of<UsageError>([&] { const Event made(device); }), refused);
  EXPECT_THAT(text_of<UsageError>([&] { const DeviceGuard made(device); }), refused);
  EXPECT_THAT(text_of<UsageError>([&] { const Generator made(device); }), refused);
  EXPECT_THAT(text_of<UsageError>([&] { const Buffer<int> made(1, stream); }), refused);
  EXPECT_THAT(text_of<BackendError>([&] { device.synchronize(); }), refused);
  EXPECT_EQ(current_device(), default_device());
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
  EXPECT_EQ(free_simulators(), 16U);
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
