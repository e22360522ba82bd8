// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <string_view>

// Names of graphs in texts.

namespace reprise::graphs {

/// "graph `step`"; `unnamed` if the name is empty.
inline std::string graph_text(std::string_view name, std::string_view unnamed = {}) {
  if (name.empty()) return std::string(unnamed);
  return std::string("graph `").append(name) + "`";
}

/// " of graph `step`", to follow the name of a call; empty if the name is.
inline std::string of_graph(std::string_view name) {
  return name.empty() ? std::string() : " of " + graph_text(name);
}

}  // namespace reprise::graphs
