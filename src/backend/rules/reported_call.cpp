// SPDX-License-Identifier: Apache-2.0
#include "backend/rules/reported_call.h"

#include <algorithm>
#include <utility>

#include "backend/rules/call_stack.h"
#include "text/format.h"

namespace reprise::backend {

CaptureFindings::ObservedCall reported_call(std::string name, ErrorCode result, const CaptureRule* rule) {
  CaptureFindings::ObservedCall call;
  call.name = std::move(name);
  call.result = result;
  call.thread = thread_number();
  call.rule = rule;
  return call;
}

std::string broken_by_text(const CaptureFindings::ObservedCall& call) {
  std::string by;
  if (!call.capturing_thread)
    by = call.thread != 0 ? text::format(" on thread {}, not the one that captures,", call.thread)
                          : " on another thread than the one that captures";
  return text::format("the call that broke the capture: {}{} returned {} ({}): {}", call.name, by,
                      static_cast<int>(call.result), result_name(call.result), rule_text(call));
}

std::string rule_text(const CaptureFindings::ObservedCall& call) {
  if (call.rule != nullptr) return call.rule->sentence;
  return call.detail.empty() ? result_description(call.result) : call.detail;
}

namespace {

void add_stack(std::vector<CaptureFindings::ObservedCall>& calls, std::uint64_t thread,
               const std::vector<std::string>& stack) {
  const std::vector<CaptureFindings::ObservedCall> before = std::exchange(calls, {});
  for (CaptureFindings::ObservedCall call : before) {
    if (call.thread == thread && call.stack.empty()) call.stack = stack;
    add_call(calls, std::move(call));  // equal calls are counted
  }
}

}  // namespace

bool lacks_stack(const CaptureFindings& findings) {
  const auto lacks_it = [](const CaptureFindings::ObservedCall& call) {
    return call.stack.empty() && call.thread == thread_number();
  };
  return (findings.broken_by && lacks_it(*findings.broken_by)) || std::ranges::any_of(findings.refused, lacks_it) ||
         std::ranges::any_of(findings.not_captured, lacks_it);
}

void add_stack(CaptureFindings& findings, const std::vector<std::string>& stack) {
  const std::uint64_t thread = thread_number();
  if (findings.broken_by && findings.broken_by->thread == thread && findings.broken_by->stack.empty())
    findings.broken_by->stack = stack;
  add_stack(findings.refused, thread, stack);
  add_stack(findings.not_captured, thread, stack);
}

const char* capture_mode_name(CaptureMode mode) noexcept {
  switch (mode) {
    case CaptureMode::global:
      return "global";
    case CaptureMode::thread:
      return "thread";
    case CaptureMode::relaxed:
      return "relaxed";
  }
  return "unknown";
}

bool is_about_captures(ErrorCode result) noexcept {
  return result == ErrorCode::illegal_state ||
         (result >= ErrorCode::stream_capture_unsupported && result <= ErrorCode::stream_capture_wrong_thread);
}

void add_call(std::vector<CaptureFindings::ObservedCall>& calls, CaptureFindings::ObservedCall call) {
  constexpr std::size_t most = 32;
  for (CaptureFindings::ObservedCall& other : calls)
    if (other.name == call.name && other.result == call.result && other.stream == call.stream &&
        other.thread == call.thread && other.stack == call.stack) {
      other.times += call.times;
      return;
    }
  if (calls.size() < most) calls.push_back(std::move(call));
}

}  // namespace reprise::backend
