// SPDX-License-Identifier: Apache-2.0
#include <functional>
#include <string>
#include <vector>

#include "tests/unit/graph/control_flow/control_flow_fixture.h"
#include "tests/unit/inspect/annotations_fixture.h"

// Annotations of nodes in child graphs and bodies.

namespace reprise::graphs::test {
namespace {

/// "0.1 step, layer=2" for each annotated node.
Texts numbered(const CUDAGraph& graph) {
  Texts found;
  for (const AnnotatedNode& each : graph.annotations())
    found.push_back(each.number + " " + inspect::annotation_text(each.annotation));
  return found;
}

class InnerAnnotations : public ControlFlow {
 protected:
  /// Two nodes, of which the first one is annotated, with `key` besides its name.
  CUDAGraph child(const std::string& name = "step", int amount = 1) {
    return capture(annotated(), [&] {
      {
        const annotate scope({{"name", name}, {"of", "child"}});
        add(x_, amount);
      }
      add(x_, amount);
    });
  }
};

TEST_F(InnerAnnotations, OfAChildFollowIntoTheParent) {
  const CUDAGraph step = child();
  const CUDAGraph graph = capture(annotated(), [&] {
    add_child(step);
    const annotate scope({{"name", "outer"}, {"layer", "2"}});
    add_child(step);
  });
  EXPECT_EQ(numbered(graph),
            (Texts{"0.0 step, of=child", "1 outer, layer=2", "1.0 step, layer=2, of=child", "1.1 outer, layer=2"}))
      << "as those of a scope within a scope";
  EXPECT_TRUE(contains(graph.node("1.0").str(), "in step, layer=2, of=child"));
  EXPECT_EQ(graph.node("1.0").annotation().at("layer"), "2");
  const std::vector<AnnotatedNode> all = graph.annotations();
  EXPECT_EQ(all[2].index, 1U) << "of the enclosing node";
  EXPECT_EQ(all[2].node, graph.node("1.0").native());
}

TEST_F(InnerAnnotations, FindTheNode) {
  const CUDAGraph step = child();
  CUDAGraph graph = capture(annotated(), [&] {
    const annotate scope("outer");
    add_child(step);
  });
  graph.node("step").set_arg(1, 100);
  graph.replay();
  EXPECT_EQ(first(x_), 101);
}

TEST_F(InnerAnnotations, FollowThroughChildrenOfChildrenAndIntoBodies) {
  const CUDAGraph step = child();
  const CUDAGraph middle = capture(annotated(), [&] {
    const annotate scope({{"layer", "1"}});
    add_child(step);
  });
  const CUDAGraph graph = capture(annotated(), [&] {
    const annotate scope({{"phase", "a"}});
    add_child(middle);
    if_(flag_.data(), [&] {
      const annotate in_body({{"phase", "b"}});
      add_child(middle);
    });
  });
  const Texts all = numbered(graph);
  const auto has = [&](const std::string& text) { return std::ranges::find(all, text) != all.end(); };
  const std::string body = graph.nodes().back().number() + ".0.0";
  EXPECT_TRUE(has("0 phase=a"));
  EXPECT_TRUE(has("0.0 layer=1, phase=a"));
  EXPECT_TRUE(has("0.0.0 step, layer=1, of=child, phase=a"));
  EXPECT_TRUE(has("0.0.1 layer=1, phase=a"));
  EXPECT_TRUE(has(body + " phase=b"));
  EXPECT_TRUE(has(body + ".0 layer=1, phase=b"));
  EXPECT_TRUE(has(body + ".0.0 step, layer=1, of=child, phase=b"));
}

TEST_F(InnerAnnotations, OfBodiesAreListedAlsoWhereTheNodeHasNone) {
  const CUDAGraph graph = capture(annotated(), [&] {
    if_(flag_.data(), [&] {
      add(x_);
      const annotate scope("body");
      add(x_);
    });
  });
  const Texts expected = {graph.nodes().back().number() + ".0.1 body"};
  EXPECT_EQ(numbered(graph), expected);
}

TEST_F(InnerAnnotations, NeedTheOptionOfTheParent) {
  const CUDAGraph step = child();
  const CUDAGraph graph = capture([&] { add_child(step); });
  EXPECT_TRUE(graph.annotations().empty());
}

TEST_F(InnerAnnotations, StayWithoutATemplateAndFollowItsEdits) {
  const CUDAGraph step = child();
  const auto body = [&] {
    add_child(step);
    const annotate scope("outer");
    add(x_);
    add_child(step);
  };
  GraphOptions options = annotated();
  options.discard_template = true;
  const Texts all = {"0.0 step, of=child", "1 outer", "2 outer", "2.0 step, of=child", "2.1 outer"};
  EXPECT_EQ(numbered(capture(options, body)), all);
  options = annotated();
  options.keep_graph = KeepGraph::yes;
  CUDAGraph kept = capture(options, body);
  kept.instantiate();
  EXPECT_EQ(numbered(kept), all);
  ASSERT_EQ(default_device().backend().graph_destroy_node(kept.nodes()[0].native()), ErrorCode::success);
  kept.instantiate();
  EXPECT_EQ(numbered(kept), (Texts{"0 outer", "1 outer", "1.0 step, of=child", "1.1 outer"}));
  kept.reset();
  capture(kept, [&] { add(x_); });
  EXPECT_TRUE(kept.annotations().empty());
}

TEST_F(InnerAnnotations, AreThoseOfTheOtherGraphAfterAnUpdate) {
  const CUDAGraph one = child(), two = child("other step", 5);
  CUDAGraph graph = capture(annotated(), [&] { add_child(one); });
  {
    const CUDAGraph other = capture(annotated(), [&] { add_child(two); });
    graph.update(other);
  }
  EXPECT_EQ(numbered(graph), (Texts{"0.0 other step, of=child"}));
  EXPECT_EQ(graph.node("other step").arg<int>(1), 5);
  EXPECT_EQ(graph.annotations()[0].node, graph.node("other step").native());
}

TEST_F(InnerAnnotations, OfAnUpdateFollowIntoAParentAlsoIfTheGraphHadNone) {
  CUDAGraph step = capture([&] {
    add(x_);
    add(x_);
  });
  step.update(child());
  const CUDAGraph graph = capture(annotated(), [&] { add_child(step); });
  EXPECT_EQ(numbered(graph), Texts{"0.0 step, of=child"});
}

TEST_F(InnerAnnotations, AreThatOfTheTemplateWhichBecomesAChild) {
  GraphOptions options = annotated();
  options.keep_graph = KeepGraph::yes;
  CUDAGraph step = capture(options, [&] {
    add(x_);
    const annotate scope("second");
    add(x_);
  });
  ASSERT_EQ(default_device().backend().graph_destroy_node(step.nodes()[0].native()), ErrorCode::success);
  const CUDAGraph graph = capture(annotated(), [&] { add_child(step); });
  EXPECT_EQ(numbered(graph), Texts{"0.0 second"});
}

/// The report of a capture with a body, in a scope `around`, that `work` breaks.
CaptureReport report_of_body(const Flag* flag, const std::function<void()>& work) {
  CUDAGraph graph;
  EXPECT_THROW(capture(graph, annotated(),
                       [&] {
                         const annotate scope("around");
                         if_(flag, work);
                       }),
               Error);
  return graph.capture_report().value_or(CaptureReport{});
}

TEST_F(InnerAnnotations, OfABodyAreInTheReportWhenItsFailureLeavesTheBody) {
  const CaptureReport report = report_of_body(flag_.data(), [&] {
    const annotate scope({{"phase", "body"}});
    add(x_);
    (void)current_stream().query();
  });
  EXPECT_EQ(report.annotation, (Annotation{{"name", "around"}, {"phase", "body"}})) << report.str();
}

TEST_F(InnerAnnotations, OfABodyAreInTheReportWhenTheBodyEndsBroken) {
  const CaptureReport report = report_of_body(flag_.data(), [&] {
    {
      const annotate scope({{"phase", "body"}});
      EXPECT_THROW((void)current_stream().query(), BackendError);
    }
    const annotate late("late");
  });
  EXPECT_EQ(report.annotation, (Annotation{{"name", "around"}, {"phase", "body"}})) << report.str();
}

TEST_F(InnerAnnotations, OfTheInnermostBodyAreInReportAndError) {
  std::string what;
  const CaptureReport report = report_of_body(flag_.data(), [&] {
    const annotate outer({{"phase", "outer"}});
    add(x_);
    if_(flag_.data(), [&] {
      const annotate inner({{"phase", "inner"}});
      add(x_);
      what = text_of<BackendError>([&] { (void)current_stream().query(); });
    });
  });
  EXPECT_EQ(report.annotation, (Annotation{{"name", "around"}, {"phase", "inner"}})) << report.str();
  EXPECT_TRUE(contains(what, "around, phase=inner")) << what;
}

TEST_F(InnerAnnotations, OfTheCaptureAreInTheReportWhenABodyBreaksInNoneOfItsOwn) {
  const CaptureReport report =
      report_of_body(flag_.data(), [&] { EXPECT_THROW((void)current_stream().query(), BackendError); });
  EXPECT_EQ(report.annotation, (Annotation{{"name", "around"}})) << report.str();
}

}  // namespace
}  // namespace reprise::graphs::test
