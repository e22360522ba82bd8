// SPDX-License-Identifier: Apache-2.0
#include "inspect/annotations/annotation_listener.h"

#include <vector>

#include "graph/capture/active_capture.h"
#include "inspect/annotations/progress_listener.h"
#include "tests/unit/inspect/annotations_fixture.h"

// The listener on its own, as others of the library use it.

namespace reprise::graphs::test {
namespace {

class TheAnnotationListener : public Annotations {
 protected:
  ~TheAnnotationListener() override {
    if (template_ == nullptr) return;
    EXPECT_EQ(runtime_.graph_destroy(template_), ErrorCode::success);
  }

  /// A capture of two nodes, the second one in a scope.
  void capture_two(const GraphOptions& options) {
    ActiveCapture capture(stream_.ref(), options, {}, all_);
    capture.begin("test");
    add(x_);
    const annotate scope("phase");
    add(x_);
    CapturedGraph graph = capture.end();
    template_ = graph.template_graph;
    capture.commit();
    ASSERT_EQ(runtime_.graph_nodes(template_, &nodes_), ErrorCode::success);
  }

  const inspect::ProgressListener progress_{};
  inspect::AnnotationListener listener_{progress_};
  const std::vector<CaptureListener*> all_{&listener_};
  SideStream stream_;
  backend::Backend& runtime_ = default_device().backend();
  GraphHandle template_ = nullptr;
  std::vector<GraphNodeHandle> nodes_;
};

TEST_F(TheAnnotationListener, KnowsTheAnnotationOfANodeByItsHandle) {
  capture_two(annotated());
  ASSERT_NE(listener_.annotation_of(nodes_[1]), nullptr);
  EXPECT_EQ(*listener_.annotation_of(nodes_[1]), (Annotation{{"name", "phase"}}));
  EXPECT_EQ(listener_.annotation_of(nodes_[0]), nullptr);
  EXPECT_EQ(listener_.annotation_of(nullptr), nullptr);
  listener_.reset();
  EXPECT_EQ(listener_.annotation_of(nodes_[1]), nullptr);
}

TEST_F(TheAnnotationListener, KnowsNoneUnlessTheyAreWanted) {
  capture_two({});
  EXPECT_EQ(listener_.annotation_of(nodes_[1]), nullptr);
}

}  // namespace
}  // namespace reprise::graphs::test
