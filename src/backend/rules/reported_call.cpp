// SPDX-License-Identifier: Apache-2.0
#include "backend/rules/reported_call.h"

#include <utility>

#include "backend/rules/call_stack.h"

namespace reprise::backend {

CaptureReport::Call reported_call(std::string name, Result result, const CaptureRule* rule) {
  CaptureReport::Call call;
  call.name = std::move(name);
  call.result = result;
  call.thread = thread_number();
  explain(call, rule);
  return call;
}

void explain(CaptureReport::Call& call, const CaptureRule* rule) {
  call.rule = rule != nullptr ? rule->sentence : result_description(call.result);
  call.advice = rule != nullptr ? rule->advice : "";
}

namespace {

void add_stack(std::vector<CaptureReport::Call>& calls, std::uint64_t thread, const std::vector<std::string>& stack) {
  const std::vector<CaptureReport::Call> before = std::exchange(calls, {});
  for (CaptureReport::Call call : before) {
    if (call.thread == thread && call.stack.empty()) call.stack = stack;
    add_call(calls, std::move(call));  // equal calls are counted
  }
}

}  // namespace

void add_stack(CaptureReport& report, const std::vector<std::string>& stack) {
  const std::uint64_t thread = thread_number();
  if (report.broken_by && report.broken_by->thread == thread && report.broken_by->stack.empty())
    report.broken_by->stack = stack;
  add_stack(report.refused, thread, stack);
  add_stack(report.not_captured, thread, stack);
}

const char* capture_mode_name(CaptureErrorMode mode) noexcept {
  switch (mode) {
    case CaptureErrorMode::global:
      return "global";
    case CaptureErrorMode::thread_local_:
      return "thread_local";
    case CaptureErrorMode::relaxed:
      return "relaxed";
  }
  return "unknown";
}

bool is_about_captures(Result result) noexcept {
  return result == Result::illegal_state ||
         (result >= Result::stream_capture_unsupported && result <= Result::stream_capture_wrong_thread);
}

void explain_not_captured(CaptureReport::Call& call, bool legacy_stream) {
  call.rule =
      legacy_stream
          ? "while a non-blocking stream captures, work on the legacy default stream is executed at once and is "
            "not captured"
          : "the stream does not take part in the capture, so the work is executed at once and is not captured";
  call.advice = legacy_stream
                    ? "submit it to the captured stream; capture on a blocking stream to have it refused"
                    : "submit it to the captured stream, or let this stream wait for an event that was recorded "
                      "in the capture";
}

void add_call(std::vector<CaptureReport::Call>& calls, CaptureReport::Call call) {
  constexpr std::size_t most = 32;
  for (CaptureReport::Call& other : calls)
    if (other.name == call.name && other.result == call.result && other.stream == call.stream &&
        other.thread == call.thread && other.stack == call.stack) {
      other.times += call.times;
      return;
    }
  if (calls.size() < most) calls.push_back(std::move(call));
}

}  // namespace reprise::backend
