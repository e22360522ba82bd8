// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

#include "tests/unit/graph/graph_fixture.h"

// What the tests of hooks share.

namespace reprise::graphs::test {

using Log = std::vector<std::string>;

class Hooks : public ::testing::Test {
 protected:
  // Each hook writes its step and this name into the log, and throws in the step `throws_in`.
  GraphHooks logging(std::string name, std::string throws_in = "") {
    const auto step = [this, name = std::move(name), throws_in = std::move(throws_in)](const std::string& what) {
      log_.push_back(name + " " + what);
      if (what == throws_in) throw std::runtime_error(name + " threw");
    };
    return {[step](GraphHandle) { step("captured"); }, [step](GraphExecHandle) { step("instantiated"); },
            [step](const StreamRef&) { step("before"); },
            [step](const StreamRef&, ErrorCode result) {
              step(result == ErrorCode::success ? "after" : "after " + std::to_string(static_cast<int>(result)));
            },
            [step] { step("reset"); }};
  }
  Log take_log() { return std::exchange(log_, {}); }

  Log log_;  // before the graph, whose end it sees
  SideStream stream_;
  Buffer<int> x_ = zeros();
  CUDAGraph graph_;
};

}  // namespace reprise::graphs::test
