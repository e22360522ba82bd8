// SPDX-License-Identifier: Apache-2.0
#include <gmock/gmock.h>

#include <chrono>
#include <climits>
#include <cstdint>
#include <optional>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "tests/support/faulty_backend.h"
#include "tests/support/test_file.h"
#include "tests/support/warnings.h"
#include "tests/unit/graph/graph_fixture.h"

// Misuse of CUDAGraph, call by call; table.md has what is tested elsewhere.

namespace reprise::graphs::test {
namespace {

using reprise::test::Warnings;
using ::testing::IsEmpty;

/// What a call does in a place where it is not allowed to change or launch the graph.
enum class There {
  works,
  refused,  ///< UsageError
};

/// A call of a graph.
struct GraphCall {
  const char* name;
  void (*make)(CUDAGraph& graph);
  There in_a_hook;                  ///< of the graph itself, `before_replay`
  There while_nothing_is_captured;  ///< in state `empty`
};

constexpr There works = There::works, refused = There::refused;

void dump_graph(CUDAGraph& graph) {
  const reprise::test::TestFile file;
  graph.debug_dump(file.path());
}

/// All but those that begin and end captures.
const GraphCall graph_calls[] = {
    {"register_generator_state", [](CUDAGraph& g) { g.register_generator_state(default_generator()); }, refused, works},
    {"add_hooks", [](CUDAGraph& g) { g.remove_hooks(g.add_hooks({})); }, works, works},
    {"remove_hooks", [](CUDAGraph& g) { g.remove_hooks(HookId{UINT64_MAX}); }, refused, refused},
    {"retain", [](CUDAGraph& g) { g.retain(std::make_shared<int>(1)); }, works, refused},
    {"release", [](CUDAGraph& g) { (void)g.release(std::make_shared<int>(1)); }, works, works},
    {"instantiate", [](CUDAGraph& g) { g.instantiate(); }, refused, refused},
    {"upload", [](CUDAGraph& g) { g.upload(); }, refused, refused},
    {"replay", [](CUDAGraph& g) { g.replay(); }, refused, refused},
    {"replay on a stream", [](CUDAGraph& g) { g.replay(current_stream()); }, refused, refused},
    {"synchronize", [](CUDAGraph& g) { g.synchronize(std::chrono::seconds(1)); }, refused, refused},
    {"last_mark", [](CUDAGraph& g) { (void)g.last_mark(); }, refused, refused},
    {"time_replay", [](CUDAGraph& g) { (void)time_replay(g); }, refused, refused},
    {"ReplayTimer", [](CUDAGraph& g) { const ReplayTimer timer(g); }, refused, refused},
    {"update", [](CUDAGraph& g) { g.update(g); }, refused, refused},
    {"recapture", [](CUDAGraph& g) { g.recapture({.allow_empty = true}, [] {}); }, refused, refused},
    {"diff", [](CUDAGraph& g) { (void)diff(g, g); }, refused, refused},
    {"compare", [](CUDAGraph& g) { (void)compare(g, [] {}); }, refused, refused},
    {"reset", [](CUDAGraph& g) { g.reset(); }, refused, works},
    {"id", [](CUDAGraph& g) { (void)g.id(); }, works, works},
    {"name", [](CUDAGraph& g) { (void)g.name(); }, works, works},
    {"pool", [](CUDAGraph& g) { (void)g.pool(); }, works, refused},
    {"memory", [](CUDAGraph& g) { (void)g.memory(); }, works, refused},
    {"enable_debug_mode", [](CUDAGraph& g) { g.enable_debug_mode(); }, works, works},
    {"debug_dump", &dump_graph, works, refused},
    {"raw_cuda_graph", [](CUDAGraph& g) { (void)g.raw_cuda_graph(); }, works, refused},
    {"raw_cuda_graph_exec", [](CUDAGraph& g) { (void)g.raw_cuda_graph_exec(); }, works, refused},
    {"capture_report", [](CUDAGraph& g) { (void)g.capture_report(); }, works, works},
    {"node_count", [](CUDAGraph& g) { (void)g.node_count(); }, works, refused},
    {"annotations", [](CUDAGraph& g) { (void)g.annotations(); }, works, refused},
    {"inputs", [](CUDAGraph& g) { (void)g.inputs(); }, works, refused},
    {"device", [](CUDAGraph& g) { (void)g.device(); }, works, refused},
    {"nodes", [](CUDAGraph& g) { (void)g.nodes(); }, works, refused},
    {"node", [](CUDAGraph& g) { (void)g.node("Add"); }, works, refused},
    {"parameter", [](CUDAGraph& g) { (void)g.parameter(g.node("Add").arg<int*>(0)); }, refused, refused},
    {"set", [](CUDAGraph& g) { g.set(Parameter<int>(1), 2); }, refused, refused},
    {"set of several", [](CUDAGraph& g) { g.set(std::span<const ParameterValue>()); }, refused, refused},
    {"get", [](CUDAGraph& g) { (void)g.get(Parameter<int>(1)); }, refused, refused},
    {"capture_begin", [](CUDAGraph& g) { g.capture_begin(), g.capture_abandon(); }, refused, works},
    {"capture_end", [](CUDAGraph& g) { g.capture_end(); }, refused, refused},
    {"capture", [](CUDAGraph& g) { capture(g, {.allow_empty = true}, [] {}), g.reset(); }, refused, works},
    {"scope", [](CUDAGraph& g) { const reprise::graph scope(g, {.allow_empty = true}); }, refused, works},
};

class GraphMisuse : public ::testing::Test {
 protected:
  void capture_kept() {
    capture(kept_, {.check_input_liveness = true}, [&] { add(x_); });
  }
  void expect_replays_once() {
    const int before = first(x_);
    kept_.replay();
    EXPECT_EQ(first(x_), before + 1);
  }

