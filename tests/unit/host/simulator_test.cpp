// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <memory>
#include <set>
#include <sstream>
#include <stdexcept>

#include "tests/unit/host/simulator_fixture.h"

// The device of a HostSimulator while the simulator lives. simulator_end_test.cpp has its end.

namespace reprise::simulator_test {

using graphs::test::Add;
using graphs::test::contains;
using graphs::test::read;
using ::testing::MatchesRegex;

namespace {

TEST(HostSimulator, RunsWorkOfStreamsAndEventsOnItsOwnDevice) {
  const CurrentSimulator simulator;
  const Stream a, b;
  const Event between;
  Buffer<int> x = zeros(1000);
  add(x, 3, a);
  between.record(a);
  between.wait(b);
  add(x, 4, b);
  b.synchronize();
  EXPECT_EQ(x.device(), simulator.device());
  EXPECT_EQ(read(x), std::vector<int>(1000, 7));
}

TEST(HostSimulator, CapturesAndReplays) {
  const CurrentSimulator simulator;
  Buffer<int> x = zeros();
  CUDAGraph graph;
  capture(graph, [&] { add(x); });
  EXPECT_EQ(first(x), 0);
  for (int i = 0; i < 10; ++i) graph.replay();
  EXPECT_EQ(first(x), 10);
}

TEST(HostSimulator, DrawsRandomNumbersInGraphsAsEagerWorkDoes) {
  const CurrentSimulator simulator;
  const Generator generator = default_generator(simulator.device());
  CUDAGraph graph;
  PhiloxState drawn;
  Buffer<int> x = zeros();
  capture(graph, [&] {
    drawn = generator.philox_state(4);
    add(x);
  });
  EXPECT_NE(drawn.words, nullptr);
  graph.replay();
  graph.replay();
  EXPECT_EQ(generator.offset(), 8U);
}

TEST(HostSimulator, SaysWhichCallBrokeACapture) {
  const CurrentSimulator simulator;
  CUDAGraph graph;
  EXPECT_THROW(capture(graph, [] { current_stream().synchronize(); }), BackendError);
  ASSERT_TRUE(graph.capture_report().has_value());
  EXPECT_EQ(graph.capture_report()->device, simulator.device().str());
  EXPECT_TRUE(contains(graph.capture_report()->str(), "cuStreamSynchronize"));
}

TEST(HostSimulator, IsNotAmongTheDevicesOfTheProcess) {
  const HostSimulator simulator;
  const Device device = simulator.device();
  EXPECT_EQ(device.type(), DeviceType::host);
  EXPECT_THAT(device.str(), MatchesRegex("host-simulator:[0-9]+"));
  EXPECT_EQ(device.str(), "host-simulator:" + std::to_string(device.index()));
  EXPECT_EQ(std::ranges::count(devices(), device), 0);
  EXPECT_NE(default_device(), device);
  EXPECT_NE(current_device(), device);
}

TEST(HostSimulator, IsNotFoundByItsName) {
  const HostSimulator simulator;
  const std::string name = simulator.device().str();
  EXPECT_THAT(text_of<UsageError>([&] { Device::parse(name); }),
              AllOf(HasSubstr("found \"" + name + "\""), HasSubstr("use HostSimulator::device()")));
}

TEST(HostSimulator, HasTheMemoryOfItsOptions) {
  const HostSimulator small({.memory_bytes = std::size_t{4} << 20}), other;
  EXPECT_EQ(small.device().memory_info().total, std::size_t{4} << 20);
  const Buffer<int> fits(1 << 18, small.device().default_stream());
  EXPECT_THROW(Buffer<int>(1 << 20, small.device().default_stream()), OutOfMemoryError);
  EXPECT_EQ(other.device().memory_info().free, std::size_t{4} << 30);
}

TEST(HostSimulator, RunsWhileAnotherOneIsHeld) {
  Gate gate(reprise::test::by_steps_too);
  const HostSimulator one, other;
  const Stream held(one.device()), runs(other.device());
  call_on_host(held, &Gate::pass, &gate);
  const StreamGuard guard(runs);
  Buffer<int> x = zeros();
  add(x);
  other.device().synchronize();
  EXPECT_EQ(first(x), 1);
  EXPECT_FALSE(held.query());
  gate.open();
}

TEST(HostSimulator, RefusesStreamsAndEventsOfAnotherOne) {
  const HostSimulator one, other;
  const Stream a(one.device()), b(other.device());
  const Event event(one.device());
  const auto refused = AllOf(HasSubstr(one.device().str()), HasSubstr(other.device().str()));
  EXPECT_THAT(text_of<UsageError>([&] { b.wait(a); }), refused);
  EXPECT_THAT(text_of<UsageError>([&] { event.record(b); }), refused);
  EXPECT_THAT(text_of<UsageError>([&] { event.wait(b); }), refused);
  EXPECT_THROW(event.wait(Device::parse("host").default_stream()), UsageError);
  Buffer<int> x(1, a);
  EXPECT_THAT(text_of<UsageError>([&] { x.record_stream(b); }), refused);
  event.record(a);
  event.wait(a);
  a.synchronize();
}

TEST(HostSimulator, RefusesToCopyMemoryOfAnotherOne) {
  const HostSimulator one, other;
  const Buffer<int> from(1, one.device().default_stream());
  const StreamRef stream = other.device().default_stream();
  Buffer<int> to(1, stream);
  EXPECT_THAT(text_of<BackendError>([&] { copy_async(to.data(), from.data(), 4, stream); }),
              HasSubstr("lies in the memory of " + one.device().str() + ", which operations of " +
                        other.device().str() + " cannot use"));
  EXPECT_THROW(copy_async(to.data(), from.data(), 4, Device::parse("host").default_stream()), BackendError);
}

TEST(HostSimulator, FailsWhereAFailureWasInjectedIntoItsDevice) {
  const HostSimulator one, other;
  const InjectedFailure failure(
      {.call = "cuStreamCreateWithPriority", .code = ErrorCode::out_of_memory, .device = one.device()});
  const Stream works(other.device()), works_too(Device::parse("host"));
  EXPECT_FALSE(failure.happened());
  EXPECT_THAT(text_of<BackendError>([&] { const Stream fails(one.device()); }), HasSubstr("was injected"));
  EXPECT_TRUE(failure.happened());
  const Stream again(one.device());
}

TEST(HostSimulator, FailsWhereAFailureWasInjectedIntoAnyHostDevice) {
  const HostSimulator simulator;
  const InjectedFailure failure({.call = "cuStreamCreateWithPriority"});
  EXPECT_THROW(const Stream fails(simulator.device()), BackendError);
  EXPECT_TRUE(failure.happened());
}

struct Order {
  std::vector<int> of;
  static void note_0(void* order) { static_cast<Order*>(order)->of.push_back(0); }
  static void note_1(void* order) { static_cast<Order*>(order)->of.push_back(1); }
  static void note_2(void* order) { static_cast<Order*>(order)->of.push_back(2); }
  static void note_3(void* order) { static_cast<Order*>(order)->of.push_back(3); }
};

// 0 and 1 on one stream, 2 and 3 on another one; 3 comes after 0, too.
std::vector<int> order_with(std::uint64_t seed) {
  const CurrentSimulator simulator({.scheduler_seed = seed});
  const Stream a, b;
  const Event event;
  Order order;
  call_on_host(a, &Order::note_0, &order);
  event.record(a);
  call_on_host(a, &Order::note_1, &order);
  call_on_host(b, &Order::note_2, &order);
  event.wait(b);
  call_on_host(b, &Order::note_3, &order);
  simulator.device().synchronize();
  return order.of;
}

TEST(HostSimulator, RunsEachSeedInAnotherLegalOrderAndTheSameOneEachTime) {
  std::set<std::vector<int>> orders;
  for (std::uint64_t seed = 0; seed < 40; ++seed) {
    const std::vector<int> order = order_with(seed);
    EXPECT_EQ(order_with(seed), order) << seed;
    const auto comes = [&](int before, int after) {
      return std::ranges::find(order, before) < std::ranges::find(order, after);
    };
    EXPECT_TRUE(order.size() == 4 && comes(0, 1) && comes(2, 3) && comes(0, 3)) << seed;
    orders.insert(order);
  }
  EXPECT_EQ(orders.size(), 5U) << "as many as there are";
}

void write_on(const StreamRef& stream, Buffer<int>& x) {
  add(x, 1, stream);
}

TEST(HostSimulator, ReturnsRacesAsValuesThatNameBothOperationsAndTheMemory) {
  const Warnings warnings;
  const CurrentSimulator simulator({.check_races = true, .scheduler_seed = 1});
  const Stream a, b;
  Buffer<int> x(100, a);
  EXPECT_THAT(simulator.races(), IsEmpty());
  write_on(a, x);
  std::vector<int> out(100);
  x.read_async(out, b);
  const std::vector<HostRace> races = simulator.races();
  ASSERT_EQ(races.size(), 1U);
  const HostRace& race = races.front();
  EXPECT_THAT(race.first.name, HasSubstr("Add"));
  EXPECT_THAT(race.first.place, MatchesRegex("stream 0x[0-9a-f]+ of " + simulator.device().str()));
  EXPECT_TRUE(race.first.writes);
  EXPECT_EQ(race.second.name, "memcpy");
  EXPECT_FALSE(race.second.writes);
  for (const HostRace::Operation& each : {race.first, race.second}) {
    EXPECT_EQ(each.address, x.data());
    EXPECT_EQ(each.bytes, x.size_bytes());
  }
  EXPECT_EQ(race.address, x.data());
  EXPECT_EQ(race.bytes, x.size_bytes());
  EXPECT_THAT(race.memory,
              AllOf(HasSubstr("byte 0 of the allocation of"), HasSubstr("memory of " + simulator.device().str())));
  EXPECT_THAT(race.advice, HasSubstr("record an event"));
  EXPECT_THAT(warnings.texts(), IsEmpty());
}

TEST(HostSimulator, WritesARaceInOneLine) {
  const CurrentSimulator simulator({.check_races = true, .scheduler_seed = 1});
  const Stream a, b;
  Buffer<int> x(100, a);
  x.fill_bytes_async(1, a);
  x.fill_bytes_async(2, b);
  const std::vector<HostRace> races = simulator.races();
  ASSERT_EQ(races.size(), 1U);
  std::ostringstream text;
  text << races.front();
  EXPECT_EQ(text.str(), races.front().str());
  EXPECT_THAT(text.str(), AllOf(HasSubstr("race: memset on stream 0x"), HasSubstr("nothing orders the two"),
                                HasSubstr("They share 400 bytes from 0x"), HasSubstr("To order them, ")));
}

TEST(HostSimulator, FindsNoRaceWhereWorkIsOrdered) {
  const CurrentSimulator simulator({.check_races = true, .scheduler_seed = 2});
  const Stream a, b;
  Buffer<int> x(100, a);
  write_on(a, x);
  b.wait(a);
  write_on(b, x);
  simulator.device().synchronize();
  EXPECT_THAT(simulator.races(), IsEmpty());
}

TEST(HostSimulator, ProtectsItsMemoryIfItIsAskedTo) {
  ::testing::FLAGS_gtest_death_test_style = "threadsafe";
  EXPECT_DEATH(
      {
        const CurrentSimulator simulator({.protect = true});
        Buffer<int> x = zeros(100);
        add(x);
        simulator.device().synchronize();
        volatile int* const address = x.data() + 5;
        std::_Exit(*address == 0 ? 0 : 1);
      },
      "the host read from device memory at 0x[0-9a-f]+ outside of any operation");
}

TEST(HostSimulator, RefusesTheMemoryThatHostDevicesRefuse) {
  EXPECT_THAT(text_of<UsageError>([] { HostSimulator({.memory_bytes = 1}); }),
              HasSubstr("memory_bytes should be from"));
}

TEST(HostSimulator, CanBeMadeByManyThreadsAtOnce) {
  std::vector<std::thread> threads;
  for (int i = 0; i < 8; ++i)
    threads.emplace_back([] {
      for (int round = 0; round < 10; ++round) {
        const CurrentSimulator simulator;
        Buffer<int> x = zeros();
        CUDAGraph graph;
        capture(graph, {.capture_error_mode = CaptureMode::thread}, [&] { add(x); });
        graph.replay();
        EXPECT_EQ(first(x), 1);
      }
    });
  for (std::thread& each : threads) each.join();
}

TEST(HostSimulator, IsNotQueriedForCapturesOfAnotherOne) {
  const Warnings warnings;  // of the device that fails
  HostSimulator broken;
  const HostSimulator sound;
  const Stream capturing(broken.device()), failing(broken.device());
  CUDAGraph other;
  {
    const StreamGuard current(capturing);
    other.capture_begin({.stream = capturing, .capture_error_mode = CaptureMode::relaxed});
  }
  call_on_host(
      failing, [](void*) { throw std::runtime_error("a fault of the test"); }, nullptr);
  EXPECT_THROW(failing.synchronize(), BackendError);
  const DeviceGuard guard(sound.device());
  const Stream side;
  Buffer<int> x = zeros();
  const CUDAGraph graph = capture({.capture_error_mode = CaptureMode::thread}, [&](const StreamRef& stream) {
    side.wait(stream);
    const Buffer<int> scratch(10, side);
    add(x, 1, side);
    stream.wait(side);
  });
  EXPECT_EQ(graph.node_count(), 1U);
  other.capture_abandon();
}

}  // namespace
}  // namespace reprise::simulator_test
