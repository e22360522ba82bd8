// SPDX-License-Identifier: Apache-2.0
#include "graph/graph_state.h"

#include <algorithm>
#include <string>

#include "graph/graph_names.h"
#include "reprise/error.h"
#include "text/format.h"

namespace reprise::graphs {
namespace {

const char* state_name(GraphState state) {
  switch (state) {
    case GraphState::empty:
      return "empty";
    case GraphState::capturing:
      return "capturing";
    case GraphState::captured:
      return "captured";
    case GraphState::ready:
      return "ready";
  }
  return "unknown";
}

// Advice on the way from the state of the graph to one in which the call is possible.
const char* advice(GraphState found, std::initializer_list<GraphState> expected) {
  const auto expects = [&](GraphState state) {
    return std::find(expected.begin(), expected.end(), state) != expected.end();
  };
  if (found == GraphState::capturing)
    return "end the capture with capture_end(), or drop it with capture_abandon(), before this call";
  if (expects(GraphState::capturing))
    return found == GraphState::empty
               ? "no capture is underway: call capture_begin() before this call"
               : "the capture has ended already; for another one call reset() and capture_begin()";
  if (found == GraphState::empty)
    return "capture something first, with capture(), the scope graph, or capture_begin() and capture_end()";
  if (expects(GraphState::empty)) return "call reset() first, or use another CUDAGraph";
  return "call instantiate(), or replay the graph once, before this call";
}

}  // namespace

void refuse(GraphState found, const char* call, std::initializer_list<GraphState> expected, std::string_view name) {
  std::string names;
  for (const GraphState state : expected)
    names += text::format("{}`{}`", names.empty() ? "" : " or ", state_name(state));
  throw UsageError(text::format("{} needs a graph in state {}, but {} is in state `{}`: {}.", call, names,
                                graph_text(name, "this one"), state_name(found), advice(found, expected)));
}

}  // namespace reprise::graphs
