// SPDX-License-Identifier: Apache-2.0
#include "graph/active_capture.h"

#include <string>
#include <vector>

#include "backend/check.h"
#include "backend/rules/call_stack.h"
#include "backend/rules/reported_call.h"
#include "text/format.h"

namespace reprise::graphs {

using backend::Backend;
using backend::Call;
using backend::Checked;

namespace {

// For runtimes that know no more than the code.
const char* advice(Result result, CaptureErrorMode mode) {
  switch (result) {
    case Result::stream_capture_unjoined:
      return "before the end, let the captured stream wait for an event recorded on each stream that was forked off";
    case Result::stream_capture_invalidated:
      return mode == CaptureErrorMode::global ? "in this mode calls of other threads can break a capture, too; "
                                                "CaptureErrorMode::thread_local_ leaves them alone"
                                              : "a call of this thread, or on one of the captured streams, broke it";
    default:
      return "";
  }
}

// Of a capture whose end failed: which call that was, if nothing had broken it before.
void complete(CaptureReport& report, const std::string& detail) {
  if (report.broken_by) return;
  if (report.code == Result::stream_capture_invalidated) {
    report.notes.emplace_back(
        "The call that broke the capture was not made by this library, and the driver did not report it. "
        "GraphOptions::report = ReportDetail::full finds it, and so does `reprise explain -- PROGRAM`.");
    return;
  }
  constexpr Call end = Call::stream_end_capture;
  const backend::CaptureRule* const rule = backend::rule_met(backend::class_of(end), report.code, true);
  CaptureReport::Call call;
  call.name = backend::cuda_name(end);
  call.result = report.code;
  call.rule = rule != nullptr ? rule->sentence : detail.empty() ? result_description(report.code) : detail;
  call.advice = rule != nullptr ? rule->advice : "";
  call.thread = backend::thread_number();
  call.capturing_thread = call.thread == report.thread;
  call.stream = report.stream;
  call.stack = backend::call_stack();
  report.broken_by = std::move(call);
}

}  // namespace

ActiveCapture::ActiveCapture(const CaptureContext& context, std::span<CaptureListener* const> listeners)
    : registered_(context.stream, context.mode, context.pool),
      context_(context),
      listeners_(listeners),
      thread_number_(backend::thread_number()) {
  context_.capture = &registered_.capture();
  try {
    begin();
  } catch (...) {
    unwind();
    throw;
  }
}

ActiveCapture::~ActiveCapture() {
  unwind();
}

void ActiveCapture::begin() {
  const Checked runtime(context_.device.backend());
  for (CaptureListener* const listener : listeners_) {
    listener->begin(context_);
    ++listeners_begun_;
  }
  const StreamHandle stream = context_.stream.native();
  runtime.stream_begin_capture(stream, context_.mode);
  capturing_ = true;
  backend::CaptureInfo info;
  runtime.stream_capture_info(stream, &info);
  context_.capture_id = info.id;
  registered_.capture().add_id(info.id);
  for (CaptureListener* const listener : listeners_) listener->started(context_);
}

GraphHandle ActiveCapture::end() {
  const GraphHandle template_graph = end_runtime_capture();
  try {
    if (!context_.options.allow_empty) refuse_empty(template_graph);
    for (CaptureListener* const listener : listeners_) listener->ended(context_, template_graph);
  } catch (...) {
    backend::WarnOnError(context_.device.backend()).graph_destroy(template_graph);
    throw;
  }
  return template_graph;
}

CaptureReport ActiveCapture::describe() const {
  CaptureReport report;
  report.device = context_.device.str();
  report.mode = backend::capture_mode_name(context_.mode);
  report.stream = context_.stream.native();
  report.thread = thread_number_;
  for (std::size_t i = 0; i < listeners_begun_; ++i) listeners_[i]->describe(report);
  return report;
}

void ActiveCapture::keep(const CaptureReport& report) {
  nodes_ = report.nodes;
  for (std::size_t i = 0; i < listeners_begun_; ++i) listeners_[i]->reported(report);
  const bool tells = report.code != Result::success || report.broken_by || !report.operators.empty() ||
                     !report.refused.empty() || !report.not_captured.empty() ||
                     (report.nodes == 0U && !context_.options.allow_empty);
  if (tells) report_ = report;
}

// When it fails, the runtime's capture is over all the same, nearly always; unwind() sees to the rest.
GraphHandle ActiveCapture::end_runtime_capture() {
  Backend& backend = context_.device.backend();
  CaptureReport report = describe();  // the runtime forgets the capture at its end
  GraphHandle template_graph = nullptr;
  const Result result = backend.stream_end_capture(context_.stream.native(), &template_graph);
  std::string detail = result == Result::success ? std::string() : backend.last_error_detail();
  report.code = result;
  if (result != Result::success) complete(report, detail);
  keep(report);
  if (result == Result::success) {
    capturing_ = false;
    registered_.over();
    return template_graph;
  }
  if (detail.empty()) detail = advice(result, context_.mode);
  throw CaptureError(
      result,
      text::format("The capture (mode `{}`) failed with {} ({}): {}{}{}. Everything that it had acquired was released; "
                   "the graph is empty and can capture again.\n{}",
                   backend::capture_mode_name(context_.mode), result_name(result), static_cast<int>(result),
                   result_description(result), detail.empty() ? "" : "; ", detail, report.str()),
      report);
}

void ActiveCapture::refuse_empty(GraphHandle template_graph) {
  if (nodes_.value_or(0) != 0) return;
  const Checked runtime(context_.device.backend());
  std::vector<GraphNodeHandle> nodes;
  runtime.graph_nodes(template_graph, &nodes);
  if (!nodes.empty()) return;
  CaptureReport report = report_.value_or(CaptureReport{});
  throw CaptureError(
      Result::success,
      "Nothing was captured: no work was submitted to the captured stream. Probably it went to another "
      "stream, and was executed instead; submit it to current_stream() within the capture, or to a stream "
      "that was forked off it. If an empty graph is meant, set GraphOptions::allow_empty. The graph is "
      "empty and can capture again.\n" +
          report.str(),
      report);
}

void ActiveCapture::unwind() noexcept {
  if (capturing_) {
    try {
      if (!report_) keep(describe());
    } catch (...) {
      warn("There was no memory for the report of a capture that was abandoned.");
    }
    drop_runtime_capture();
  }
  capturing_ = false;
  registered_.over();
  while (listeners_begun_ > 0) listeners_[--listeners_begun_]->abandoned();
}

// A broken capture, one of another thread, or one already ended by a raw driver call is over after the first try,
// without a graph: then the code does not matter. A capture still underway would make the stream unusable.
void ActiveCapture::drop_runtime_capture() noexcept {
  Backend& backend = context_.device.backend();
  const StreamHandle stream = context_.stream.native();
  const backend::RelaxedCaptureMode relaxed(backend);
  Result ended = Result::success;
  for (const bool again : {false, true}) {
    CaptureStatus status = CaptureStatus::none;
    const bool known = backend.stream_is_capturing(stream, &status) == Result::success;
    if (known ? status == CaptureStatus::none : again) return;
    if (again) backend::warn_on_error(backend, Call::stream_end_capture, ended);
    GraphHandle template_graph = nullptr;
    ended = backend.stream_end_capture(stream, &template_graph);
    if (template_graph != nullptr) backend::WarnOnError(backend).graph_destroy(template_graph);
    if (ended == Result::success) return;
  }
}

}  // namespace reprise::graphs
