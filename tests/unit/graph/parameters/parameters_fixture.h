// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>

#include "tests/unit/graph/graph_fixture.h"

// What the tests of parameters share.

namespace reprise::graphs::test {

class GraphWithParameters : public ::testing::TestWithParam<KeepGraph> {
 protected:
  /// x += amount, y = factor * x
  void capture_both() {
    capture(graph_, [&] {
      launch(x_.size(), Add{}, x_.data(), amount_, x_.size());
      launch(x_.size(), Multiply{}, x_.data(), factor_, y_.data(), x_.size());
    });
  }
  int replayed(const Buffer<int>& buffer) {
    graph_.replay();
    return first(buffer);
  }

  const SideStream side_;
  Buffer<int> x_ = zeros(4), y_ = zeros(4), z_ = zeros(4);
  const Parameter<int> amount_{1}, factor_{10};
  CUDAGraph graph_{GetParam()};
};

inline std::string name_of_kept(const ::testing::TestParamInfo<KeepGraph>& info) {
  return info.param == KeepGraph::yes ? "yes" : "no";
}

}  // namespace reprise::graphs::test
