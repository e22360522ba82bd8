// SPDX-License-Identifier: Apache-2.0
#include "reprise/capture_report.h"

#include "graph/graph_names.h"
#include "inspect/annotations/annotation_text.h"
#include "text/format.h"

// The text of a capture report.

namespace reprise {
namespace {

std::string stream_text(StreamHandle stream) {
  return stream == nullptr ? std::string("the legacy default stream")
                           : text::format("stream {}", static_cast<const void*>(stream));
}

std::string count_text(std::size_t count, const char* what) {
  return text::format("{} {}{}", count, what, count == 1 ? "" : "s");
}

std::string headline(const CaptureReport& report) {
  std::string text = "The capture of ";
  if (!report.graph.empty()) text += graphs::graph_text(report.graph) + " on ";
  text += stream_text(report.stream);
  if (!report.device.empty()) text += " of " + report.device;
  if (!report.mode.empty()) text += text::format(" (mode {})", report.mode);
  const std::string nodes = report.nodes ? " after " + count_text(*report.nodes, "node") : std::string();
  if (report.code == ErrorCode::success) {
    if (report.broken_by) return text + " was broken" + nodes + ", and abandoned.";
    return text + " ended" + nodes + ".";
  }
  text += report.broken_by && report.code == ErrorCode::stream_capture_invalidated ? " was broken" + nodes
                                                                                   : " failed" + nodes;
  text += text::format(" and ended with {} ({})", result_name(report.code), static_cast<int>(report.code));
  return text + (report.broken_by ? "." : "; the call that broke it is not known.");
}

void add_line(std::string& out, const char* what, const std::string& text) {
  if (!text.empty()) out += text::format("  {:<8} {}\n", what, text);
}

std::string outcome(const CaptureReport::Call& call) {
  std::string text = call.name;
  if (!call.driver_name.empty() && call.driver_name != call.name) text += text::format(" ({})", call.driver_name);
  if (call.result != ErrorCode::success)
    text += text::format(" returned {} ({})", result_name(call.result), static_cast<int>(call.result));
  return call.times == 1 ? text : text::format("{}, {} times", text, call.times);
}

void add_stack(std::string& out, const std::vector<std::string>& stack) {
  const char* what = "stack";
  for (const std::string& frame : stack) {
    add_line(out, what, frame);
    what = "";
  }
}

void add_host_access(std::string& out, const CaptureReport::HostAccess& access) {
  out += text::format("Each replay {} pageable memory of the host, which must exist then: {} bytes at {}\n",
                      access.writes ? "writes" : "reads", access.bytes, access.address);
  add_line(out, "copy", access.node);
  add_stack(out, access.stack);
}

void add_call(std::string& out, const CaptureReport& report, const CaptureReport::Call& call) {
  add_line(out, "call", outcome(call));
  add_line(out, "rule", call.rule);
  add_line(out, "instead", call.advice);
  std::string thread = call.thread != 0 ? std::to_string(call.thread) : std::string();
  if (!call.capturing_thread)
    thread = text::format("{}, not the one that captures{}", thread.empty() ? "another one" : thread,
                          report.thread != 0 ? text::format(" ({})", report.thread) : "");
  add_line(out, "thread", thread);
  if (call.stream) add_line(out, "stream", stream_text(*call.stream));
  add_stack(out, call.stack);
}

}  // namespace

std::string CaptureReport::str() const {
  std::string text = headline(*this) + "\n";
  add_line(text, "within", inspect::annotation_text(annotation));
  add_line(text, "operator", text::join(operators, ", "));
  if (broken_by) add_call(text, *this, *broken_by);
  for (const Call& call : refused) {
    text += "A call failed without breaking the capture; its work is missing in the graph:\n";
    add_call(text, *this, call);
  }
  for (const Call& call : not_captured) {
    text += "Work was executed at once and is missing in the graph:\n";
    add_call(text, *this, call);
  }
  for (const HostAccess& access : host_accesses) add_host_access(text, access);
  for (const std::string& note : notes) add_line(text, "note", note);
  return text;
}

}  // namespace reprise
