// SPDX-License-Identifier: Apache-2.0
#include <functional>
#include <memory>
#include <optional>
#include <thread>
#include <utility>
#include <vector>

#include "tests/unit/graph/control_flow/control_flow_fixture.h"

// Control flow on the device: if_, if_else, switch_ and while_ in captures.

namespace reprise::graphs::test {
namespace {

TEST_F(ControlFlow, ABodyRunsIfTheConditionIsNotZeroInThatReplay) {
  CUDAGraph graph = capture([&] {
    add(x_, 10);
    if_(flag_.data(), [&] { add(x_); });
    multiply(x_, 3, y_);
  });
  EXPECT_EQ(first(x_), 0) << "the capture launches nothing";
  graph.replay();
  EXPECT_EQ(first(y_), 30);
  set(7);
  graph.replay();
  EXPECT_EQ(first(y_), 63);
  set(0);
  graph.replay();
  EXPECT_EQ(first(y_), 93);
}

TEST_F(ControlFlow, ABodyIsPassedItsStreamWhichIsTheCurrentOne) {
  const Stream stream;
  std::optional<StreamRef> inside;
  CUDAGraph graph = capture(stream, [&] {
    EXPECT_EQ(current_stream(), stream);
    if_(flag_.data(), [&](StreamHandle passed) {
      inside = current_stream();
      EXPECT_EQ(passed, inside->native());
      add(x_, 5, StreamRef(current_device(), passed));
    });
    EXPECT_EQ(current_stream(), stream);
  });
  EXPECT_NE(*inside, stream);
  EXPECT_EQ(inside->capture_status(), CaptureStatus::none);
  set(1);
  graph.replay();
  EXPECT_EQ(first(x_), 5);
}

TEST_F(ControlFlow, OneOfTwoBodiesRuns) {
  CUDAGraph graph = capture([&] {
    if_else(
        flag_.data(), [&] { add(x_, 1); }, [&] { add(y_, 2); });
  });
  graph.replay();
  set(1);
  graph.replay();
  graph.replay();
  EXPECT_EQ(first(x_), 2);
  EXPECT_EQ(first(y_), 2);
}

TEST_F(ControlFlow, TheBodyOfTheNumberRunsOrNone) {
  Buffer<int> each = zeros(3);
  const auto add_to = [&](std::size_t i) {
    launch(current_stream(), LaunchConfig{}, Add{}, each.data() + i, 1, std::size_t{1});
  };
  CUDAGraph graph = capture([&] {
    switch_(flag_.data(), {[&] { add_to(0); }, [&] { add_to(1); }, [&] { add_to(2); }});
  });
  for (const Flag value : {0U, 2U, 2U, 3U, 1000U}) {
    set(value);
    graph.replay();
  }
  EXPECT_EQ(read(each), (std::vector<int>{1, 0, 2}));
}

TEST_F(ControlFlow, ALoopRunsUntilTheConditionIsZero) {
  Loop loop;
  CUDAGraph graph = counting(&loop);
  EXPECT_EQ(loop.last_run().iterations, 0U) << "before the first replay";
  for (const Flag rounds : {0U, 1U, 5U, 300U}) {
    set(rounds);
    const int before = first(x_);
    graph.replay();
    EXPECT_EQ(first(x_) - before, static_cast<int>(rounds));
    EXPECT_EQ(loop.last_run().iterations, rounds);
    EXPECT_FALSE(loop.last_run().stopped);
  }
}

TEST_F(ControlFlow, ALoopEndsAtItsLimit) {
  Loop loop;
  CUDAGraph graph = counting(&loop, {.max_iterations = 10});
  const auto expect = [&](Flag rounds, Flag iterations, bool stopped) {
    set(rounds);
    graph.replay();
    EXPECT_EQ(loop.last_run().iterations, iterations);
    EXPECT_EQ(loop.last_run().stopped, stopped);
  };
  expect(3, 3, false);
  expect(1000, 10, true);
  expect(10, 10, false);
  expect(0, 0, false);
}

struct StoreIteration {
  REPRISE_KERNEL void operator()(Thread, const Flag* iteration, int* into) const {
    into[*iteration] = static_cast<int>(*iteration) + 1;
  }
  static auto accesses(const Flag* iteration, int* into) { return std::array{reads(iteration, 1), writes(into, 4)}; }
};

TEST_F(ControlFlow, TheNumberOfTheIterationIsOnTheDevice) {
  Buffer<int> numbers = zeros(4);
  Loop loop;
  CUDAGraph graph = capture([&] {
    loop = while_(flag_.data(), [&] { count_down(); });
    launch(current_stream(), LaunchConfig{}, StoreIteration{}, loop.iterations(), numbers.data());
  });
  set(2);
  graph.replay();
  EXPECT_EQ(read(numbers), (std::vector<int>{0, 0, 3, 0}));
}

TEST_F(ControlFlow, ABodyIsPassedItsLoopWhoseIterationItReads) {
  Buffer<int> numbers = zeros(4);
  const auto store = [&](const StreamRef& stream, const Loop& loop) {
    launch(stream, LaunchConfig{}, StoreIteration{}, loop.iterations(), numbers.data());
    count_down(flag_, stream);
  };
  const auto replays = [&](CUDAGraph graph, const std::vector<int>& expected) {
    numbers.write(std::vector<int>(4, 0));
    set(3);
    graph.replay();
    EXPECT_EQ(read(numbers), expected);
  };
  Loop passed, returned;
  replays(capture([&] {
            returned = while_(flag_.data(), [&](const StreamRef& inside, Loop loop) {
              EXPECT_EQ(inside, current_stream());
              passed = loop;
              store(inside, loop);
            });
          }),
          {1, 2, 3, 0});
  EXPECT_EQ(passed.iterations(), returned.iterations());
  EXPECT_EQ(passed.last_run().iterations, 3U);
  const std::function<void(Loop)> alone = [&](const Loop& loop) { store(current_stream(), loop); };
  replays(capture([&] { while_(flag_.data(), alone, {.max_iterations = 2}); }), {1, 2, 0, 0});
  replays(capture([&] {
            while_(current_stream(), flag_.data(),
                   [&](StreamHandle inside, const Loop& loop) { store(StreamRef(current_device(), inside), loop); });
          }),
          {1, 2, 3, 0});
}

// With a dry run, whose loops are no values of the host that a replay repeats.
TEST_F(ControlFlow, ALoopStaysThatOfTheGraphWhenThatIsCapturedAgain) {
  Buffer<Flag> other{std::array<Flag, 1>{0}};
  Buffer<int> numbers = zeros(4);
  Loop one, two;
  bool again = false;
  const auto body = [&] {
    const Loop first_one = while_(flag_.data(), [&] { count_down(); });
    const Loop second_one = while_(other.data(), [&](const Loop& loop) {
      launch(current_stream(), LaunchConfig{}, StoreIteration{}, (again ? two : loop).iterations(), numbers.data());
      count_down(other);
    });
    if (again) return;
    one = first_one;
    two = second_one;
  };
  CUDAGraph graph = capture({.check_frozen_values = [] {}}, body);
  again = true;
  EXPECT_TRUE(graph.recapture(body).differences.empty());
  set(2);
  other.write(std::array<Flag, 1>{3});
  graph.replay();
  EXPECT_EQ(read(numbers), (std::vector<int>{1, 2, 3, 0}));
  EXPECT_EQ(one.last_run().iterations, 2U);
  EXPECT_EQ(two.last_run().iterations, 3U);
}

TEST_F(ControlFlow, BodiesNest) {
  std::vector<Buffer<Flag>> flags;
  for (int i = 0; i < 3; ++i) flags.emplace_back(1);
  Buffer<int> counts = zeros(3);
  const auto count = [&](std::size_t i) {
    launch(current_stream(), LaunchConfig{}, Add{}, counts.data() + i, 1, std::size_t{1});
  };
  Loop innermost;
  CUDAGraph graph = capture([&] {
    set_flag(flags[0], 3);
    while_(flags[0].data(), [&] {
      count(0);
      set_flag(flags[1], 2);
      while_(flags[1].data(), [&] {
        count(1);
        set_flag(flags[2], 4);
        innermost = while_(flags[2].data(), [&] {
          count(2);
          count_down(flags[2]);
        });
        count_down(flags[1]);
      });
      count_down(flags[0]);
    });
  });
  graph.replay();
  EXPECT_EQ(read(counts), (std::vector<int>{3, 6, 24}));
  graph.replay();
  EXPECT_EQ(read(counts), (std::vector<int>{6, 12, 48}));
  EXPECT_EQ(innermost.last_run().iterations, 4U);
}

TEST_F(ControlFlow, StreamsOfABodyAreForkedAndJoinedInIt) {
  const Stream side;
  CUDAGraph graph = capture([&] {
    while_(flag_.data(), [&] {
      side.wait(current_stream());
      add(y_, 2, side);
      add(x_);
      current_stream().wait(side);
      multiply(y_, 10, x_);
      count_down();
    });
  });
  set(4);
  graph.replay();
  EXPECT_EQ(first(y_), 8);
  EXPECT_EQ(first(x_), 80);
}

TEST_F(ControlFlow, OnAStreamThatWasForkedOffIsOrderedOnThatStream) {
  const Stream side;
  CUDAGraph graph = capture([&] {
    side.wait(current_stream());
    if_(side, flag_.data(), [&] { add(x_); });
    add(y_, 3);
    current_stream().wait(side);
    multiply(x_, 5, x_);
  });
  set(1);
  graph.replay();
  EXPECT_EQ(first(x_), 5);
  EXPECT_EQ(first(y_), 3);
}

TEST_F(ControlFlow, OfAnotherThreadThatTakesPartInTheCapture) {
  const Stream side;
  CUDAGraph graph = capture({.capture_error_mode = CaptureMode::relaxed}, [&] {
    side.wait(current_stream());
    std::thread([&] { if_(side, flag_.data(), [&](const StreamRef& inside) { add(x_, 6, inside); }); }).join();
    current_stream().wait(side);
  });
  set(1);
  graph.replay();
  EXPECT_EQ(first(x_), 6);
}

TEST_F(ControlFlow, CanBeTheWholeGraphInEveryMode) {
  for (const CaptureMode mode : {CaptureMode::global, CaptureMode::thread, CaptureMode::relaxed}) {
    CUDAGraph graph = capture({.capture_error_mode = mode}, [&] { if_(flag_.data(), [&] { add(x_); }); });
    set(1);
    graph.replay();
  }
  EXPECT_EQ(first(x_), 3);
}

TEST_F(ControlFlow, LoopAndGraphMayBeDestroyedInEitherOrder) {
  auto loop = std::make_unique<Loop>();
  std::optional<CUDAGraph> graph = counting(loop.get());
  set(2);
  graph->replay();
  graph.reset();
  EXPECT_EQ(loop->last_run().iterations, 2U);
  graph = counting(loop.get());
  loop.reset();
  set(3);
  graph->replay();
  EXPECT_EQ(first(x_), 5);
}

TEST_F(ControlFlow, TheGraphOutlivesItsTemplate) {
  CUDAGraph graph = capture({.discard_template = true}, [&] { if_(flag_.data(), [&] { add(x_); }); });
  set(1);
  graph.replay();
  EXPECT_EQ(first(x_), 1);
}

TEST_F(ControlFlow, IsInstantiatedAgainOnlyOnceTheFirstExecutableIsGone) {
  CUDAGraph graph(KeepGraph::yes);
  capture(graph, [&] { if_(flag_.data(), [&] { add(x_); }); });
  graph.instantiate();
  graph.instantiate();
  set(1);
  graph.replay();
  EXPECT_EQ(first(x_), 1);
}

TEST_F(ControlFlow, ABodyMayRunAChildGraph) {
  const CUDAGraph child = capture([&] { add(x_); });
  CUDAGraph graph = capture([&] {
    while_(flag_.data(), [&] {
      add_child(child);
      count_down();
    });
  });
  set(4);
  graph.replay();
  EXPECT_EQ(first(x_), 4);
}

TEST_F(ControlFlow, CopiesOfOneChildInBodiesOfSeveralStreamsRunOneAfterAnother) {
  // Without an edge between them, the host device would report that they write the same memory at once.
  const CUDAGraph child = capture([&] { multiply(x_, 2, y_); });
  const Stream side;
  CUDAGraph graph = capture([&] {
    side.wait(current_stream());
    const auto body = [&](const StreamRef& inside) { add_child(child, inside); };
    if_(flag_.data(), body);
    if_(side, flag_.data(), body);
    if_else(side, flag_.data(), body, body);
    add_child(child);
    if_(flag_.data(), body);
    current_stream().wait(side);
  });
  set(1);
  add(x_, 3);
  graph.replay();
  EXPECT_EQ(first(y_), 6);
}

TEST_F(ControlFlow, ADryRunComparesBodiesToo) {
  CUDAGraph graph = capture({.check_input_liveness = true, .check_frozen_values = no_next}, [&] {
    while_(flag_.data(), [&] {
      add(x_);
      count_down();
    });
  });
  set(2);
  graph.replay();
  EXPECT_EQ(first(x_), 2);
}

TEST_F(ControlFlow, ValuesThatAreFrozenInABodyAreFound) {
  bool further = false;
  const auto body = [&] {
    while_(flag_.data(), [&] {
      add(x_, further ? 2 : 1);
      count_down();
    });
  };
  (void)capture({.check_frozen_values = [] {}}, body);
  const std::string what =
      text_of<Error>([&] { (void)capture({.check_frozen_values = [&] { further = true; }}, body); });
  EXPECT_TRUE(contains(what, "Add (node 1.0.0)"));
}

TEST_F(ControlFlow, TwoCapturesOfOneBodyDoNotDiffer) {
  const CUDAGraph one = counting(), other = counting();
  EXPECT_TRUE(diff(one, other).empty()) << diff(one, other).front().str();
  const CUDAGraph third = capture([&] {
    while_(flag_.data(), [&] {
      add(x_, 3);
      count_down();
    });
  });
  const std::vector<GraphDifference> found = diff(one, third);
  ASSERT_EQ(found.size(), 1U);
  EXPECT_TRUE(contains(found.front().str(), "node 1.0.0"));
}

TEST_F(ControlFlow, InputsOfBodiesAreFoundAndTheirEndIsNoticed) {
  std::optional<Buffer<int>> input(zeros());
  CUDAGraph graph = capture({.name = "step", .enable_annotations = true, .check_input_liveness = true}, [&] {
    if_(flag_.data(), [&] {
      const annotate scope("inner");
      add(*input);
    });
  });
  graph.replay();
  input.reset();
  const std::string what = text_of<Error>([&] { graph.replay(); });
  EXPECT_TRUE(contains(what, "(node 1.0.0) in inner"));
}

TEST_F(ControlFlow, TheConditionIsAnInput) {
  std::optional<Buffer<Flag>> condition(std::array<Flag, 1>{1});
  CUDAGraph graph = capture({.check_input_liveness = true}, [&] { if_(condition->data(), [&] { add(x_); }); });
  graph.replay();
  condition.reset();
  EXPECT_TRUE(contains(text_of<Error>([&] { graph.replay(); }), "freed"));
}

TEST_F(ControlFlow, NodesOfBodiesHaveTheAnnotationsAroundThem) {
  std::optional<Buffer<int>> input(zeros());
  CUDAGraph graph = capture({.enable_annotations = true, .check_input_liveness = true}, [&] {
    const annotate outer("outer");
    const annotate layer({{"layer", "3"}});
    while_(flag_.data(), [&] {
      const annotate scope({{"part", "a"}});
      add(*input);
      count_down();
    });
  });
  std::vector<std::string> numbers;
  for (const AnnotatedNode& node : graph.annotations()) numbers.push_back(node.number);
  EXPECT_EQ(numbers, (std::vector<std::string>{"0", "1", "1.0.0", "1.0.1", "1.0.2"}))
      << "the kernel that sets the condition, the conditional node, and the nodes of its body";
  input.reset();
  EXPECT_TRUE(contains(text_of<Error>([&] { graph.replay(); }), "outer, layer=3, part=a"));
}

TEST_F(ControlFlow, AddressesInBodiesAreParameters) {
  CUDAGraph graph = capture([&] {
    if_(flag_.data(), [&] {
      add(x_, 2);
      if_(flag_.data(), [&] { add(x_, 3); });
    });
  });
  const Parameter<int*> where = graph.parameter(x_.data());
  set(1);
  graph.replay();
  graph.set(where, y_.data());
  graph.replay();
  graph.replay();
  EXPECT_EQ(first(x_), 5);
  EXPECT_EQ(first(y_), 10);
}

TEST_F(ControlFlow, ArgumentsThatAreMarkedInABodyAreParameters) {
  const Parameter<int> amount(2);
  CUDAGraph graph = capture([&] {
    if_(flag_.data(), [&] { launch(current_stream(), LaunchConfig{}, Add{}, x_.data(), amount, std::size_t{1}); });
  });
  set(1);
  graph.replay();
  graph.set(amount, 5);
  graph.replay();
  EXPECT_EQ(first(x_), 7);
}

TEST_F(ControlFlow, TheNodeThatKeepsAGraphFromBeingAChildIsNamedWithItsAnnotation) {
  const CUDAGraph graph = capture({.enable_annotations = true}, [&] {
    add(x_);
    const annotate scope("refine");
    if_(flag_.data(), [&] { add(x_); });
  });
  const CUDAGraph parent = capture([&] {
    add(y_);
    const std::string what = text_of<UsageError>([&] { add_child(graph); });
    EXPECT_TRUE(contains(what, "conditional (node 2) in refine has a body")) << what;
    EXPECT_TRUE(contains(what, "call the control flow in the capture of the parent")) << what;
  });
  EXPECT_EQ(parent.node_count(), 1U);
}

TEST_F(ControlFlow, TheAddressOfAConditionIsNoParameter) {
  CUDAGraph graph = capture([&] { if_(flag_.data(), [&] { add(x_); }); });
  const std::string what = text_of<UsageError>([&] { (void)graph.parameter(flag_.data()); });
  EXPECT_TRUE(contains(what, "the condition of if_, if_else, switch_ or while_")) << what;
}

TEST_F(ControlFlow, AGraphWithItIsNoChildAndCannotBeUpdatedButRecaptured) {
  CUDAGraph graph = capture([&] { if_(flag_.data(), [&] { add(x_); }); });
  const CUDAGraph other = capture([&] { if_(flag_.data(), [&] { add(x_, 2); }); });
  EXPECT_TRUE(contains(text_of<UsageError>([&] {
                         (void)capture([&] {
                           add(y_);
                           add_child(graph);
                         });
                       }),
                       "801"));
  EXPECT_TRUE(contains(text_of<GraphUpdateError>([&] { graph.update(other); }), "condition"));
  set(1);
  graph.replay();
  const Recapture result = graph.recapture([&] { if_(flag_.data(), [&] { add(x_, 10); }); });
  EXPECT_FALSE(result.in_place);
  EXPECT_TRUE(contains(result.reason, "condition"));
  graph.replay();
  EXPECT_EQ(first(x_), 11);
}

TEST(ControlFlowOnTheHostDevice, ABodyWhoseMemoryWentBackToTheDriverIsNoBodyThatCopiesPageableMemory) {
  const HostSimulator simulator;
  const DeviceGuard guard(simulator.device());
  const Stream stream;
  const StreamGuard stream_guard(stream);
  const Buffer<Flag> flag(std::array<Flag, 1>{1});
  Buffer<char> from(std::size_t{30} << 20), to(4);
  CUDAGraph graph(KeepGraph::yes);
  capture(graph, [&] { if_(flag.data(), [&] { copy_async(to.data(), from.data(), 4); }); });
  from.reset();
  CachingAllocator::of(simulator.device()).empty_cache();
  const std::string text = text_of<BackendError>([&] { graph.instantiate(); });
  EXPECT_TRUE(contains(text, "copies memory of the device that was freed since")) << text;
}

}  // namespace
}  // namespace reprise::graphs::test
