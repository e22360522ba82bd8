// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <string>
#include <string_view>
#include <vector>

#include "backend/rules/reported_call.h"
#include "graph/cuda_graph_impl.h"
#include "reprise/memory.h"
#include "text/format.h"

// The lines of a CUDAGraph in the log, LogLevel::info: "graph 3 `step`: WHAT". A line for which there is no memory is
// left out.

namespace reprise {

namespace {

// Errors add a report in further lines.
std::string_view first_line(std::string_view text) {
  return text.substr(0, text.find('\n'));
}

// Formats the name as it follows the graph's number. Control characters become spaces, so that a log entry stays one
// line.
std::string in_quotes(std::string name) {
  if (name.empty()) return name;
  std::ranges::replace_if(
      name, [](unsigned char each) { return each < 0x20 || each == 0x7F; }, ' ');
  return " `" + name + "`";
}

std::string node_count_text(backend::Backend& backend, GraphHandle template_graph) {
  std::vector<GraphNodeHandle> nodes;
  if (backend.graph_nodes(template_graph, &nodes) != ErrorCode::success) return "an unknown number of nodes";
  return text::format("{} node{}", nodes.size(), nodes.size() == 1 ? "" : "s");
}

}  // namespace

void CUDAGraph::Impl::log_line(std::string_view what, std::string_view detail) const noexcept try {
  if (log_level() < LogLevel::info) return;
  log_message(LogLevel::info, text::format("graph {}{}: {}{}", graph_id, in_quotes(options.name), what, detail));
} catch (...) {
}

void CUDAGraph::Impl::log_capture_ended() const noexcept try {
  if (log_level() < LogLevel::info) return;
  log_line(text::format("capture ended, {}, {} bytes in its pool", node_count_text(backend(), template_graph),
                        CachingAllocator::of(*device).statistics(pool).reserved_bytes));
} catch (...) {
}

void CUDAGraph::Impl::log_capture_left(const char* error) const noexcept try {
  if (log_level() < LogLevel::info) return;
  std::string text = error != nullptr ? text::format("capture failed: {}", first_line(error)) : "capture was abandoned";
  if (last_report && last_report->broken_by && text.find(last_report->broken_by->name) == std::string::npos) {
    const CaptureReport::Call& call = *last_report->broken_by;
    text += error != nullptr ? " It was" : ";";
    text += text::format(" broken by {}, which returned {} ({})", call.name, result_name(call.result),
                         static_cast<int>(call.result));
  }
  log_line(text);
} catch (...) {
}

}  // namespace reprise
