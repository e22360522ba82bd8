// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>

#include <atomic>
#include <cstdio>
#include <memory>
#include <thread>
#include <vector>

#include "backend/check.h"
#include "backend/host/host_runtime.h"
#include "backend/host/run/seeded_chooser.h"
#include "reprise/reprise.h"
#include "tests/scheduler/small_program.h"
#include "tests/support/host_environment.h"

// Work that runs by steps: which orders there are, which thread makes the steps, and that a seed decides.

namespace reprise::backend::host::test {
namespace {

class BySteps : public ::testing::Environment {
 public:
  void SetUp() override {
    reprise::test::set_host_environment({.scheduler_seed = 1});
    static_cast<void>(Device::parse("host"));  // at the first use the chooser is set; tests replace it
  }
};
const ::testing::Environment* const by_steps = ::testing::AddGlobalTestEnvironment(new BySteps);

Device host() {
  return Device::parse("host");
}

void choose_with_seed(std::uint64_t seed) {
  HostRuntime::instance().executor.run_by_steps(std::make_unique<SeededChooser>(seed));
}

/// Makes all choices, one series a run.
class EveryChoice {
 public:
  void begin_run() {
    struct Forward final : Chooser {
      explicit Forward(EveryChoice& all) : all_(all) {}
      std::size_t choose(std::size_t ready) override { return all_.choose(ready); }
      EveryChoice& all_;
    };
    at_ = 0;
    HostRuntime::instance().executor.run_by_steps(std::make_unique<Forward>(*this));
  }
  /// False: that was the last one.
  bool next_run() {
    while (!path_.empty() && ++path_.back().chosen == path_.back().ready) path_.pop_back();
    return !path_.empty();
  }

