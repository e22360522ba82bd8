// SPDX-License-Identifier: Apache-2.0
#include "inspect/timings/replay_timing.h"

#include <algorithm>
#include <map>

#include "inspect/annotations/annotation_text.h"
#include "text/format.h"

// Sums of the times of nodes, and their text.

namespace reprise {
namespace inspect {

void sum_up(ReplayTiming& timing) {
  std::vector<NodeTiming>& nodes = timing.nodes;
  std::stable_sort(nodes.begin(), nodes.end(),
                   [](const NodeTiming& a, const NodeTiming& b) { return a.start_us < b.start_us; });
  const double origin = nodes.empty() ? 0 : nodes.front().start_us;
  timing.total_us = 0;
  timing.annotations.clear();
  std::map<Annotation, std::size_t> places;
  for (NodeTiming& node : nodes) {
    node.start_us -= origin;
    const double end_us = node.start_us + std::max(node.span_us, node.duration_us);
    timing.total_us = std::max(timing.total_us, end_us);
    if (node.annotation.empty()) continue;
    const auto [place, is_new] = places.try_emplace(node.annotation, timing.annotations.size());
    if (is_new) timing.annotations.push_back({node.annotation, 0, node.start_us, 0, 0});
    AnnotationTiming& sum = timing.annotations[place->second];
    ++sum.nodes;
    sum.span_us = std::max(sum.span_us, end_us - sum.start_us);
    sum.duration_us += node.duration_us;
  }
}

}  // namespace inspect

namespace {

std::string node_number(const NodeTiming& node) {
  return node.number.empty() ? "-" : node.number;
}

}  // namespace

std::string ReplayTiming::str() const {
  std::string text = text::format("{} node{} in {:.3f} us, from the first start to the last end\n", nodes.size(),
                                  nodes.size() == 1 ? "" : "s", total_us);
  if (!nodes.empty()) text += "    start us  duration us    node  name\n";
  for (const NodeTiming& node : nodes) {
    text += text::format("{:12.3f} {:12.3f} {:>7}  {}", node.start_us, node.duration_us, node_number(node), node.name);
    if (!node.annotation.empty()) text += text::format("  [{}]", inspect::annotation_text(node.annotation));
    if (node.runs > 1) text += text::format("  {} runs", node.runs);
    text += '\n';
  }
  if (!annotations.empty()) text += "    start us      span us       sum us   nodes  annotation\n";
  for (const AnnotationTiming& sum : annotations)
    text += text::format("{:12.3f} {:12.3f} {:12.3f} {:>7}  {}\n", sum.start_us, sum.span_us, sum.duration_us,
                         sum.nodes, inspect::annotation_text(sum.annotation));
  for (const std::string& note : notes) text += text::format("note: {}\n", note);
  return text;
}

}  // namespace reprise
