// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <initializer_list>
#include <string_view>

#include "reprise/detail/export.h"

namespace reprise::graphs {

/// The states of a CUDAGraph; reprise/graph.h has the transitions.
enum class GraphState {
  empty,      ///< nothing captured
  capturing,  ///< between capture_begin and capture_end
  captured,   ///< there is a template, and no executable
  ready,      ///< there is an executable
};

/// \throws UsageError for `call`, the public name of one that needs a graph in one of the `expected` states; `name` is
/// that of the graph, which may be empty.
[[noreturn]] REPRISE_EXPORT_INTERNAL void refuse(GraphState found, const char* call,
                                                 std::initializer_list<GraphState> expected, std::string_view name);

}  // namespace reprise::graphs