 private:
  struct Choice {
    std::size_t chosen;
    std::size_t ready;
  };
  std::size_t choose(std::size_t ready) {
    if (at_ == path_.size()) path_.push_back({0, ready});
    EXPECT_EQ(path_[at_].ready, ready) << "the same choices led to another state";
    return path_[at_++].chosen;
  }
  std::vector<Choice> path_;
  std::size_t at_ = 0;
};

// Nothing if there are more than `most` ways to choose.
std::set<Order> orders_of_all_choices(const SmallProgram& program, int most) {
  std::set<Order> found;
  EveryChoice choices;
  do {
    if (most-- == 0) return {};
    choices.begin_run();
    found.insert(run(program, host()));
  } while (choices.next_run());
  return found;
}

struct Named {
  const char* name;
  SmallProgram program;
  std::size_t orders;  // counted by hand
};
std::ostream& operator<<(std::ostream& out, const Named& named) {
  return out << named.name;
}

constexpr auto work = Step::Kind::work;
constexpr auto record = Step::Kind::record;
constexpr auto wait = Step::Kind::wait;
constexpr auto launch = Step::Kind::launch;
constexpr auto free_running = StreamKind::non_blocking;
constexpr auto blocking = StreamKind::blocking;
constexpr auto legacy = StreamKind::legacy;

const std::vector<Named>& programs() {
  static const auto& all = *new std::vector<Named>{
      {"OneStream", {{free_running}, {}, {{work, 0}, {work, 0}, {work, 0}}}, 1},
      {"SixStreams",
       {{free_running, free_running, free_running, free_running, free_running, free_running},
        {},
        {{work, 0}, {work, 1}, {work, 2}, {work, 3}, {work, 4}, {work, 5}}},
       720},
      {"TwoStreamsOfThree",
       {{free_running, free_running}, {}, {{work, 0}, {work, 0}, {work, 0}, {work, 1}, {work, 1}, {work, 1}}},
       20},
      {"ForkAndJoin",
       {{free_running, free_running},
        {},
        {{work, 0}, {record, 0, 0}, {wait, 1, 0}, {work, 1}, {work, 0}, {record, 1, 1}, {wait, 0, 1}, {work, 0}}},
       2},
      {"AWaitForTheFirstOfTwoRecords",
       {{free_running, free_running},
        {},
        {{work, 0}, {record, 0, 0}, {wait, 1, 0}, {work, 0}, {record, 0, 0}, {work, 1}, {work, 1}}},
       3},
      {"TheLegacyStreamBetweenBlockingOnes",
       {{blocking, blocking, legacy}, {}, {{work, 0}, {work, 1}, {work, 2}, {work, 0}, {work, 1}}},
       4},
      {"TheLegacyStreamBesideANonBlockingOne",
       {{free_running, legacy}, {}, {{work, 0}, {work, 1}, {work, 0}, {work, 1}}},
       6},
      {"ADiamond",
       {{free_running}, {{4, {{0, 1}, {0, 2}, {1, 3}, {2, 3}}}}, {{work, 0}, {launch, 0, 0}, {work, 0}}},
       2},
      {"AGraphOfThreeRoots", {{free_running}, {{3, {}}}, {{work, 0}, {launch, 0, 0}, {work, 0}}}, 6},
      {"AGraphBesideAStream", {{free_running, free_running}, {{2, {}}}, {{launch, 0, 0}, {work, 1}, {work, 1}}}, 12},
      {"OneExecutableOnTwoStreams", {{free_running, free_running}, {{2, {}}}, {{launch, 0, 0}, {launch, 1, 0}}}, 4},
      {"TwoExecutablesOnTwoStreams",
       {{free_running, free_running}, {{2, {{0, 1}}}, {2, {{0, 1}}}}, {{launch, 0, 0}, {launch, 1, 1}}},
       6},
  };
  return all;
}

class SmallPrograms : public ::testing::TestWithParam<Named> {};

TEST_P(SmallPrograms, RunInEveryLegalOrderAndInNoOther) {
  const std::set<Order> legal = legal_orders(GetParam().program);
  EXPECT_EQ(legal.size(), GetParam().orders);
  EXPECT_EQ(orders_of_all_choices(GetParam().program, 1000000), legal);
}

TEST_P(SmallPrograms, RunInEachOrderForSomeSeed) {
  const std::set<Order> legal = legal_orders(GetParam().program);
  std::set<Order> found;
  constexpr std::uint64_t most = 50000;
  std::uint64_t seed = 0;
  while (found.size() < legal.size() && seed < most) {
    choose_with_seed(++seed);
    const Order order = run(GetParam().program, host());
    ASSERT_TRUE(legal.contains(order)) << "seed " << seed;
    found.insert(order);
  }
  EXPECT_EQ(found, legal);
}

INSTANTIATE_TEST_SUITE_P(Of, SmallPrograms, ::testing::ValuesIn(programs()),
                         [](const auto& test) { return std::string(test.param.name); });

TEST(RandomSmallPrograms, RunInEveryLegalOrderAndInNoOther) {
  constexpr int most_choices = 20000;
  int looked_at = 0;
  std::size_t orders = 0;
  for (std::uint64_t seed = 1; seed <= 150; ++seed) {
    const SmallProgram program = random_program(seed);
    const std::set<Order> found = orders_of_all_choices(program, most_choices);
    if (found.empty()) continue;
    ASSERT_EQ(found, legal_orders(program)) << "program " << seed;
    ++looked_at;
    orders += found.size();
  }
  std::printf("  %d programs in %zu orders\n", looked_at, orders);
  EXPECT_GT(looked_at, 100);
  EXPECT_GT(orders, 1000u);
}

// Counts, as a host function.
void count(void* counter) {
  ++*static_cast<std::atomic<int>*>(counter);
}
void give(const StreamRef& stream, std::atomic<int>& counter) {
  Checked(stream.device().backend()).launch_host_function({&count, &counter}, stream.native());
}

class Steps : public ::testing::Test {
 protected:
  void SetUp() override { choose_with_seed(7); }
  ~Steps() override { host().synchronize(); }
  std::atomic<int> done_{0};
  Stream stream_{host()};
};

TEST_F(Steps, AreNotMadeBySubmitting) {
  const Event event(host());
  for (int i = 0; i < 5; ++i) give(stream_, done_);
  event.record(stream_);
  EXPECT_EQ(done_, 0);
  stream_.synchronize();
  EXPECT_EQ(done_, 5);
}

TEST_F(Steps, AreMadeByEachQueryOneAtATime) {
  for (int i = 0; i < 3; ++i) give(stream_, done_);
  EXPECT_FALSE(stream_.query());
  EXPECT_EQ(done_, 1);
  const Event event(host(), EventOptions{.timing = false});
  event.record(stream_);
  EXPECT_FALSE(event.query());
  EXPECT_EQ(done_, 2);
  EXPECT_TRUE(stream_.query()) << "it looks again after the step";
  EXPECT_EQ(done_, 3);
  EXPECT_TRUE(event.query());
}

TEST_F(Steps, AreMadeByTheQuestionForFreeMemory) {
  give(stream_, done_);
  static_cast<void>(host().memory_info());
  EXPECT_EQ(done_, 1);
}

TEST_F(Steps, AreMadeByTheQuestionForTheTimeBetweenEvents) {
  const Event start(host()), end(host());
  start.record(stream_);
  end.record(stream_);
  EXPECT_THROW(elapsed_ms(start, end), BackendError);
  EXPECT_GE(elapsed_ms(start, end), 0);
}

TEST_F(Steps, GoNoFurtherThanAWaitNeeds) {
  const Stream other(host());
  const Event event(host());
  give(stream_, done_);
  event.record(stream_);
  for (int i = 0; i < 1000; ++i) give(stream_, done_);
  event.synchronize();
  EXPECT_LT(done_, 1001);
}

TEST_F(Steps, AreTheSameForTheSameSeed) {
  const SmallProgram& program = programs()[1].program;
  const auto orders = [&](std::uint64_t seed) {
    choose_with_seed(seed);
    std::vector<Order> all;
    for (int i = 0; i < 10; ++i) all.push_back(run(program, host()));
    return all;
  };
  EXPECT_EQ(orders(3), orders(3));
  EXPECT_NE(orders(3), orders(4));
}

TEST_F(Steps, RunGraphsAndKernelsAsThreadsDo) {
  const StreamGuard guard(stream_);
  Buffer<int> x(100);
  x.fill_bytes_async(0);
  CUDAGraph graph;
  const Stream side(host());
  capture(graph, [&] {
    side.wait(current_stream());
    x.fill_bytes_async(1, side);
    current_stream().wait(side);
  });
  for (int i = 0; i < 3; ++i) graph.replay();
  graph.reset();
  std::vector<int> found(100);
  x.read_async(found);
  stream_.synchronize();
  EXPECT_EQ(found, std::vector<int>(100, 0x01010101));
}

TEST_F(Steps, AreMadeByAnyOfManyThreads) {
  std::vector<std::thread> threads;
  for (int t = 0; t < 4; ++t)
    threads.emplace_back([&] {
      const Stream mine(host());
      for (int i = 0; i < 200; ++i) {
        give(mine, done_);
        if (i % 3 == 0) static_cast<void>(mine.query());
        if (i % 10 == 0) mine.synchronize();
      }
      mine.synchronize();
    });
  for (auto& thread : threads) thread.join();
  EXPECT_EQ(done_, 800);
}

// A host function may wait for this thread: a query that waited for it would never end.
TEST_F(Steps, OfAnotherThreadAreNotWaitedForByAQuery) {
  std::atomic<bool> entered{false}, leave{false};
  struct Both {
    std::atomic<bool>&entered, &leave;
  } both{entered, leave};
  const auto stay = [](void* data) {
    auto& flags = *static_cast<Both*>(data);
    flags.entered = true;
    flags.leave.wait(false);
  };
  Checked(host().backend()).launch_host_function({stay, &both}, stream_.native());
  std::thread thread([&] { stream_.synchronize(); });
  while (!entered) std::this_thread::yield();
  EXPECT_FALSE(stream_.query());
  leave = true;
  leave.notify_all();
  thread.join();
  EXPECT_TRUE(stream_.query());
}

class NeverDone final : public Operation {
 public:
  Task* run() override { return nullptr; }
};

TEST(StepsDeathTest, AWaitForWhatNothingCanCompleteEndsTheProcessInsteadOfHanging) {
  ::testing::FLAGS_gtest_death_test_style = "threadsafe";
  EXPECT_DEATH(
      {
        choose_with_seed(1);
        const OperationRef operation(new NeverDone);
        HostRuntime::instance().executor.open(operation);
        HostRuntime::instance().executor.wait(operation);
      },
      "will never end: nothing is ready to run");
}

}  // namespace
}  // namespace reprise::backend::host::test
