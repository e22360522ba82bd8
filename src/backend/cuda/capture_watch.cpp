// SPDX-License-Identifier: Apache-2.0
#include "backend/cuda/capture_watch.h"

#include <algorithm>
#include <string_view>
#include <utility>

#include "backend/cuda/error_log.h"
#include "backend/cuda/log_text.h"
#include "backend/rules/call_stack.h"
#include "backend/rules/cuda_calls.h"
#include "backend/rules/reported_call.h"
#include "text/format.h"

namespace reprise::backend::cuda {
namespace {

std::optional<CUstreamCaptureStatus> status_of(const DriverApi& driver, CUstream stream) {
  CUstreamCaptureStatus status = CU_STREAM_CAPTURE_STATUS_NONE;
  if (driver.cuStreamIsCapturing(stream, &status) != CUDA_SUCCESS) return std::nullopt;
  return status;
}

// True if a call that returned this code may have broken a capture. Batches of copies are refused and break nothing.
bool can_break(std::string_view name, int code) {
  const auto call_class = class_of(name);
  if (!call_class) return is_about_captures(static_cast<ErrorCode>(code));
  return std::ranges::any_of(rules_of(*call_class),
                             [](const CaptureRule& rule) { return rule.effect != CaptureEffect::none; });
}

// The driver keeps the graph until the capture is ended, also when it is broken (seen with driver 580).
std::optional<std::size_t> count_nodes(const DriverApi& driver, CUgraph graph) {
  std::size_t count = 0;
  if (graph == nullptr || driver.cuGraphGetNodes(graph, nullptr, &count) != CUDA_SUCCESS) return std::nullopt;
  return count;
}

CaptureFindings::ObservedCall call_of(const LoggedFailure& failure, bool capturing_thread) {
  CaptureFindings::ObservedCall call;
  call.name = failure.function;
  call.result = static_cast<ErrorCode>(failure.code);
  call.capturing_thread = capturing_thread;
  call.rule = rule_met(class_of(call.name), call.result, capturing_thread);
  return call;
}

}  // namespace

bool takes_part(const DriverApi& driver, CUstream stream) {
  if (stream == nullptr) return false;
  return status_of(driver, stream).value_or(CU_STREAM_CAPTURE_STATUS_NONE) != CU_STREAM_CAPTURE_STATUS_NONE;
}

void CaptureWatch::began(const DriverApi& driver, CUstream stream) {
  Entry entry{stream, nullptr, thread_number(), pthread_self(), log_position(driver), {}, {}};
  CUstreamCaptureStatus status = CU_STREAM_CAPTURE_STATUS_NONE;
  cuuint64_t id = 0;
  const CUgraphNode* dependencies = nullptr;
  const CUgraphEdgeData* edges = nullptr;
  std::size_t count = 0;
  if (driver.cuStreamGetCaptureInfo(stream, &status, &id, &entry.graph, &dependencies, &edges, &count) != CUDA_SUCCESS)
    entry.graph = nullptr;
  const std::scoped_lock lock(mutex_);
  std::erase_if(entries_, [&](const Entry& old) { return old.is_of(stream); });
  entries_.push_back(std::move(entry));
  underway_.store(static_cast<int>(entries_.size()), std::memory_order_relaxed);
}

void CaptureWatch::ended(CUstream stream) {
  if (underway_.load(std::memory_order_relaxed) == 0) return;
  const std::scoped_lock lock(mutex_);
  std::erase_if(entries_, [&](const Entry& entry) { return entry.is_of(stream); });
  underway_.store(static_cast<int>(entries_.size()), std::memory_order_relaxed);
}

void CaptureWatch::note_failure(const DriverApi& driver, const CallSite& site, CUresult result) {
  if (result == CUDA_ERROR_NOT_READY || result == CUDA_ERROR_STREAM_CAPTURE_INVALIDATED) return;
  if (!blame(driver, site, static_cast<ErrorCode>(result))) return;
  const std::vector<std::string> stack = call_stack();
  const std::scoped_lock lock(mutex_);
  for (Entry& entry : entries_)
    if (entry.broken_by && entry.broken_by->stack.empty() && entry.broken_by->thread == thread_number())
      entry.broken_by->stack = stack;
}

bool CaptureWatch::blame(const DriverApi& driver, const CallSite& site, ErrorCode code) {
  bool blamed = false;
  const std::scoped_lock lock(mutex_);
  for (Entry& entry : entries_) {
    if (entry.broken_by || !entry.can_be_queried() ||
        status_of(driver, entry.stream) != CU_STREAM_CAPTURE_STATUS_INVALIDATED)
      continue;
    const bool on_capture = site.has_stream && takes_part(driver, site.stream);
    CaptureFindings::ObservedCall call =
        reported_call(cuda_name(site.call), code, rule_met(class_of(site.call), code, on_capture));
    call.capturing_thread = call.thread == entry.thread;
    if (site.has_stream) call.stream = site.stream;
    entry.nodes = count_nodes(driver, entry.graph);
    entry.broken_by = std::move(call);
    blamed = true;
  }
  return blamed;
}

std::string CaptureWatch::first_error(const DriverApi& driver, CUstream stream) const {
  const CaptureFindings known = describe(driver, stream);
  return known.broken_by ? broken_by_text(*known.broken_by) : std::string();
}

CaptureFindings CaptureWatch::describe(const DriverApi& driver, CUstream stream) const {
  CaptureFindings findings;
  const std::scoped_lock lock(mutex_);
  const auto entry =
      std::find_if(entries_.begin(), entries_.end(), [&](const Entry& one) { return one.is_of(stream); });
  if (entry == entries_.end()) return findings;
  const auto status = status_of(driver, stream);
  // The capture was ended by a raw driver call: its graph may be gone.
  if (!status || *status == CU_STREAM_CAPTURE_STATUS_NONE) return findings;
  findings.thread = entry->thread;
  findings.nodes = entry->nodes ? entry->nodes : count_nodes(driver, entry->graph);
  findings.broken_by = entry->broken_by;
  if (findings.broken_by || *status != CU_STREAM_CAPTURE_STATUS_INVALIDATED) return findings;
  if (const auto failure = first_capture_failure(log_since(driver, entry->log_position), &can_break)) {
    findings.broken_by = call_of(*failure, failure->thread == log_name(entry->thread_in_log));
    findings.notes.emplace_back(
        "The call was not made by this library. The driver's error log names it, but not the capture that it broke, so "
        "another call may have been first. GraphOptions::report = ReportDetail::full is certain, and has the stack.");
  }
  return findings;
}

}  // namespace reprise::backend::cuda
