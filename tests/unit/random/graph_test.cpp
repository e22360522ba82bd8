// SPDX-License-Identifier: Apache-2.0
#include <future>
#include <stdexcept>
#include <thread>

#include "tests/support/faulty_backend.h"
#include "tests/unit/random/random_fixture.h"

// Random numbers in graphs: each replay draws what eager work would have drawn in its place.

namespace reprise::random::test {
namespace {

using backend::Call;
using backend::test::FaultyBackend;

// A graph of two launches with 1 and 6 numbers a thread, and the same eagerly.
class RandomGraph : public ::testing::Test {
 protected:
  using Numbers = std::vector<unsigned>;

  void work(const Generator& generator, Buffer<unsigned>& x, Buffer<unsigned>& y) {
    draw(generator, x);
    draw(generator, y, 6);
  }
  void capture_work(CUDAGraph& graph) {
    capture(graph, [&] { work(generator_, x_, y_); });
  }
  Numbers both() const {
    Numbers numbers = read(x_);
    const Numbers more = read(y_);
    numbers.insert(numbers.end(), more.begin(), more.end());
    return numbers;
  }
  Numbers replayed(CUDAGraph& graph) {
    graph.replay();
    return both();
  }
  // What eager work draws from `twin_`, which has the same seeds.
  Numbers eager() {
    work(twin_, x_, y_);
    return both();
  }

