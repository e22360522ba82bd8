// SPDX-License-Identifier: Apache-2.0
#include <gmock/gmock.h>

#include <memory>
#include <optional>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

#include "tests/support/faulty_backend.h"
#include "tests/unit/graph/graph_fixture.h"

// CUDAGraph::recapture(): another capture in place of the previous one.

namespace reprise::graphs::test {
namespace {

using backend::Call;
using backend::test::FaultyBackend;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::SizeIs;

class GraphRecapture : public ::testing::TestWithParam<KeepGraph> {
 protected:
  void SetUp() override { settle_memory(); }

  void capture_first(const GraphOptions& options = {}) {
    capture(graph_, options, [&] { add(x_, 1); });
    graph_.replay();
    device_.synchronize();
  }

  const Device device_ = default_device();
  const SideStream side_;
  Buffer<int> x_ = zeros(4), y_ = zeros(4);
  CUDAGraph graph_{GetParam()};
};

INSTANTIATE_TEST_SUITE_P(Kept, GraphRecapture, ::testing::Values(KeepGraph::no, KeepGraph::yes), [](const auto& kept) {
  return kept.param == KeepGraph::yes ? std::string("yes") : std::string("no");
});

TEST_P(GraphRecapture, UpdatesInPlace) {
  capture_first();
  const GraphExecHandle exec = graph_.raw_cuda_graph_exec();
  const std::vector<GraphNode> nodes = graph_.nodes();
  const Recapture result = graph_.recapture([&] { add(x_, 10); });
  EXPECT_TRUE(result.in_place);
  EXPECT_THAT(result.reason, IsEmpty());
  EXPECT_THAT(result.differences, IsEmpty());
  EXPECT_EQ(graph_.raw_cuda_graph_exec(), exec);
  EXPECT_EQ(nodes[0].arg<int>(1), 10);
  graph_.replay();
  EXPECT_EQ(first(x_), 11);
}

TEST_P(GraphRecapture, InstantiatesAnewWhereNoUpdateIsPossible) {
  capture_first();
  const GraphNode node = graph_.nodes()[0];
  const MempoolId pool = graph_.pool();
  const Recapture result = graph_.recapture([&] {
    add(x_, 10);
    y_.fill_bytes_async(0);
  });
  EXPECT_FALSE(result.in_place);
  EXPECT_THAT(result.reason, HasSubstr("An update is not possible, CU_GRAPH_EXEC_UPDATE_ERROR_TOPOLOGY_CHANGED (2)"));
  ASSERT_THAT(result.differences, SizeIs(2));
  EXPECT_EQ(result.differences[1].kind, DifferenceKind::node_added);
  EXPECT_EQ(graph_.node_count(), 2U);
  EXPECT_NE(graph_.pool(), pool);
  EXPECT_TRUE(contains(text_of<UsageError>([&] { node.str(); }), "was reset, destroyed or assigned to"));
  graph_.replay();
  EXPECT_EQ(first(x_), 11);
}

TEST_P(GraphRecapture, OfTheSameBodyDiffersInNothing) {
  const auto body = [&] {
    Buffer<int> scratch(1000);
    scratch.fill_bytes_async(1);
    copy_async(x_.data(), scratch.data(), x_.size_bytes());
  };
  capture(graph_, body);
  graph_.replay();
  device_.synchronize();
  for (int i = 0; i < 3; ++i) {
    EXPECT_THAT(diff(graph_, capture(body)), IsEmpty());
    EXPECT_TRUE(graph_.recapture(body).in_place);
    x_.fill_bytes_async(0);
    graph_.replay();
    EXPECT_EQ(first(x_), 0x01010101);
  }
  const std::uint64_t reserved = CachingAllocator::of(device_).statistics().reserved_bytes;
  for (int i = 0; i < 10; ++i) graph_.recapture(body), graph_.replay(), device_.synchronize();
  EXPECT_TRUE(eventually([&] { return CachingAllocator::of(device_).statistics().reserved_bytes <= reserved; }))
      << "what earlier captures held is released";
}

TEST_P(GraphRecapture, ABodyThatThrowsLeavesTheGraphAsItWas) {
  capture_first();
  const MempoolId pool = graph_.pool();
  EXPECT_THROW(graph_.recapture([&] {
    add(x_, 10);
    throw std::runtime_error("the body failed");
  }),
               std::runtime_error);
  EXPECT_EQ(graph_.pool(), pool);
  EXPECT_EQ(graph_.nodes()[0].arg<int>(1), 1);
  graph_.replay();
  EXPECT_EQ(first(x_), 2);
  EXPECT_TRUE(graph_.recapture([&] { add(x_, 10); }).in_place);
  graph_.replay();
  EXPECT_EQ(first(x_), 12);
}

TEST_P(GraphRecapture, ACaptureThatBreaksLeavesTheGraphAndAReport) {
  capture_first();
  const MempoolId pool = graph_.pool();
  EXPECT_THROW(graph_.recapture([&] {
    add(x_, 10);
    try {
      current_stream().synchronize();
    } catch (const BackendError&) {
    }
  }),
               CaptureError);
  ASSERT_TRUE(graph_.capture_report().has_value());
  EXPECT_EQ(graph_.capture_report()->code, ErrorCode::stream_capture_invalidated);
  EXPECT_EQ(graph_.pool(), pool);
  graph_.replay();
  EXPECT_EQ(first(x_), 2);
}

TEST_P(GraphRecapture, AnEmptyCaptureIsRefusedAndLeavesTheGraph) {
  capture_first();
  EXPECT_THROW(graph_.recapture([] {}), EmptyCaptureError);
  EXPECT_TRUE(contains(text_of<UsageError>([&] { graph_.recapture(nullptr); }), "empty function"));
  graph_.replay();
  EXPECT_EQ(first(x_), 2);
}

TEST_P(GraphRecapture, WithinTheBodyTheGraphIsTheOneThatIsCaptured) {
  capture_first();
  auto object = std::make_shared<int>(1);
  const std::weak_ptr<int> watch = object;
  const std::uint64_t id = graph_.id();
  graph_.recapture([&] {
    EXPECT_EQ(graph_.id(), id);
    EXPECT_TRUE(contains(text_of<UsageError>([&] { graph_.replay(); }), "`capturing`"));
    graph_.retain(std::move(object));
    add(x_, 10);
  });
  EXPECT_EQ(graph_.id(), id);
  EXPECT_FALSE(watch.expired());
  graph_.replay();
  EXPECT_EQ(first(x_), 11);
  graph_.recapture([&] { add(x_, 100); });
  EXPECT_TRUE(eventually([&] { return watch.expired(); }));
}

TEST_P(GraphRecapture, KeepsTheOptionsOfTheFirstCapture) {
  std::optional<Buffer<int>> input(zeros(4));
  int runs = 0;
  const auto body = [&] {
    ++runs;
    const annotate scope("doubled");
    multiply(*input, 2, x_);
  };
  capture(graph_, {.name = "step", .warmup = 1, .enable_annotations = true, .check_input_liveness = true}, body);
  graph_.replay();
  input.emplace(zeros(4));
  EXPECT_TRUE(graph_.recapture(body).in_place);
  EXPECT_EQ(runs, 3) << "twice before, without a warm-up now";
  EXPECT_EQ(graph_.name(), "step");
  EXPECT_THAT(graph_.annotations(), SizeIs(1));
  graph_.replay();
  device_.synchronize();
  input.reset();
  EXPECT_THROW(graph_.replay(), DeadInputError);
}

TEST_P(GraphRecapture, TakesAStreamOrOptions) {
  capture_first();
  const Stream stream;
  StreamHandle seen = nullptr;
  EXPECT_TRUE(graph_
                  .recapture(stream,
                             [&](StreamHandle s) {
                               seen = s;
                               add(x_, 10);
                             })
                  .in_place);
  EXPECT_EQ(seen, stream.native());
  GraphOptions options;
  options.name = "again";
  options.keep_graph = GetParam();
  EXPECT_TRUE(graph_.recapture(options, [&] { add(x_, 20); }).in_place);
  EXPECT_EQ(graph_.name(), "again");
  options.instantiate_flags = InstantiateFlags::none;
  const Recapture other = graph_.recapture(options, [&] { add(x_, 30); });
  EXPECT_FALSE(other.in_place);
  EXPECT_THAT(other.reason, HasSubstr("instantiate_flags"));
  graph_.replay();
  EXPECT_EQ(first(x_), 31);
  options.hooks.reset = [] {};
  EXPECT_TRUE(contains(text_of<UsageError>([&] { graph_.recapture(options, [&] { add(x_); }); }), "add_hooks()"));
}

TEST_P(GraphRecapture, ParametersOfTheBodyStay) {
  const Parameter<int> amount(1);
  int further = 0;
  const auto body = [&] {
    launch(current_stream(), x_.size(), Add{}, x_.data(), amount, x_.size());
    for (int i = 0; i < further; ++i) add(y_);
  };
  capture(graph_, body);
  graph_.set(amount, 5);
  graph_.replay();
  EXPECT_TRUE(graph_.recapture(body).in_place);
  graph_.replay();
  EXPECT_EQ(first(x_), 6) << "a capture has the initial value";
  graph_.set(amount, 10);
  graph_.replay();
  EXPECT_EQ(first(x_), 16);
  further = 1;
  EXPECT_FALSE(graph_.recapture(body).in_place);
  graph_.set(amount, 100);
  graph_.replay();
  EXPECT_EQ(first(x_), 116);
}

TEST_P(GraphRecapture, HooksStayAndSeeTheNewTemplate) {
  int captured = 0, instantiated = 0, replays = 0, resets = 0;
  GraphHooks hooks;
  hooks.captured = [&](GraphHandle) {
    ++captured;
    EXPECT_GT(graph_.node_count(), 0U);
  };
  hooks.instantiated = [&](GraphExecHandle) { ++instantiated; };
  hooks.before_replay = [&](const StreamRef&) { ++replays; };
  hooks.reset = [&] { ++resets; };
  graph_.add_hooks(hooks);
  capture_first();
  EXPECT_THAT((std::vector{captured, instantiated, replays, resets}), ElementsAre(1, 1, 1, 0));
  graph_.recapture([&] { add(x_, 10); });
  graph_.replay();
  EXPECT_THAT((std::vector{captured, instantiated, replays, resets}), ElementsAre(2, 1, 2, 0));
  graph_.recapture([&] { add(x_), add(x_); });
  graph_.replay();
  EXPECT_THAT((std::vector{captured, instantiated, replays, resets}), ElementsAre(3, 2, 3, 0));
  graph_.reset();
  EXPECT_EQ(resets, 1);
}

TEST_P(GraphRecapture, AFailingInstantiationLeavesTheGraphAsItWas) {
  static auto& backend = *new FaultyBackend(default_device().backend());
  const Device faulty(backend);
  const DeviceGuard there(faulty);
  const Stream stream;
  const StreamGuard current(stream);
  Buffer<int> x = zeros(4);
  capture(graph_, [&] { add(x, 1); });
  graph_.replay();
  backend.fail(Call::graph_instantiate, ErrorCode::out_of_memory);
  EXPECT_THROW(graph_.recapture([&] { add(x), add(x); }), Error);
  EXPECT_EQ(graph_.node_count(), 1U);
  graph_.replay();
  EXPECT_EQ(first(x), 2);
  EXPECT_FALSE(graph_.recapture([&] { add(x), add(x); }).in_place);
  graph_.replay();
  EXPECT_EQ(first(x), 4);
}

TEST_P(GraphRecapture, OfAGraphWithoutATemplateInstantiatesAnewAndDiscardsAgain) {
  if (GetParam() == KeepGraph::yes) GTEST_SKIP() << "such a graph keeps its template";
  capture_first({.discard_template = true});
  const Recapture result = graph_.recapture([&] { add(x_, 10); });
  EXPECT_FALSE(result.in_place);
  EXPECT_THAT(result.reason, HasSubstr("GraphOptions::discard_template"));
  EXPECT_THAT(result.differences, IsEmpty());
  graph_.replay();
  EXPECT_EQ(first(x_), 11);
  EXPECT_TRUE(contains(text_of<UsageError>([&] { graph_.node_count(); }), "discard_template"));
}

TEST_P(GraphRecapture, WithoutAnExecutableTakesTheNewTemplate) {
  if (GetParam() == KeepGraph::no) GTEST_SKIP() << "such a graph has an executable";
  capture(graph_, [&] { add(x_, 1); });
  const Recapture result = graph_.recapture([&] { add(x_, 10); });
  EXPECT_FALSE(result.in_place);
  EXPECT_EQ(result.reason, "There was no executable to update.");
  EXPECT_THROW(graph_.raw_cuda_graph_exec(), UsageError);
  graph_.replay();
  EXPECT_EQ(first(x_), 10);
}

TEST_P(GraphRecapture, RefusesEmptyGraphsStreamsOfOtherDevicesAndHooks) {
  static auto& backend = *new FaultyBackend(default_device().backend());
  const Device other(backend);
  const Stream far(other);
  EXPECT_TRUE(contains(text_of<UsageError>([&] { graph_.recapture([&] { add(x_); }); }), "`empty`"));
  capture_first();
  EXPECT_TRUE(contains(text_of<UsageError>([&] { graph_.recapture(far, [&] { add(x_); }); }),
                       "GraphOptions::stream expected a stream of"));
  bool refused = false;
  GraphHooks hooks;
  hooks.before_replay = [&](const StreamRef&) {
    refused = contains(text_of<UsageError>([&] { graph_.recapture([&] { add(x_); }); }), "within a hook");
  };
  graph_.add_hooks(hooks);
  graph_.replay();
  EXPECT_TRUE(refused);
  EXPECT_EQ(first(x_), 2);
}

TEST_P(GraphRecapture, TheEndOfTheGraphInTheBodyIsAnError) {
  std::optional<CUDAGraph> graph(GetParam());
  capture(*graph, [&] { add(x_); });
  graph->replay();
  const std::string text = text_of<UsageError>([&] {
    graph->recapture([&] {
      add(x_);
      graph.reset();
    });
  });
  EXPECT_TRUE(text.starts_with("CUDAGraph::recapture: the graph was destroyed")) << text;
}

TEST_P(GraphRecapture, AReplayTimerHasNoGraphAfterANewExecutable) {
  capture_first();
  ReplayTimer timer(graph_);
  graph_.recapture([&] { add(x_), add(x_); });
  EXPECT_TRUE(contains(text_of<UsageError>([&] { timer.take(); }), "found it reset or destroyed"));
  graph_.replay();
  EXPECT_EQ(first(x_), 3);
}

}  // namespace
}  // namespace reprise::graphs::test
