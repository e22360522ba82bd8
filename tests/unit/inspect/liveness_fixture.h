// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <gmock/gmock.h>

#include <cstddef>
#include <optional>
#include <string>
#include <vector>

#include "tests/unit/graph/graph_fixture.h"

// What the tests of input liveness share.

namespace reprise::graphs::test {

inline constexpr std::size_t n = 300;  // values of a buffer

inline GraphOptions with_check(Liveness liveness = Liveness::allocator) {
  GraphOptions options;
  options.check_input_liveness = true;
  options.inputs.scope = liveness;
  return options;
}

inline GraphOptions with_retain(Liveness liveness = Liveness::allocator) {
  GraphOptions options;
  options.inputs.retain = true;
  options.inputs.scope = liveness;
  return options;
}

/// Checks that a replay is refused with DeadInputError.
inline DeadInputError refusal(CUDAGraph& graph) {
  try {
    graph.replay();
  } catch (const DeadInputError& error) {
    return error;
  }
  ADD_FAILURE() << "the replay was not refused";
  return DeadInputError("", {});
}

/// The dead inputs of the error.
inline std::vector<DeadInput> dead_inputs(CUDAGraph& graph) {
  return refusal(graph).inputs();
}

inline std::vector<const void*> addresses(const std::vector<GraphInput>& inputs) {
  std::vector<const void*> found;
  for (const GraphInput& input : inputs) found.push_back(input.address);
  return found;
}

inline std::vector<const void*> addresses(const std::vector<DeadInput>& inputs) {
  std::vector<const void*> found;
  for (const DeadInput& input : inputs) found.push_back(input.address);
  return found;
}

}  // namespace reprise::graphs::test
