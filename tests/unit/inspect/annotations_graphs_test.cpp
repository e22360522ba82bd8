// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <future>
#include <optional>
#include <stdexcept>
#include <string>
#include <thread>
#include <utility>

#include "tests/support/faulty_backend.h"
#include "tests/support/warnings.h"
#include "tests/unit/inspect/annotations_fixture.h"

// Annotations after the capture: how long they last, and which texts name them.

namespace reprise::graphs::test {
namespace {

using backend::Call;
using backend::test::FaultyBackend;
using reprise::test::Warnings;

// Four nodes; the second and the third have an annotation.
void capture_four(CUDAGraph& graph, Buffer<int>& x, const GraphOptions& options = annotated()) {
  capture(graph, options, [&] {
    add(x);
    {
      const annotate scope("second");
      add(x);
    }
    {
      const annotate scope("third");
      add(x);
    }
    add(x);
  });
}
const Texts of_four = {"", "second", "third", ""};

std::vector<GraphNodeHandle> nodes_of(GraphHandle graph) {
  std::vector<GraphNodeHandle> nodes;
  EXPECT_EQ(default_device().backend().graph_nodes(graph, &nodes), ErrorCode::success);
  return nodes;
}

TEST_F(Annotations, AreListedAsTheirPageSays) {
  capture(graph_, annotated(), [&] {
    {
      const annotate forward("forward");
      for (int layer = 0; layer < 2; ++layer) {
        const annotate scope({{"layer", std::to_string(layer)}});
        add(x_);
      }
    }
    const annotate backward("backward");
    add(x_);
  });
  std::string text;
  for (const AnnotatedNode& each : graph_.annotations()) {
    text += "node " + std::to_string(each.index) + ":";
    for (const auto& [key, value] : each.annotation) text += " " + key + "=" + value;
    text += "\n";
  }
  EXPECT_EQ(text, "node 0: layer=0 name=forward\nnode 1: layer=1 name=forward\nnode 2: name=backward\n");
}

TEST_F(Annotations, SurviveInstantiationReplayAndInstantiationAgain) {
  CUDAGraph graph(KeepGraph::yes);
  capture_four(graph, x_);
  EXPECT_EQ(texts(graph), of_four);
  graph.instantiate();
  EXPECT_EQ(texts(graph), of_four);
  graph.replay();
  EXPECT_EQ(first(x_), 4);
  graph.instantiate();
  EXPECT_EQ(texts(graph), of_four);
  const std::vector<GraphNodeHandle> nodes = nodes_of(graph.raw_cuda_graph());
  for (const AnnotatedNode& each : graph.annotations()) EXPECT_EQ(each.node, nodes[each.index]);
}

TEST_F(Annotations, FollowTheTemplateWhenAnExecutableIsMadeOfItAfterItWasEdited) {
  backend::Backend& runtime = default_device().backend();
  CUDAGraph graph(KeepGraph::yes);
  capture_four(graph, x_);
  graph.instantiate();
  const std::vector<GraphNodeHandle> before = nodes_of(graph.raw_cuda_graph());
  ASSERT_EQ(runtime.graph_destroy_node(before[1]), ErrorCode::success);
  // One of these may lie where the other one lay.
  for (int i = 0; i < 2; ++i) {
    GraphNodeHandle added = nullptr;
    backend::NodeParams empty = backend::EmptyNodeParams{};
    ASSERT_EQ(runtime.graph_add_node(&added, graph.raw_cuda_graph(), {}, empty), ErrorCode::success);
  }
  EXPECT_EQ(texts(graph, 4), of_four) << "the executable is as it was";
  graph.instantiate();
  EXPECT_EQ(texts(graph), (Texts{"", "third", "", "", ""}));
  ASSERT_EQ(graph.annotations().size(), 1u);
  EXPECT_EQ(graph.annotations().front().node, before[2]);
  ASSERT_EQ(runtime.graph_destroy_node(before[2]), ErrorCode::success);
  graph.instantiate();
  EXPECT_TRUE(graph.annotations().empty());
}

TEST_F(Annotations, StayWhenTheTemplateIsDiscarded) {
  GraphOptions options = annotated();
  options.discard_template = true;
  capture_four(graph_, x_, options);
  EXPECT_THROW(graph_.node_count(), UsageError);
  EXPECT_EQ(texts(graph_, 4), of_four);
}

TEST_F(Annotations, GoWithTheGraph) {
  capture_four(graph_, x_);
  const CUDAGraph moved = std::move(graph_);
  EXPECT_EQ(texts(moved), of_four);
  EXPECT_TRUE(contains(text_of<UsageError>([&] { graph_.annotations(); }), "moved from"));  // NOLINT: that is the test
}

TEST_F(Annotations, CannotBeAskedForBeforeACapture) {
  const std::string text = text_of<UsageError>([&] { graph_.annotations(); });
  EXPECT_TRUE(contains(text, "CUDAGraph::annotations"));
  EXPECT_TRUE(contains(text, "empty"));
}

TEST_F(Annotations, OfAResetGraphAreGone) {
  capture_four(graph_, x_);
  graph_.reset();
  capture(graph_, annotated(), [&] {
    const annotate scope("another");
    add(x_);
  });
  EXPECT_EQ(texts(graph_), Texts{"another"});
  graph_.reset();
  capture_increment(graph_, x_);
  EXPECT_TRUE(graph_.annotations().empty());
}

TEST_F(Annotations, OfAFailedCaptureAreGone) {
  EXPECT_THROW(capture(graph_, annotated(),
                       [&] {
                         const annotate scope("phase");
                         add(x_);
                         throw std::runtime_error("the body");
                       }),
               std::runtime_error);
  EXPECT_THROW(graph_.annotations(), UsageError);
  GraphOptions global = annotated();
  global.capture_error_mode = CaptureMode::global;
  EXPECT_THROW(capture(graph_, global,
                       [&] {
                         const annotate scope("phase");
                         add(x_);
                         make_unsafe_call();
                       }),
               CaptureError);
  EXPECT_THROW(graph_.annotations(), UsageError);
  capture(graph_, annotated(), [&] { add(x_); });
  EXPECT_TRUE(graph_.annotations().empty());
}

TEST_F(Annotations, OfEachGraphAreItsOwn) {
  CUDAGraph other;
  capture_four(graph_, x_);
  capture(other, annotated(), [&] {
    const annotate scope("other");
    add(x_);
  });
  EXPECT_EQ(texts(graph_), of_four);
  EXPECT_EQ(texts(other), Texts{"other"});
}

TEST_F(Annotations, AQueryThatFailsWhenAScopeIsLeftFailsTheCapture) {
  static auto& runtime = *new FaultyBackend(default_device().backend());
  const DeviceGuard device{Device(runtime)};
  Buffer<int> x = zeros();
  const auto body = [&] {
    const annotate scope("phase");
    add(x);
    runtime.fail(Call::graph_nodes, ErrorCode::launch_failure);
  };
  const std::string text = text_of<BackendError>([&] { capture(graph_, annotated(), body); });
  EXPECT_TRUE(contains(text, "cuGraphGetNodes"));
  const Warnings warnings;
  EXPECT_THROW(capture(graph_, annotated(),
                       [&] {
                         body();
                         throw std::runtime_error("the body");
                       }),
               std::runtime_error);
  ASSERT_FALSE(warnings.texts().empty()) << "no warning";
  EXPECT_TRUE(contains(warnings.texts().front(), "cuGraphGetNodes"));
  runtime.heal();
}

// A runtime that lists the newest node first.
class Reversing final : public backend::test::FaultyBackend {
 public:
  using FaultyBackend::FaultyBackend;
  backend::Result graph_nodes(GraphHandle graph, std::vector<GraphNodeHandle>* nodes) override {
    backend::Result result = FaultyBackend::graph_nodes(graph, nodes);
    if (result == ErrorCode::success) std::reverse(nodes->begin(), nodes->end());
    return result;
  }
};

TEST_F(Annotations, DoNotDependOnTheOrderInWhichNodesAreListed) {
  static auto& runtime = *new Reversing(default_device().backend());
  const DeviceGuard device{Device(runtime)};
  Buffer<int> x = zeros();
  CUDAGraph graph(KeepGraph::yes);
  capture_four(graph, x);
  graph.instantiate();
  EXPECT_EQ(texts(graph), (Texts{"", "third", "second", ""}));
}

class AnnotatedReports : public Annotations {
 protected:
  // The report of a capture with this body, that breaks.
  template <class Body>
  CaptureReport report_of(Body body) {
    GraphOptions options = annotated();
    options.capture_error_mode = CaptureMode::global;
    EXPECT_THROW(capture(graph_, options, body), Error);
    EXPECT_TRUE(graph_.capture_report().has_value());
    return graph_.capture_report().value_or(CaptureReport{});
  }
};

TEST_F(AnnotatedReports, NameTheScopeInWhichTheCaptureBroke) {
  GraphOptions options = annotated();
  options.capture_error_mode = CaptureMode::global;
  try {
    capture(graph_, options, [&] {
      const annotate outer({{"name", "outer"}, {"step", "1"}});
      add(x_);
      const annotate inner("inner");
      make_unsafe_call();
    });
    FAIL() << "no exception";
  } catch (const CaptureError& error) {
    EXPECT_EQ(error.report().annotation, (Annotation{{"name", "inner"}, {"step", "1"}}));
    EXPECT_TRUE(contains(error.report().str(), "\n  within   inner, step=1\n"));
    EXPECT_TRUE(contains(error.what(), "\n  within   inner, step=1\n"));
  }
}

TEST_F(AnnotatedReports, NameItAlsoWhenItWasLeftAndOthersWereEntered) {
  const CaptureReport report = report_of([&] {
    const annotate outer("outer");
    {
      const annotate good("good");
      add(x_);
    }
    {
      const annotate bad("bad");
      make_unsafe_call();
    }
    const annotate late("late");
  });
  EXPECT_EQ(report.annotation, (Annotation{{"name", "bad"}}));
}

TEST_F(AnnotatedReports, NameTheOuterScopeWhenItBrokeBetweenInnerOnes) {
  const CaptureReport report = report_of([&] {
    const annotate outer("outer");
    {
      const annotate good("good");
      add(x_);
    }
    make_unsafe_call();
    const annotate late("late");
  });
  EXPECT_EQ(report.annotation, (Annotation{{"name", "outer"}}));
}

TEST_F(AnnotatedReports, NameTheScopeOfACallThatThrew) {
  const CaptureReport report = report_of([&] {
    const annotate scope("phase");
    add(x_);
    current_stream().synchronize();
  });
  EXPECT_EQ(report.annotation, (Annotation{{"name", "phase"}}));
}

TEST_F(AnnotatedReports, NameNoneWhenItBrokeInNone) {
  const CaptureReport report = report_of([&] {
    {
      const annotate good("good");
      add(x_);
    }
    make_unsafe_call();
  });
  EXPECT_TRUE(report.annotation.empty());
  EXPECT_EQ(report.str().find("within"), std::string::npos);
}

TEST_F(AnnotatedReports, NameTheScopeOfTheThreadThatBrokeIt) {
  const Stream side;
  const CaptureReport report = report_of([&] {
    std::optional<annotate> mine(std::in_place, "mine");
    add(x_);
    side.wait(current_stream());
    std::promise<void> broken, go_on;
    std::thread other([&] {
      const StreamGuard there(side);
      const annotate scope("other");
      make_unsafe_call();
      broken.set_value();
      go_on.get_future().wait();
    });
    broken.get_future().wait();
    mine.reset();  // finds it broken first
    go_on.set_value();
    other.join();
  });
  EXPECT_EQ(report.annotation, (Annotation{{"name", "other"}}));
}

TEST_F(AnnotatedReports, ErrorsOfTheRuntimeNameTheScopeOfTheirThread) {
  static auto& runtime = *new FaultyBackend(default_device().backend());
  const DeviceGuard device{Device(runtime)};
  Buffer<int> x = zeros();
  const auto fail_launch = [&] {
    runtime.fail(Call::launch_kernel, ErrorCode::launch_failure);
    return text_of<BackendError>([&] { add(x); });
  };
  capture(graph_, annotated(), [&] {
    EXPECT_EQ(fail_launch().find("within"), std::string::npos);
    const annotate outer({{"name", "forward"}, {"layer", "3"}});
    EXPECT_TRUE(contains(fail_launch(), "within forward, layer=3"));
    std::thread([&] {
      const DeviceGuard there{Device(runtime)};
      EXPECT_EQ(fail_launch().find("within"), std::string::npos);
    }).join();
    add(x);
  });
  EXPECT_EQ(fail_launch().find("within"), std::string::npos);
}

TEST(AnnotationText, PutsTheNameFirstAndStaysInOneLine) {
  EXPECT_EQ(inspect::annotation_text({}), "");
  EXPECT_EQ(inspect::annotation_text({{"name", "forward"}}), "forward");
  EXPECT_EQ(inspect::annotation_text({{"layer", "3"}, {"name", "forward"}, {"part", "a"}}), "forward, layer=3, part=a");
  EXPECT_EQ(inspect::annotation_text({{"layer", "3"}}), "layer=3");
  EXPECT_EQ(inspect::annotation_text({{"name", "two\nlines\t"}}), "two lines ");
}

}  // namespace
}  // namespace reprise::graphs::test
