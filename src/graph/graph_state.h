// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <initializer_list>

namespace reprise::graphs {

/// The states of a CUDAGraph; reprise/graph.h has the transitions.
enum class GraphState {
  empty,      ///< nothing captured
  capturing,  ///< between capture_begin and capture_end
  captured,   ///< there is a template, and no executable
  ready,      ///< there is an executable
};

/// The one place where states are checked. `call` is the public name of the call that is being made.
/// \throws UsageError unless `found` is among `expected`.
void require(GraphState found, const char* call, std::initializer_list<GraphState> expected);

}  // namespace reprise::graphs
