// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <vector>

#include "inspect/annotations/annotation_text.h"
#include "reprise/reprise.h"
#include "tests/unit/graph/graph_fixture.h"

// What the tests of annotations share.

namespace reprise::graphs::test {

/// Options for a capture with annotations, in which other threads may do anything.
inline GraphOptions annotated() {
  GraphOptions options;
  options.enable_annotations = true;
  options.capture_error_mode = CaptureMode::relaxed;
  return options;
}

/// The annotation of each node as text, in order of creation; empty for none.
inline std::vector<std::string> texts(const CUDAGraph& graph, std::size_t nodes) {
  std::vector<std::string> found(nodes);
  for (const AnnotatedNode& each : graph.annotations()) {
    EXPECT_LT(each.index, nodes);
    if (each.index < nodes) found[each.index] = inspect::annotation_text(each.annotation);
  }
  return found;
}
inline std::vector<std::string> texts(const CUDAGraph& graph) {
  return texts(graph, graph.node_count());
}

using Texts = std::vector<std::string>;

class Annotations : public ::testing::Test {
 protected:
  void SetUp() override {
    x_ = zeros();
    y_ = zeros();
  }

  Buffer<int> x_, y_;
  CUDAGraph graph_;
};

}  // namespace reprise::graphs::test
