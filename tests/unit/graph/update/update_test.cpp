// SPDX-License-Identifier: Apache-2.0
#include <gmock/gmock.h>

#include <atomic>
#include <memory>
#include <optional>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "tests/support/gate.h"
#include "tests/support/warnings.h"
#include "tests/unit/graph/update/update_fixture.h"

// CUDAGraph::update(): the executable of one graph does the work of another one.

namespace reprise::graphs::test {
namespace {

using reprise::test::Gate;
using ::testing::IsEmpty;
using ::testing::SizeIs;

INSTANTIATE_TEST_SUITE_P(Kept, GraphUpdate, ::testing::Values(KeepGraph::no, KeepGraph::yes), [](const auto& kept) {
  return kept.param == KeepGraph::yes ? std::string("yes") : std::string("no");
});

TEST_P(GraphUpdate, ACopyMayComeFromMemoryOfAnotherAllocationOrFromPinnedMemory) {
  HostBuffer<int> pinned(4);
  const Buffer<int> large(std::vector<int>(1 << 20, 5));
  const auto copies = [&](const int* source) {
    CUDAGraph graph(GetParam());
    capture(graph, [&] { copy_async(x_.data(), source, x_.size_bytes()); });
    return graph;
  };
  CUDAGraph graph = copies(y_.data());
  graph.replay();
  graph.update(copies(large.data()));
  graph.replay();
  EXPECT_EQ(first(x_), 5);
  pinned[0] = 6;
  graph.update(copies(pinned.data()));
  graph.replay();
  EXPECT_EQ(first(x_), 6);
  EXPECT_TRUE(graph.recapture([&] { copy_async(x_.data(), large.data(), x_.size_bytes()); }).in_place);
  graph.replay();
  EXPECT_EQ(first(x_), 5);
}

TEST_P(GraphUpdate, OfACopyFromTheDeviceComesToNoPageableMemoryAlsoNotByWayOfPinnedMemory) {
  HostBuffer<int> pinned(4);
  std::vector<int> pageable(4, 7);
  const int* source = y_.data();
  const auto body = [&] { copy_async(x_.data(), source, x_.size_bytes()); };
  CUDAGraph graph(GetParam()), from_pageable(GetParam());
  capture(graph, body);
  graph.replay();
  source = pageable.data();
  capture(from_pageable, body);
  source = pinned.data();
  EXPECT_TRUE(graph.recapture(body).in_place);
  EXPECT_TRUE(contains(text_of<GraphUpdateError>([&] { graph.update(from_pageable); }),
                       "was in memory of a device when the executable was made"));
  const Parameter<const int*> address = graph.parameter(source);
  EXPECT_TRUE(contains(text_of<UsageError>([&] { graph.set(address, pageable.data()); }),
                       "(the executable was made with one in memory of device"));
  EXPECT_THROW(graph.nodes()[0].set_params(MemcpyNodeParams{x_.data(), pageable.data(), sizeof(int)}), UsageError);
  source = pageable.data();
  EXPECT_FALSE(graph.recapture(body).in_place);
  graph.replay();
  EXPECT_EQ(first(x_), 7);
  source = y_.data();
  EXPECT_TRUE(graph.recapture(body).in_place) << "an executable that was made with pageable memory";
}

TEST_P(GraphUpdate, OfACopyInAChildComesToNoPageableMemoryEither) {
  HostBuffer<int> pinned(4);
  std::vector<int> pageable(4, 7);
  const int* source = y_.data();
  const auto body = [&] {
    const CUDAGraph child = reprise::capture([&] { copy_async(x_.data(), source, x_.size_bytes()); });
    add_child(child);
  };
  CUDAGraph graph(GetParam());
  capture(graph, body);
  graph.replay();
  source = pinned.data();
  EXPECT_TRUE(graph.recapture(body).in_place);
  source = pageable.data();
  EXPECT_FALSE(graph.recapture(body).in_place);
  graph.replay();
  EXPECT_EQ(first(x_), 7);
}

TEST_P(GraphUpdate, OfACopyWhoseMemoryWentBackToTheDriverComesToNoPageableMemoryEither) {
  const reprise::test::Warnings warnings;
  std::vector<int> pageable(4, 7);
  std::optional<Buffer<int>> large(1 << 20);
  const int* source = large->data();
  const auto body = [&] { copy_async(x_.data(), source, x_.size_bytes()); };
  CUDAGraph graph(GetParam()), from_pageable(GetParam());
  capture(graph, body);
  graph.replay();
  device_.synchronize();
  large.reset();
  CachingAllocator::of(device_).empty_cache();
  source = pageable.data();
  capture(from_pageable, body);
  EXPECT_THROW(graph.update(from_pageable), GraphUpdateError);
  EXPECT_FALSE(graph.recapture(body).in_place);
  graph.replay();
  EXPECT_EQ(first(x_), 7);
  EXPECT_THAT(warnings.texts(), IsEmpty());
}

TEST_P(GraphUpdate, DoesTheWorkOfTheOtherGraph) {
  CUDAGraph graph = replayed(x_, 1);
  const CUDAGraph other = captured(y_, 2);
  const GraphExecHandle exec = graph.raw_cuda_graph_exec();
  graph.update(other);
  EXPECT_EQ(graph.raw_cuda_graph_exec(), exec);
  add(x_, 10);
  graph.replay();
  EXPECT_EQ(first(x_), 11);
  EXPECT_EQ(first(y_), 2);
}

TEST_P(GraphUpdate, NodesHaveTheValuesOfTheOtherGraphAndCanBeChanged) {
  CUDAGraph graph = replayed(x_, 1);
  const CUDAGraph other = captured(y_, 2);
  const std::vector<GraphNode> nodes = graph.nodes();
  const GraphNodeHandle handle = nodes[1].native();
  EXPECT_EQ(nodes[1].arg<int>(1), 1);
  graph.update(other);
  EXPECT_EQ(nodes[1].native(), handle);
  EXPECT_EQ(nodes[1].arg<int>(1), 2);
  EXPECT_EQ(nodes[2].memcpy_params().destination, y_.data());
  EXPECT_THAT(diff(graph, other), IsEmpty());
  nodes[1].set_arg(1, 3);
  graph.replay();
  EXPECT_EQ(first(y_), 3);
  EXPECT_EQ(other.nodes()[1].arg<int>(1), 2) << "that graph is its own";
}

TEST_P(GraphUpdate, TakesAGraphThatJoinedItsStreamsInAnotherOrder) {
  const Stream one, another;
  Buffer<int> of_one = zeros(), of_another = zeros();
  const auto body = [&](int value, const Stream& first_joined, const Stream& last_joined) {
    const StreamRef here = current_stream();
    add(x_, value);
    one.wait(here);
    another.wait(here);
    {
      const StreamGuard guard(one);
      add(of_one, value);
    }
    {
      const StreamGuard guard(another);
      add(of_another, value);
    }
    here.wait(first_joined);
    here.wait(last_joined);
    add(y_, value);
  };
  CUDAGraph graph(GetParam()), other(GetParam());
  capture(graph, [&] { body(1, one, another); });
  graph.replay();
  capture(other, [&] { body(2, another, one); });
  graph.update(other);
  graph.replay();
  EXPECT_EQ(first(of_one), 3);
  EXPECT_EQ(first(y_), 3);
}

TEST_P(GraphUpdate, TakesOtherKernelsAndShapes) {
  CUDAGraph graph(GetParam()), other(GetParam());
  capture(graph, [&] { add(x_, 1); });
  graph.replay();
  capture(other, [&] { multiply(x_, 5, y_); });
  graph.update(other);
  graph.replay();
  EXPECT_EQ(read(y_), std::vector<int>(4, 5));
  EXPECT_EQ(read(x_), std::vector<int>(4, 1));
  capture(graph = CUDAGraph(GetParam()),
          [&] { launch(current_stream(), LaunchConfig{.block = Dim3(1)}, Add{}, x_.data(), 1, x_.size()); });
  graph.replay();
  EXPECT_EQ(read(x_), (std::vector<int>{2, 1, 1, 1}));
  other.reset();
  capture(other, [&] { add(x_); });
  graph.update(other);
  graph.replay();
  EXPECT_EQ(read(x_), (std::vector<int>{3, 2, 2, 2}));
}

TEST_P(GraphUpdate, TakesOtherFunctionsOfTheHostAndEvents) {
  int calls_of_first = 0, calls_of_second = 0;
  const Event of_first, of_second;
  const auto body = [&](int& calls, const Event& event) {
    launch_host([&calls] { ++calls; });
    event.record(current_stream());
    add(x_);
  };
  CUDAGraph graph(GetParam()), other(GetParam());
  capture(graph, [&] { body(calls_of_first, of_first); });
  graph.replay();
  capture(other, [&] { body(calls_of_second, of_second); });
  graph.update(other);
  other.reset();
  graph.replay();
  device_.synchronize();
  EXPECT_EQ(calls_of_first, 1);
  EXPECT_EQ(calls_of_second, 1);
}

TEST_P(GraphUpdate, KeepsWhatTheOtherGraphHoldsAfterItsEnd) {
  CUDAGraph graph = replayed(x_, 1);
  const MempoolId before = graph.pool();
  auto object = std::make_shared<int>(1);
  const std::weak_ptr<int> watch = object;
  MempoolId pool;
  {
    CUDAGraph other = captured(y_, 2);
    other.retain(std::move(object));
    pool = other.pool();
    graph.update(other);
  }
  EXPECT_EQ(graph.pool(), pool);
  EXPECT_TRUE(eventually_released(before)) << "the memory of the first capture";
  EXPECT_GT(reserved(pool), 0U);
  EXPECT_FALSE(watch.expired());
  graph.replay();
  EXPECT_EQ(first(y_), 2);
  graph.reset();
  EXPECT_TRUE(eventually_released(pool));
  EXPECT_TRUE(eventually([&] { return watch.expired(); }));
}

TEST_P(GraphUpdate, LeavesTheOtherGraphWhatItHasAfterTheEndOfThisOne) {
  CUDAGraph other = captured(y_, 2);
  const MempoolId pool = other.pool();
  auto object = std::make_shared<int>(1);
  const std::weak_ptr<int> watch = object;
  other.retain(object);
  {
    CUDAGraph graph = replayed(x_, 1);
    graph.update(other);
    graph.replay();
    device_.synchronize();
  }
  release_finished_graphs();
  EXPECT_GT(reserved(pool), 0U);
  other.replay();
  EXPECT_EQ(first(y_), 2);
  object.reset();
  EXPECT_FALSE(watch.expired());
  other.reset();
  EXPECT_TRUE(eventually_released(pool));
  EXPECT_TRUE(eventually([&] { return watch.expired(); }));
}

TEST_P(GraphUpdate, RetainedObjectsCanBeReleasedFromEachGraph) {
  CUDAGraph graph = replayed(x_, 1);
  CUDAGraph other = captured(y_, 2);
  auto object = std::make_shared<int>(1);
  const auto own = std::make_shared<int>(2);
  const std::weak_ptr<int> watch = object;
  other.retain(object);
  graph.retain(own);
  graph.update(other);
  EXPECT_FALSE(graph.release(own)) << "what the graph held itself is released";
  EXPECT_TRUE(eventually([&] { return own.use_count() == 1; }));
  EXPECT_TRUE(other.release(object));
  EXPECT_FALSE(other.release(object));
  EXPECT_TRUE(graph.release(object));
  object.reset();
  EXPECT_TRUE(eventually([&] { return watch.expired(); }));
}

TEST_P(GraphUpdate, ALaunchThatRunsKeepsTheMemoryOfTheFirstCapture) {
  Gate gate;
  const auto body = [&](Buffer<int>& to) {
    Buffer<int> scratch(to.size());
    scratch.fill_bytes_async(0);
    add(scratch, 1);
    call_on_host(current_stream(), &Gate::pass, &gate);
    copy_async(to.data(), scratch.data(), to.size_bytes());
  };
  CUDAGraph graph(GetParam()), other(GetParam());
  capture(graph, [&] { body(x_); });
  capture(other, [&] { body(y_); });
  const MempoolId before = graph.pool();
  const Stream stream;
  graph.replay(stream);
  EXPECT_TRUE(gate.wait_until_reached());
  graph.update(other);
  release_finished_graphs();
  EXPECT_GT(reserved(before), 0U);
  gate.open();
  stream.synchronize();
  EXPECT_EQ(first(x_), 1);
  EXPECT_EQ(first(y_), 0) << "the launch was made before";
  EXPECT_TRUE(eventually_released(before));
  graph.replay();
  EXPECT_EQ(first(y_), 1);
}

TEST_P(GraphUpdate, InputsAndTheirLivenessAreThoseOfTheOtherGraph) {
  const GraphOptions options{.check_input_liveness = true};
  std::optional<Buffer<int>> input(zeros(4)), input_of_other(zeros(4));
  CUDAGraph graph(GetParam()), other(GetParam());
  capture(graph, options, [&] { multiply(*input, 2, x_); });
  graph.replay();
  capture(other, options, [&] { multiply(*input_of_other, 2, x_); });
  graph.update(other);
  other.reset();
  input.reset();
  EXPECT_NO_THROW(graph.replay());
  ASSERT_THAT(graph.inputs(), SizeIs(2));
  input_of_other.reset();
  EXPECT_THROW(graph.replay(), DeadInputError);
}

TEST_P(GraphUpdate, RetainedInputsAreThoseOfTheOtherGraph) {
  const GraphOptions options{.inputs = {.retain = true}};
  std::optional<Buffer<int>> input(zeros(4)), input_of_other(zeros(4));
  CUDAGraph graph(GetParam()), other(GetParam());
  capture(graph, options, [&] { multiply(*input, 2, x_); });
  graph.replay();
  device_.synchronize();
  capture(other, options, [&] { multiply(*input_of_other, 2, x_); });
  const auto allocations = [&] { return CachingAllocator::of(device_).statistics().allocations; };
  graph.update(other);
  other.reset();
  const std::uint64_t with_both = allocations();
  input_of_other.reset();
  EXPECT_EQ(allocations(), with_both) << "the graph keeps it";
  input.reset();
  EXPECT_TRUE(eventually([&] { return allocations() == with_both - 1; })) << "this one is kept no more";
  EXPECT_NO_THROW(graph.replay());
  graph.reset();
  EXPECT_TRUE(eventually([&] { return allocations() == with_both - 2; }));
}

TEST_P(GraphUpdate, AnnotationsAndTimesAreThoseOfTheOtherGraph) {
  const auto body = [&](const char* name) {
    const annotate scope(name);
    add(x_);
  };
  CUDAGraph graph(GetParam()), other(GetParam());
  capture(graph, {.enable_annotations = true}, [&] { body("first"); });
  graph.replay();
  capture(other, {.enable_annotations = true}, [&] { body("second"); });
  graph.update(other);
  ASSERT_THAT(graph.annotations(), SizeIs(1));
  EXPECT_EQ(graph.annotations()[0].annotation.at("name"), "second");
  EXPECT_EQ(graph.annotations()[0].node, graph.nodes()[0].native());
  EXPECT_EQ(graph.node("second").index(), 0U);
  EXPECT_EQ(other.annotations()[0].node, other.nodes()[0].native());
  try {
    EXPECT_EQ(time_replay(graph).nodes.front().annotation.at("name"), "second");
  } catch (const Error& error) {
    if (!contains(error.what(), "cannot be timed")) throw;  // under a sanitizer or a profiler
  }
}

TEST_P(GraphUpdate, ParametersAreThoseOfTheOtherGraph) {
  const Parameter<int> of_first(1), of_second(2);
  const auto body = [&](const Parameter<int>& amount) {
    launch(current_stream(), x_.size(), Add{}, x_.data(), amount, x_.size());
  };
  CUDAGraph graph(GetParam()), other(GetParam());
  capture(graph, [&] { body(of_first); });
  graph.replay();
  capture(other, [&] { body(of_second); });
  graph.update(other);
  EXPECT_TRUE(
      contains(text_of<UsageError>([&] { graph.set(of_first, 5); }), "older than a reset, update or recapture"));
  graph.set(of_second, 10);
  graph.replay();
  EXPECT_EQ(first(x_), 11);
  EXPECT_EQ(graph.get(of_second), 10);
  EXPECT_EQ(other.get(of_second), 2) << "each graph has values of its own";
  other.reset();
  graph.set(of_second, 100);
  graph.replay();
  EXPECT_EQ(first(x_), 111);
}

TEST_P(GraphUpdate, HooksAndNameStay) {
  int replays = 0, replays_of_other = 0;
  CUDAGraph graph = replayed(x_, 1, {.name = "mine"});
  CUDAGraph other = captured(y_, 2, {.name = "theirs"});
  GraphHooks hooks, hooks_of_other;
  hooks.before_replay = [&](const StreamRef&) { ++replays; };
  hooks_of_other.before_replay = [&](const StreamRef&) { ++replays_of_other; };
  graph.add_hooks(hooks);
  other.add_hooks(hooks_of_other);
  graph.update(other);
  graph.replay();
  EXPECT_EQ(graph.name(), "mine");
  EXPECT_EQ(replays, 1);
  EXPECT_EQ(replays_of_other, 0);
}

TEST_P(GraphUpdate, DisabledNodesStayDisabled) {
  CUDAGraph graph = replayed(x_, 1);
  const CUDAGraph other = captured(y_, 2);
  graph.nodes()[1].set_enabled(false);
  graph.update(other);
  EXPECT_FALSE(graph.nodes()[1].enabled());
  graph.replay();
  EXPECT_EQ(first(y_), 0);
  graph.nodes()[1].set_enabled(true);
  graph.replay();
  EXPECT_EQ(first(y_), 2);
}

TEST_P(GraphUpdate, TakesChangesOfNodesOfTheOtherGraph) {
  CUDAGraph graph = replayed(x_, 1);
  CUDAGraph other = replayed(y_, 2);
  other.nodes()[1].set_arg(1, 7);
  graph.update(other);
  graph.replay();
  EXPECT_EQ(first(y_), 7);
}

TEST_P(GraphUpdate, WorksAgainAndBack) {
  CUDAGraph graph = replayed(x_, 1);
  CUDAGraph other = replayed(y_, 2);
  for (int i = 0; i < 3; ++i) {
    const CUDAGraph next = captured(x_, 10 + i);
    graph.update(other);
    graph.replay();
    EXPECT_EQ(first(y_), 2);
    graph.update(next);
    graph.replay();
    EXPECT_EQ(first(x_), 10 + i);
    other.update(graph);
    other.replay();
    EXPECT_EQ(first(x_), 10 + i);
    other = replayed(y_, 2);
  }
}

TEST_P(GraphUpdate, WorksWhileOtherThreadsReplayBothGraphs) {
  CUDAGraph graph = replayed(x_, 1);
  const CUDAGraph first_values = captured(x_, 1), second_values = captured(x_, 1);
  std::atomic<bool> done{false};
  std::vector<std::thread> threads;
  for (int i = 0; i < 2; ++i)
    threads.emplace_back([&] {
      const Stream stream;
      while (!done) graph.replay(stream);
      stream.synchronize();
    });
  for (int i = 0; i < 20; ++i) {
    graph.update(first_values);
    graph.update(second_values);
  }
  done = true;
  for (std::thread& thread : threads) thread.join();
  device_.synchronize();
  EXPECT_EQ(first(x_), 1);
}

TEST_P(GraphUpdate, InstantiatesWithTheValuesOfTheOtherGraph) {
  if (GetParam() == KeepGraph::no) GTEST_SKIP() << "instantiate() is for graphs that are kept";
  CUDAGraph graph = captured(x_, 1);  // no executable yet
  const CUDAGraph other = captured(y_, 2);
  graph.update(other);
  graph.replay();
  EXPECT_EQ(first(y_), 2);
  graph.update(captured(x_, 3));
  graph.instantiate();
  graph.replay();
  EXPECT_EQ(first(x_), 3);
}

}  // namespace
}  // namespace reprise::graphs::test
