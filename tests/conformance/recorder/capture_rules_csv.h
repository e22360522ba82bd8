// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <vector>

// data/capture_rules_h200.csv: what calls of CUDA's runtime gave on a GPU during a capture. Its head describes it.

namespace reprise::backend::test {

/// A line of it.
struct RuleRow {
  std::size_t line = 0;
  std::string call, mode, thread, capturing_stream, result_name, after;
  int result = 0, end = 0;
  int last = 0;  ///< what cudaGetLastError gave on the capturing thread right after the call

  std::string where() const {
    return "line " + std::to_string(line) + ": " + call + ", " + mode + ", " + thread + ", " + capturing_stream;
  }
};

/// All of them; what is no row fails the test at hand.
std::vector<RuleRow> measured_rules();

}  // namespace reprise::backend::test
