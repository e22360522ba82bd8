// SPDX-License-Identifier: Apache-2.0
#include <functional>
#include <string>

#include "reprise/reprise.h"
#include "tests/unit/graph/graph_fixture.h"

// Each call of CUDAGraph in each state that it is not made for: it is refused, says why, and changes nothing.

namespace reprise::graphs::test {
namespace {

enum class State { empty, capturing, captured, ready };

struct Misuse {
  const char* test;  // the name of the test
  const char* call;  // as in the text of the error
  std::function<void(CUDAGraph&)> make;
  State state;
  KeepGraph keep;
  const char* advice;  // a part of the text
};

std::ostream& operator<<(std::ostream& out, const Misuse& misuse) {
  return out << misuse.test;
}

const char* name(State state) {
  switch (state) {
    case State::empty:
      return "`empty`";
    case State::capturing:
      return "`capturing`";
    case State::captured:
      return "`captured`";
    case State::ready:
      return "`ready`";
  }
  return "";
}

class CUDAGraphStates : public ::testing::TestWithParam<Misuse> {
 protected:
  // Brings the graph from `empty` to the state.
  void bring(CUDAGraph& graph, State state) {
    if (state == State::empty) return;
    graph.capture_begin();
    add(x_);
    if (state == State::capturing) return;
    graph.capture_end();
    if (state == State::ready && GetParam().keep == KeepGraph::yes) graph.instantiate();
  }
  // From the state to a graph that can be replayed.
  void finish(CUDAGraph& graph, State state) {
    if (state == State::empty) bring(graph, State::captured);
    if (state == State::capturing) graph.capture_end();
  }