  const SideStream side_;
  Buffer<int> x_ = zeros();
  CUDAGraph kept_{KeepGraph::yes};
};

TEST_F(GraphMisuse, EveryCallOfAGraphThatWasMovedFromIsRefused) {
  CUDAGraph gone;
  const CUDAGraph taken = std::move(gone);
  for (const GraphCall& each : graph_calls) {
    SCOPED_TRACE(each.name);
    EXPECT_TRUE(contains(text_of<UsageError>([&] { each.make(gone); }), "moved from"));  // NOLINT: that is the test
  }
  gone.capture_abandon();  // does nothing, as without a capture
  gone = CUDAGraph();
  EXPECT_NO_THROW(gone.reset());
}

TEST_F(GraphMisuse, EveryCallWithinAHookOfTheGraphWorksOrIsRefusedAndChangesNothing) {
  for (const GraphCall& each : graph_calls) {
    SCOPED_TRACE(each.name);
    kept_ = CUDAGraph(KeepGraph::yes);
    capture_kept();
    kept_.instantiate();
    bool called = false;
    GraphHooks hooks;
    hooks.before_replay = [&](const StreamRef&) {
      called = true;
      if (each.in_a_hook == refused)
        EXPECT_THROW(each.make(kept_), UsageError);
      else
        EXPECT_NO_THROW(each.make(kept_));
    };
    kept_.add_hooks(hooks);
    expect_replays_once();
    EXPECT_TRUE(called);
  }
}

TEST_F(GraphMisuse, EveryCallOfAnEmptyGraphWorksOrIsRefusedAndChangesNothing) {
  for (const GraphCall& each : graph_calls) {
    SCOPED_TRACE(each.name);
    kept_ = CUDAGraph(KeepGraph::yes);
    if (each.while_nothing_is_captured == refused) {
      EXPECT_THROW(each.make(kept_), UsageError);
    } else {
      EXPECT_NO_THROW(each.make(kept_));
    }
    kept_.reset();
    capture_kept();
    expect_replays_once();
  }
}

TEST_F(GraphMisuse, EveryCallDuringTheGraphsCaptureWorksOrIsRefusedAndTheCaptureGoesOn) {
  const Warnings warnings;
  for (const GraphCall& each : graph_calls) {
    SCOPED_TRACE(each.name);
    kept_ = CUDAGraph(KeepGraph::yes);
    kept_.capture_begin(GraphOptions{.check_input_liveness = true});
    add(x_);
    if (std::string(each.name) != "capture_end") {
      try {
        each.make(kept_);
      } catch (const UsageError&) {
      }
      EXPECT_EQ(current_stream().capture_status(), CaptureStatus::active);
      kept_.capture_end();
      expect_replays_once();
    } else {
      kept_.capture_abandon();
    }
  }
  EXPECT_THAT(warnings.texts(), IsEmpty());
}

TEST_F(GraphMisuse, StreamsAndGeneratorsOfAnotherDeviceAreRefused) {
  // Devices live until the process ends.
  static auto& backend = *new backend::test::FaultyBackend(default_device().backend());
  const Device other(backend);
  const Stream there(other);
  capture_kept();
  EXPECT_TRUE(contains(text_of<UsageError>([&] { kept_.replay(there); }), "the graph was captured on"));
  EXPECT_TRUE(contains(text_of<UsageError>([&] { kept_.synchronize(there, std::chrono::seconds(1)); }),
                       "the graph was captured on"));
  EXPECT_TRUE(contains(text_of<UsageError>([&] { kept_.upload(there); }), "the graph was captured on"));
  EXPECT_TRUE(contains(text_of<UsageError>([&] { (void)time_replay(kept_, there); }), "the graph was captured on"));
  CUDAGraph graph;
  const GraphOptions options{.stream = there.ref()};
  EXPECT_TRUE(contains(text_of<UsageError>([&] { graph.capture_begin(options); }), "GraphOptions::stream"));
  expect_replays_once();
}

TEST_F(GraphMisuse, NullIsRefusedOrNothing) {
  capture_kept();
  EXPECT_TRUE(contains(text_of<UsageError>([&] { kept_.retain(nullptr); }), "null pointer"));
  EXPECT_FALSE(kept_.release(nullptr));
  EXPECT_TRUE(contains(text_of<Error>([&] { kept_.debug_dump({}); }), "the file \"\""));
  CUDAGraph graph;
  EXPECT_TRUE(contains(text_of<UsageError>([&] { capture(graph, nullptr); }), "empty function"));
  EXPECT_TRUE(contains(text_of<UsageError>([&] { kept_.remove_hooks(HookId{0}); }), "found 0"));
  graph.add_hooks({});  // hooks that are all empty are none
  expect_replays_once();
}

TEST_F(GraphMisuse, NumbersOfRunsThatCannotBeAreRefused) {
  int runs = 0;
  CUDAGraph graph;
  for (const int warmup : {-1, INT_MIN})
    EXPECT_TRUE(contains(text_of<UsageError>([&] { capture(graph, {.warmup = warmup}, [&] { ++runs; }); }),
                         "found " + std::to_string(warmup)));
  EXPECT_EQ(runs, 0);
  capture(graph, {.warmup = 0}, [&] { add(x_); });
  graph.replay();
  EXPECT_EQ(first(x_), 1);
}

TEST_F(GraphMisuse, AModeThatDoesNotExistIsAnErrorAndNothingIsCaptured) {
  CUDAGraph graph;
  GraphOptions mode;
  mode.capture_error_mode = CaptureMode(9);
  EXPECT_THROW(capture(graph, mode, [&] { add(x_); }), Error);
  EXPECT_EQ(current_stream().capture_status(), CaptureStatus::none);
  capture(graph, [&] { add(x_); });
  graph.replay();
  EXPECT_EQ(first(x_), 1);
}

TEST_F(GraphMisuse, AGraphMayBeUsedAndDestroyedOnAnyThreadOneAtATime) {
  capture_kept();
  kept_.instantiate();
  const StreamRef stream = current_stream();
  std::thread([&] {
    const StreamGuard current(stream);
    for (const GraphCall& each : graph_calls) {
      if (each.in_a_hook == refused) continue;  // those that change it are next
      SCOPED_TRACE(each.name);
      EXPECT_NO_THROW(each.make(kept_));
    }
    kept_.instantiate();
    kept_.upload();
    kept_.replay();
    stream.synchronize();
    kept_.reset();
    kept_ = CUDAGraph();
  }).join();
  EXPECT_EQ(first(x_), 1);
}

}  // namespace
}  // namespace reprise::graphs::test