  Generator generator_{current_device(), 42};
  Generator twin_{current_device(), 42};
  Buffer<unsigned> x_{4}, y_{4};
  CUDAGraph graph_;
};

TEST_F(RandomGraph, DrawsNothingWhenItIsCaptured) {
  capture_work(graph_);
  EXPECT_EQ(generator_.get_state(), (GeneratorState{42, 0}));
}

TEST_F(RandomGraph, DrawsOtherNumbersAtEachReplayThoseOfEagerWork) {
  capture_work(graph_);
  for (int i = 0; i < 4; ++i) EXPECT_EQ(replayed(graph_), eager()) << i;
  EXPECT_EQ(generator_.get_state(), twin_.get_state());
}

TEST_F(RandomGraph, KeepsItsWordsApartFromMemoryThatNodesBeforeTheFirstDrawUsed) {
  capture(graph_, [&] {
    for (const std::size_t values : {4U, 16U, 128U, 1000U})
      for (int i = 0; i < 3; ++i)
        Buffer<unsigned>(values).fill_bytes_async(0xff);  // freed: the pool may give it out again
    work(generator_, x_, y_);
  });
  for (int i = 0; i < 4; ++i) EXPECT_EQ(replayed(graph_), eager()) << i;
}

TEST_F(RandomGraph, KeepsItsWordsApartFromMemoryOfOtherGraphsOfItsPool) {
  const MempoolId pool = graph_pool_handle();
  CUDAGraph writes;
  GraphOptions options;
  options.pool = pool;
  capture(writes, options, [] {
    for (const std::size_t values : {4U, 16U, 128U, 1000U}) Buffer<unsigned>(values).fill_bytes_async(0xff);
  });
  capture(graph_, options, [&] { work(generator_, x_, y_); });
  for (int i = 0; i < 4; ++i) {
    EXPECT_EQ(replayed(graph_), eager()) << i;
    writes.replay();
  }
}

TEST_F(RandomGraph, GoesOnAfterEagerDrawsInBetween) {
  capture_work(graph_);
  EXPECT_EQ(replayed(graph_), eager());
  EXPECT_EQ(drawn(generator_), drawn(twin_));
  EXPECT_EQ(replayed(graph_), eager());
  EXPECT_EQ(replayed(graph_), eager());
  EXPECT_EQ(drawn(generator_, 4, 9), drawn(twin_, 4, 9));
  EXPECT_EQ(replayed(graph_), eager());
}

TEST_F(RandomGraph, TakesSeedsAndOffsetsThatAreSetBetweenReplays) {
  capture_work(graph_);
  for (const std::uint64_t seed : {1U, 2U, 1U, 42U}) {
    generator_.set_current_seed(seed);
    twin_.set_current_seed(seed);
    EXPECT_EQ(replayed(graph_), eager());
    EXPECT_EQ(replayed(graph_), eager());
    generator_.set_offset(1024);
    twin_.set_offset(1024);
    EXPECT_EQ(replayed(graph_), eager());
  }
}

TEST_F(RandomGraph, AlternatesWithAnotherOneOnOneGenerator) {
  CUDAGraph other;
  capture_work(graph_);
  capture_work(other);
  for (int i = 0; i < 3; ++i) {
    EXPECT_EQ(replayed(graph_), eager());
    EXPECT_EQ(replayed(other), eager());
    EXPECT_EQ(replayed(other), eager());
  }
}

TEST_F(RandomGraph, DrawsFromSeveralGenerators) {
  Generator second(current_device(), 5), second_twin(current_device(), 5);
  capture(graph_, [&] {
    draw(generator_, x_);
    draw(second, y_);
  });
  for (int i = 0; i < 3; ++i) {
    const Numbers got = replayed(graph_);
    draw(twin_, x_);
    draw(second_twin, y_);
    EXPECT_EQ(got, both());
  }
}

TEST_F(RandomGraph, IsRightOnStreamsThatWereForkedOff) {
  const Stream fork;
  const auto body = [&](const Generator& generator) {
    fork.wait(current_stream());
    draw(generator, x_, 1, fork);  // before the first stream has drawn anything
    draw(generator, y_);
    current_stream().wait(fork);
  };
  capture(graph_, [&] { body(generator_); });
  for (int i = 0; i < 3; ++i) {
    const Numbers got = replayed(graph_);
    body(twin_);
    EXPECT_EQ(got, both());
  }
}

TEST_F(RandomGraph, DrawsFromTheDefaultGeneratorByItself) {
  manual_seed(11);
  capture(graph_, [&] { draw(default_generator(), x_); });
  const Generator twin(current_device(), 11);
  for (int i = 0; i < 2; ++i) {
    graph_.replay();
    EXPECT_EQ(read(x_), drawn(twin));
  }
  manual_seed(Generator::default_seed);
}

TEST_F(RandomGraph, KeepsItsGeneratorAlive) {
  {
    const Generator gone(current_device(), 3);
    capture(graph_, [&] { draw(gone, x_); });
  }
  const Generator twin(current_device(), 3);
  graph_.replay();
  EXPECT_EQ(read(x_), drawn(twin));
}

TEST_F(RandomGraph, TakesAGeneratorThatWasRegisteredBeforeTheCaptureAndNotAfter) {
  graph_.register_generator_state(generator_);
  capture_work(graph_);
  EXPECT_EQ(replayed(graph_), eager());
  EXPECT_TRUE(contains(text_of<UsageError>([&] { graph_.register_generator_state(generator_); }),
                       "CUDAGraph::register_generator_state"));
}

TEST_F(RandomGraph, IsRightAfterItWasInstantiatedAgain) {
  CUDAGraph kept(KeepGraph::yes);
  capture_work(kept);
  EXPECT_EQ(replayed(kept), eager());
  kept.instantiate();
  EXPECT_EQ(replayed(kept), eager());
  EXPECT_EQ(replayed(kept), eager());
}

TEST_F(RandomGraph, IsRightAfterItWasCapturedAgain) {
  capture_work(graph_);
  EXPECT_EQ(replayed(graph_), eager());
  graph_.reset();
  capture_work(graph_);
  EXPECT_EQ(replayed(graph_), eager());
}

TEST_F(RandomGraph, CanBeCapturedWhileAnotherCaptureDrawsFromTheSameGenerator) {
  CUDAGraph other;
  const Stream stream;
  capture(graph_, {.capture_error_mode = CaptureMode::thread}, [&] {
    draw(generator_, x_);
    std::thread([&] {
      const StreamGuard guard(stream);
      other.capture_begin({}, CaptureMode::thread);
      draw(generator_, y_);
      other.capture_end();
    }).join();
  });
  graph_.replay();
  EXPECT_EQ(read(x_), drawn(twin_));
  other.replay();
  EXPECT_EQ(read(y_), drawn(twin_));
}

TEST_F(RandomGraph, RefusesANewSeedWhileItIsCapturedAndSaysWhy) {
  capture(graph_, [&] {
    EXPECT_TRUE(contains(text_of<UsageError>([&] { generator_.set_current_seed(1); }), "each replay goes on"));
    EXPECT_THROW(manual_seed(1), UsageError);
    draw(generator_, x_);
    EXPECT_THROW(generator_.set_current_seed(1), UsageError);
    EXPECT_THROW(generator_.set_offset(4), UsageError);
    EXPECT_THROW(generator_.set_state({1, 0}), UsageError);
    EXPECT_THROW(generator_.seed(), UsageError);
  });
  generator_.set_current_seed(1);
  twin_.set_current_seed(1);
  graph_.replay();
  EXPECT_EQ(read(x_), drawn(twin_));
}

TEST_F(RandomGraph, KeepsOtherThreadsFromSettingItsGeneratorOnceItDrewOrFromTheBeginningIfItIsRegistered) {
  const auto refused_elsewhere = [](Generator& generator) {
    return std::async(std::launch::async,
                      [&] {
                        try {
                          generator.set_offset(generator.offset());
                          return false;
                        } catch (const UsageError&) {
                          return true;
                        }
                      })
        .get();
  };
  Generator registered(current_device(), 5);
  graph_.register_generator_state(registered);
  graph_.register_generator_state(registered);
  capture(graph_, [&] {
    EXPECT_FALSE(refused_elsewhere(generator_));
    EXPECT_TRUE(refused_elsewhere(registered));
    draw(generator_, x_);
    EXPECT_TRUE(refused_elsewhere(generator_));
  });
  EXPECT_FALSE(refused_elsewhere(generator_));
  EXPECT_FALSE(refused_elsewhere(registered));
}

TEST_F(RandomGraph, IsRightOnAnotherStreamAfterItsFirstReplayWasRefused) {
  GraphHooks hooks;
  hooks.before_replay = [](const StreamRef&) { throw std::runtime_error("refused"); };
  const HookId id = graph_.add_hooks(hooks);
  capture(graph_, [&] { draw(generator_, x_); });
  const Stream busy, other;
  reprise::test::Gate gate;
  graphs::test::call_on_host(busy, &reprise::test::Gate::pass, &gate);
  EXPECT_THROW(graph_.replay(busy), std::runtime_error);
  graph_.remove_hooks(id);
  for (int i = 0; i < 3; ++i) {
    graph_.replay(other);
    other.synchronize();
    EXPECT_EQ(read(x_), drawn(twin_)) << i;
    if (i == 0) gate.open();
  }
  busy.synchronize();
}

TEST_F(RandomGraph, SpendsAfterTheHooksOfTheReplay) {
  GraphHooks hooks;
  bool refuse = false;
  hooks.before_replay = [&](const StreamRef&) {
    generator_.set_current_seed(5);
    if (refuse) throw std::runtime_error("refused");
  };
  graph_.add_hooks(hooks);
  capture(graph_, [&] { draw(generator_, x_); });
  graph_.replay();
  twin_.set_current_seed(5);
  EXPECT_EQ(read(x_), drawn(twin_));
  EXPECT_EQ(generator_.offset(), 4U);
  refuse = true;
  EXPECT_THROW(graph_.replay(), std::runtime_error);
  EXPECT_EQ(generator_.offset(), 0U) << "where the hook put it";
}

TEST_F(RandomGraph, DrawsOnASecondDevice) {
  const auto second = graphs::test::second_device();
  if (!second) GTEST_SKIP() << "there is one device";
  const Stream far(*second);
  const Generator there(*second, 8), twin(*second, 8);
  Buffer<unsigned> x(4, far);
  capture(graph_, [&] {
    far.wait(current_stream());
    draw(there, x, 1, far);
    draw(generator_, x_);
    current_stream().wait(far);
  });
  for (int i = 0; i < 3; ++i) {
    graph_.replay();
    EXPECT_EQ(read(x_), drawn(twin_)) << i;
    default_device().synchronize();
    const StreamGuard guard(far);
    EXPECT_EQ(read(x), drawn(twin)) << i;
  }
}

TEST_F(RandomGraph, LeavesTheGeneratorUsableWhenTheCaptureFails) {
  EXPECT_THROW(capture(graph_, {},
                       [&] {
                         draw(generator_, x_);
                         graphs::test::make_unsafe_call();
                       }),
               CaptureError);
  EXPECT_EQ(generator_.get_state(), (GeneratorState{42, 0}));
  generator_.set_current_seed(42);
  EXPECT_EQ(drawn(generator_), drawn(twin_));
  capture_work(graph_);
  EXPECT_EQ(replayed(graph_), eager());
}

TEST_F(RandomGraph, RefusesACaptureThatIsNotOfThisLibrary) {
  const SideStream stream;
  backend::Backend& runtime = current_device().backend();
  ASSERT_EQ(runtime.stream_begin_capture(stream.ref().native(), CaptureMode::relaxed), ErrorCode::success);
  EXPECT_TRUE(contains(text_of<UsageError>([&] { generator_.philox_state(1); }), "in a capture of other code"));
  GraphHandle graph = nullptr;
  EXPECT_EQ(runtime.stream_end_capture(stream.ref().native(), &graph), ErrorCode::success);
  EXPECT_EQ(runtime.graph_destroy(graph), ErrorCode::success);
}

TEST_F(RandomGraph, RefusesToDrawInABrokenCapture) {
  EXPECT_THROW(capture(graph_, {},
                       [&] {
                         draw(generator_, x_);
                         graphs::test::make_unsafe_call();
                         EXPECT_TRUE(contains(text_of<BackendError>([&] { generator_.philox_state(1); }),
                                              "cudaErrorStreamCaptureInvalidated"));
                       }),
               CaptureError);
}

TEST_F(RandomGraph, DoesNotTouchTheExecutableWhenNothingChangedInBetween) {
  auto& faulty = *new FaultyBackend(default_device().backend());
  const Device device(faulty);
  const DeviceGuard guard(device);
  const Generator generator(device, 42);
  Buffer<unsigned> x(4);
  CUDAGraph graph;
  capture(graph, [&] { draw(generator, x); });
  graph.replay();
  faulty.forget_calls();
  graph.replay();
  EXPECT_EQ(faulty.calls(Call::graph_exec_node_set_params), 0);
  EXPECT_EQ(faulty.calls(), 1) << "the launch";
  drawn(generator);
  faulty.forget_calls();
  graph.replay();
  EXPECT_EQ(faulty.calls(Call::graph_exec_node_set_params), 1);
  current_stream().synchronize();
}

TEST_F(RandomGraph, SpendsNothingWhenTheReplayFails) {
  auto& faulty = *new FaultyBackend(default_device().backend());
  const Device device(faulty);
  const DeviceGuard guard(device);
  const Generator generator(device, 0), twin(device, 0);  // seed 0 and a small offset: nothing must look like them
  drawn(generator);
  drawn(twin);
  Buffer<unsigned> x(4);
  CUDAGraph graph;
  for (const Call call : {Call::stream_wait_event, Call::graph_exec_node_set_params, Call::graph_launch}) {
    graph.reset();
    capture(graph, [&] { draw(generator, x); });
    const GeneratorState before = generator.get_state();
    faulty.fail(call, ErrorCode::launch_failure);
    EXPECT_THROW(graph.replay(), BackendError) << backend::cuda_name(call);
    EXPECT_EQ(generator.get_state(), before);
    graph.replay();
    EXPECT_EQ(read(x), drawn(twin));
  }
}

TEST_F(RandomGraph, DrawsInTheOrderOfReplaysFromSeveralThreads) {
  capture(graph_, [&] { draw(generator_, x_); });
  constexpr int replays = 32;
  std::vector<std::thread> threads;
  for (int t = 0; t < 4; ++t)
    threads.emplace_back([&] {
      for (int i = 0; i < replays / 4; ++i) graph_.replay();
    });
  for (std::thread& thread : threads) thread.join();
  default_device().synchronize();
  EXPECT_EQ(generator_.offset(), 4U * replays);
  twin_.set_offset(4U * (replays - 1));
  EXPECT_EQ(read(x_), drawn(twin_)) << "the last replay drew the last numbers";
}

// Where memory is short, an allocation destroys what waited for launches, here a stream.
TEST(RandomNumbersWithoutMemory, EndTheStreamThatWaitedForALaunch) {
  const HostSimulator simulator({.memory_bytes = std::size_t{32} << 20});
  const DeviceGuard guard(simulator.device());
  const Stream side;
  reprise::test::Gate gate;
  struct Held {
    Stream stream;
    Buffer<std::byte> memory{std::size_t{4} << 20};
  };
  CUDAGraph graph =
      capture([&](const StreamRef& s) { graphs::test::call_on_host(s, &reprise::test::Gate::pass, &gate); });
  graph.retain(std::make_shared<Held>());
  std::vector<std::unique_ptr<Buffer<std::byte>>> all;
  const auto fill = [&](std::size_t bytes) {
    try {
      for (;;) all.push_back(std::make_unique<Buffer<std::byte>>(bytes, side));
    } catch (const OutOfMemoryError&) {
    }
  };
  const Generator generator(simulator.device());
  const CUDAGraph drawing = capture({.capture_error_mode = CaptureMode::relaxed}, [&](const StreamRef& s) {
    fill(std::size_t{2} << 20);
    fill(512);
    graph.replay(side);
    ASSERT_TRUE(gate.wait_until_reached());
    graph.reset();  // what it retains waits for the replay
    gate.open();
    side.synchronize();
    EXPECT_NE(generator.philox_state(4, s).words, nullptr);
    graphs::test::call_on_host(
        s, [](void*) {}, nullptr);
  });
  EXPECT_EQ(drawing.node_count(), 2U);
}

}  // namespace
}  // namespace reprise::random::test