  SideStream stream_;
  Buffer<int> x_ = zeros();
};

TEST_P(CUDAGraphStates, RefusesACallAndIsUsableAfterwards) {
  const Misuse& misuse = GetParam();
  CUDAGraph graph(misuse.keep);
  bring(graph, misuse.state);
  const std::string text = text_of<UsageError>([&] { misuse.make(graph); });
  EXPECT_TRUE(contains(text, misuse.call));
  EXPECT_TRUE(contains(text, std::string("state ") + name(misuse.state)));
  EXPECT_TRUE(contains(text, misuse.advice));

  finish(graph, misuse.state);
  graph.replay();
  graph.replay();
  EXPECT_EQ(first(x_), 2);
}

const auto capture_begin = [](CUDAGraph& g) { g.capture_begin(); };
const auto capture_end = [](CUDAGraph& g) { g.capture_end(); };
const auto instantiate = [](CUDAGraph& g) { g.instantiate(); };
const auto upload = [](CUDAGraph& g) { g.upload(); };
const auto replay = [](CUDAGraph& g) { g.replay(); };
const auto replay_on = [](CUDAGraph& g) { g.replay(current_stream()); };
const auto reset = [](CUDAGraph& g) { g.reset(); };
const auto get_pool = [](CUDAGraph& g) { g.pool(); };
const auto get_device = [](CUDAGraph& g) { g.device(); };
const auto dump = [](CUDAGraph& g) { g.debug_dump("/nonexistent/never-written.dot"); };
const auto raw_graph = [](CUDAGraph& g) { g.raw_cuda_graph(); };
const auto raw_exec = [](CUDAGraph& g) { g.raw_cuda_graph_exec(); };
const auto node_count = [](CUDAGraph& g) { g.node_count(); };
const auto scope = [](CUDAGraph& g) { reprise::graph inside(g); };
const auto function = [](CUDAGraph& g) { reprise::capture(g, [] {}); };

constexpr KeepGraph no = KeepGraph::no, yes = KeepGraph::yes;
constexpr const char *end_it = "capture_end()", *reset_it = "reset()", *begin_it = "capture_begin()",
                     *capture_it = "capture something first", *instantiate_it = "instantiate()";

const Misuse misuses[] = {
    {"CaptureBeginWhileCapturing", "capture_begin", capture_begin, State::capturing, no, end_it},
    {"CaptureBeginWhenCaptured", "capture_begin", capture_begin, State::captured, yes, reset_it},
    {"CaptureBeginWhenReady", "capture_begin", capture_begin, State::ready, no, reset_it},
    {"CaptureEndWhenEmpty", "capture_end", capture_end, State::empty, no, begin_it},
    {"CaptureEndWhenCaptured", "capture_end", capture_end, State::captured, yes, reset_it},
    {"CaptureEndWhenReady", "capture_end", capture_end, State::ready, no, reset_it},
    {"InstantiateWhenEmpty", "instantiate", instantiate, State::empty, yes, capture_it},
    {"InstantiateWhileCapturing", "instantiate", instantiate, State::capturing, yes, end_it},
    {"UploadWhenEmpty", "upload", upload, State::empty, no, capture_it},
    {"UploadWhileCapturing", "upload", upload, State::capturing, no, end_it},
    {"ReplayWhenEmpty", "replay", replay, State::empty, no, capture_it},
    {"ReplayWhileCapturing", "replay", replay, State::capturing, no, end_it},
    {"ReplayOnAStreamWhenEmpty", "replay", replay_on, State::empty, no, capture_it},
    {"ReplayOnAStreamWhileCapturing", "replay", replay_on, State::capturing, no, end_it},
    {"ResetWhileCapturing", "reset", reset, State::capturing, no, end_it},
    {"PoolWhenEmpty", "pool", get_pool, State::empty, no, capture_it},
    {"PoolWhileCapturing", "pool", get_pool, State::capturing, no, end_it},
    {"DeviceWhenEmpty", "device", get_device, State::empty, no, begin_it},
    {"DebugDumpWhenEmpty", "debug_dump", dump, State::empty, no, capture_it},
    {"DebugDumpWhileCapturing", "debug_dump", dump, State::capturing, no, end_it},
    {"RawGraphWhenEmpty", "raw_cuda_graph", raw_graph, State::empty, yes, capture_it},
    {"RawGraphWhileCapturing", "raw_cuda_graph", raw_graph, State::capturing, yes, end_it},
    {"RawExecWhenEmpty", "raw_cuda_graph_exec", raw_exec, State::empty, no, capture_it},
    {"RawExecWhileCapturing", "raw_cuda_graph_exec", raw_exec, State::capturing, no, end_it},
    {"RawExecWhenCaptured", "raw_cuda_graph_exec", raw_exec, State::captured, yes, instantiate_it},
    {"NodeCountWhenEmpty", "node_count", node_count, State::empty, no, capture_it},
    {"NodeCountWhileCapturing", "node_count", node_count, State::capturing, no, end_it},
    {"ScopeWhileCapturing", "graph", scope, State::capturing, no, end_it},
    {"ScopeWhenCaptured", "graph", scope, State::captured, yes, reset_it},
    {"ScopeWhenReady", "graph", scope, State::ready, no, reset_it},
    {"CaptureFunctionWhenReady", "graph", function, State::ready, no, reset_it},
};

INSTANTIATE_TEST_SUITE_P(Refuses, CUDAGraphStates, ::testing::ValuesIn(misuses),
                         [](const auto& test) { return std::string(test.param.test); });

// What is refused in every state, because of how the graph was made.
class CUDAGraphWithoutTemplate : public ::testing::Test {
 protected:
  SideStream stream_;
  Buffer<int> x_ = zeros();
  CUDAGraph graph_;
};

TEST_F(CUDAGraphWithoutTemplate, RefusesInstantiateUnlessItKeepsTheGraph) {
  const auto refused = [&] {
    EXPECT_TRUE(contains(text_of<UsageError>([&] { graph_.instantiate(); }), "KeepGraph::yes"));
  };
  refused();
  graph_.capture_begin();
  add(x_);
  refused();
  graph_.capture_end();
  refused();
  graph_.replay();
  EXPECT_EQ(first(x_), 1);
}

TEST_F(CUDAGraphWithoutTemplate, RefusesTheRawGraphUnlessItKeepsTheGraph) {
  const auto refused = [&] {
    EXPECT_TRUE(contains(text_of<UsageError>([&] { graph_.raw_cuda_graph(); }), "KeepGraph::yes"));
  };
  refused();
  graph_.capture_begin();
  add(x_);
  refused();
  graph_.capture_end();
  refused();
  graph_.replay();
  EXPECT_EQ(first(x_), 1);
}

TEST_F(CUDAGraphWithoutTemplate, RefusesWhatNeedsADiscardedTemplate) {
  GraphOptions options;
  options.discard_template = true;
  graph_.capture_begin(options);
  add(x_);
  graph_.capture_end();
  EXPECT_TRUE(contains(text_of<UsageError>([&] { graph_.node_count(); }), "discard_template"));
  EXPECT_TRUE(contains(text_of<UsageError>([&] { graph_.debug_dump("never-written.dot"); }), "discard_template"));
  graph_.replay();
  EXPECT_EQ(first(x_), 1);
}

TEST_F(CUDAGraphWithoutTemplate, KeepsItInDebugModeWhateverTheOptionsSay) {
  GraphOptions options;
  options.discard_template = true;
  graph_.enable_debug_mode();
  graph_.capture_begin(options);
  add(x_);
  graph_.capture_end();
  EXPECT_EQ(graph_.node_count(), 1u);
}

TEST_F(CUDAGraphWithoutTemplate, RefusesToDiscardTheTemplateThatItPromisesToKeep) {
  CUDAGraph keeps(KeepGraph::yes);
  GraphOptions options;
  options.discard_template = true;
  EXPECT_TRUE(contains(text_of<UsageError>([&] { keeps.capture_begin(options); }), "discard_template"));
  EXPECT_EQ(stream_.ref().capture_status(), CaptureStatus::none);
  capture_increment(keeps, x_);
  keeps.replay();
  EXPECT_EQ(first(x_), 1);
}

// Moves.
TEST(CUDAGraphMoves, TheNewOwnerReplaysWhatTheOldOneCaptured) {
  Buffer<int> x = zeros();
  CUDAGraph source;
  capture_increment(source, x);
  CUDAGraph target(std::move(source));
  target.replay();
  EXPECT_EQ(first(x), 1);
}

TEST(CUDAGraphMoves, AssigningGivesBackWhatTheTargetHeld) {
  Buffer<int> x = zeros();
  CUDAGraph target;
  capture(target, [&] {
    const Buffer<int> scratch(1000);
    add(x);
  });
  const MempoolId pool = target.pool();
  EXPECT_GT(CachingAllocator::of(default_device()).statistics(pool).reserved_bytes, 0u);
  target = CUDAGraph();
  EXPECT_EQ(CachingAllocator::of(default_device()).statistics(pool).reserved_bytes, 0u);
}

TEST(CUDAGraphMoves, AGraphThatIsCapturingGoesOnInItsNewPlace) {
  const SideStream stream;
  Buffer<int> x = zeros();
  CUDAGraph source;
  source.capture_begin();
  CUDAGraph target(std::move(source));
  add(x);
  target.capture_end();
  target.replay();
  EXPECT_EQ(first(x), 1);
}

}  // namespace
}  // namespace reprise::graphs::test
