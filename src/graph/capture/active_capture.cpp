// SPDX-License-Identifier: Apache-2.0
#include "graph/capture/active_capture.h"

#include <algorithm>
#include <iterator>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

#include "backend/check.h"
#include "backend/monitor.h"
#include "backend/objects/stream_handles.h"
#include "backend/rules/reported_call.h"
#include "text/format.h"

namespace reprise::graphs {

using backend::Backend;
using backend::Checked;

namespace {

constinit captures::Slot<ActiveCapture> active_capture_of;

// For a capture of nothing: CUDA's own calls know no host device.
std::string about_host_device(const Device& device) {
  if (device.type() != DeviceType::host) return {};
  const bool has_cuda =
      std::ranges::any_of(devices(), [](const Device& each) { return each.type() == DeviceType::cuda; });
  return text::format(
      "The stream is one of {}, a simulated device, which is current {}: kernels launched by `<<<>>>` "
      "and work of CUDA's libraries cannot go there{}. ",
      device.str(), has_cuda ? "although there is a CUDA device" : "since no CUDA device was found",
      has_cuda ? "; make the CUDA device current (DeviceGuard, REPRISE_DEVICE)" : "");
}

// Why the capture may have been broken by a call that is not this thread's.
std::string about_other_threads(CaptureMode mode) {
  if (mode == CaptureMode::global)
    return "in this mode calls of other threads can break a capture, too; CaptureMode::thread leaves those alone that "
           "do not wait "
           "for the whole device";
  return "a call of another thread breaks a capture in this mode if it waits for the whole device, as "
         "cudaDeviceSynchronize() does, and cublasCreate() or another first use of a library; or if it uses the legacy "
         "default stream while a blocking stream captures. Make it before the capture";
}

}  // namespace

bool shows_a_fault(const CaptureReport& report) noexcept {
  return report.code != ErrorCode::success || report.broken_by || !report.operators.empty() ||
         !report.refused.empty() || !report.not_captured.empty();
}

ActiveCapture::ActiveCapture(const StreamRef& stream, const GraphOptions& options, MempoolId pool,
                             std::span<CaptureListener* const> listeners)
    : registered_(stream, options, pool), listeners_(listeners) {}

void require_no_capture(const char* call, const StreamRef& stream) {
  if (stream.capture_status() != CaptureStatus::none) refuse_capturing_stream(call);
}

void refuse_capturing_stream(const char* call) {
  throw UsageError(
      text::format("{}: the stream takes part in a capture already. End that one first, or capture on "
                   "another stream.",
                   call));
}

void ActiveCapture::begin(const char* call) {
  captures::Capture& underway = capture();
  for (CaptureListener* const listener : listeners_) {
    listener->begin(underway);
    ++listeners_begun_;
  }
  const Checked runtime(underway.device().backend());
  const StreamHandle stream = underway.stream().native();
  if (!runtime.allowing(ErrorCode::illegal_state).stream_begin_capture(stream, underway.mode()))
    refuse_capturing_stream(call);
  capturing_ = true;
  // Another stream on each thread: on others, the capture is found by its id alone.
  if (backend::is_per_thread_stream(stream)) underway.query_id();
  underway.attach(active_capture_of, std::shared_ptr<ActiveCapture>(std::shared_ptr<void>(), this));
  for (CaptureListener* const listener : listeners_) listener->started(underway);
}

CapturedGraph ActiveCapture::end(const void* frame, NodeChanges* known) {
  end_uses();
  const backend::CaptureFindings findings = observe();  // the runtime forgets the capture at its end
  if (!bodies_.is_complete()) refuse_incomplete(findings);
  CapturedGraph graph{end_runtime_capture(findings)};
  graph.nodes = findings.nodes.value_or(0) + inner_nodes_;
  graph.end_frame = frame;
  graph.known = known;
  graph.may_copy = findings.may_copy;
  const bool empty = findings.nodes.value_or(0) <= own_nodes();
  try {
    if (empty || findings.watched || !findings.is_clean()) keep(describe(findings));
    if (empty && !capture().options().allow_empty) refuse_empty(graph.template_graph);
    for (CaptureListener* const listener : listeners_) listener->ended(capture(), graph);
    add_to_report(findings, graph);
  } catch (...) {
    backend::WarnOnError(capture().device().backend()).graph_destroy(graph.template_graph);
    unwind();  // before the resources go
    throw;
  }
  return graph;
}

std::size_t ActiveCapture::own_nodes() const noexcept {
  std::size_t nodes = 0;
  for (const CaptureListener* const listener : listeners_) nodes += listener->own_nodes();
  return nodes;
}

backend::CaptureFindings ActiveCapture::observe() const {
  capture().capture_ends();
  return capture().device().backend().monitor().describe_capture(capture().stream().native());
}

CaptureReport ActiveCapture::describe(const backend::CaptureFindings& findings) const {
  CaptureReport report;
  for (std::size_t i = 0; i < listeners_begun_; ++i) listeners_[i]->describe(capture(), findings, report);
  return report;
}

CaptureReport ActiveCapture::describe(const backend::CaptureFindings& findings, const CaptureFailure& failure) const {
  CaptureReport report = describe(findings);
  for (std::size_t i = 0; i < listeners_begun_; ++i) listeners_[i]->describe_failure(failure, report);
  return report;
}

void ActiveCapture::keep(const CaptureReport& report) {
  if (shows_a_fault(report) || (report.nodes == 0U && !capture().options().allow_empty)) report_ = report;
}

void ActiveCapture::add_to_report(const backend::CaptureFindings& findings, CapturedGraph& graph) {
  if (graph.notes.empty() && graph.host_accesses.empty()) return;
  if (!report_) report_ = describe(findings);
  report_->host_accesses = std::move(graph.host_accesses);
  std::ranges::move(graph.notes, std::back_inserter(report_->notes));
}

// When it fails, the runtime's capture is usually over even so; unwind() handles the other cases.
GraphHandle ActiveCapture::end_runtime_capture(const backend::CaptureFindings& findings) {
  Backend& runtime = capture().device().backend();
  GraphHandle template_graph = nullptr;
  const backend::Result result = runtime.stream_end_capture(capture().stream().native(), &template_graph);
  if (!result.failed()) {
    capturing_ = false;
    registered_.over();
    return template_graph;
  }
  throw failure(findings, result.code(), backend::detail_of(runtime, result));
}

// Before the runtime's end: unwind() ends the captures of bodies first.
void ActiveCapture::refuse_incomplete(const backend::CaptureFindings& findings) {
  if (capture().stream().capture_status() == CaptureStatus::invalidated)
    throw failure(findings, ErrorCode::stream_capture_invalidated, "");
  keep(describe(findings));
  throw UsageError(
      "A node was added to the capture in part: a call of the library that adds one (add_child, CUDAGraph::replay, "
      "if_, if_else, switch_, while_) threw. Nodes cannot be removed from a capture: capture again.");
}

CaptureError ActiveCapture::failure(const backend::CaptureFindings& findings, ErrorCode result, std::string detail) {
  const CaptureReport report =
      describe(findings,
               {.code = result, .detail = detail, .capturing_thread = capture().owner() == std::this_thread::get_id()});
  keep(report);
  const bool by_other_thread = findings.broken_by ? !findings.broken_by->capturing_thread : detail.empty();
  if (result == ErrorCode::stream_capture_invalidated && by_other_thread)
    detail.append(detail.empty() ? "" : "; ").append(about_other_threads(capture().mode()));
  return CaptureError(
      result,
      text::format("The capture (mode `{}`) failed with {} ({}): {}{}{}. Everything that it had acquired was released; "
                   "the graph can capture again.\n{}",
                   backend::capture_mode_name(capture().mode()), result_name(result), static_cast<int>(result),
                   result_description(result), detail.empty() ? "" : "; ", detail, report.str()),
      report);
}

void ActiveCapture::refuse_empty(GraphHandle template_graph) {
  if (Checked(capture().device().backend()).nodes_of(template_graph).size() > own_nodes()) return;
  CaptureReport report = report_.value_or(CaptureReport{});
  throw EmptyCaptureError(
      text::format("Nothing was captured: no work was submitted to the captured stream. {}If work went to another "
                   "stream, it was executed instead; submit it to current_stream() within the capture, or to a stream "
                   "that was forked off it. If an empty graph is meant, set GraphOptions::allow_empty. The graph can "
                   "capture again.\n{}",
                   about_host_device(capture().device()), report.str()),
      report);
}

void ActiveCapture::unwind() noexcept {
  if (!capturing_ && listeners_begun_ == 0) return;  // committed, or nothing had begun
  end_uses();
  if (capturing_) {
    capture().capture_ends();
    try {
      if (!report_) keep(describe(observe()));
    } catch (...) {
      warn("There was no memory for the report of a capture that was abandoned.");
    }
    bodies_.drop(capture().stream());
  }
  capturing_ = false;
  registered_.over();
  while (listeners_begun_ > 0) listeners_[--listeners_begun_]->abandoned(capture());
}

ActiveCapture::Use::Use(captures::Capture& capture) noexcept
    : lock_(capture.owner_gate()), active_(capture.get(active_capture_of)) {}

void ActiveCapture::end_uses() noexcept {
  const std::lock_guard lock(capture().owner_gate());
  capture().detach(active_capture_of);
}

void ActiveCapture::body_began(const captures::Body& body) {
  for (CaptureListener* const listener : listeners_) listener->body_began(capture(), body);
}

void ActiveCapture::body_ends(const captures::Body& body) {
  for (CaptureListener* const listener : listeners_) listener->body_ends(capture(), body);
}

void ActiveCapture::body_abandoned(const captures::Body& body) noexcept {
  for (CaptureListener* const listener : listeners_) listener->body_abandoned(capture(), body);
}

CaptureError ActiveCapture::body_failure(const char* call, const backend::CaptureFindings& findings, ErrorCode result) {
  const CaptureReport report = describe(findings, {.code = result});
  keep(report);
  return CaptureError(
      result,
      text::format("{}: the capture of its body failed with {} ({}): {}. The whole capture will fail at its end.\n{}",
                   call, result_name(result), static_cast<int>(result), result_description(result), report.str()),
      report);
}

}  // namespace reprise::graphs
