// SPDX-License-Identifier: Apache-2.0
#include "backend/cuda/call_words.h"

#include <algorithm>
#include <array>
#include <string_view>

#include "backend/capture_rules.h"
#include "backend/reported_call.h"

namespace reprise::backend::cuda {
namespace {

// Calls that this library does not make, and that have a rule of their own on a stream that captures. By the beginning
// of the driver's name.
struct OwnRule {
  std::string_view name;
  const char* sentence;
  const char* advice;
};
constexpr std::array own_rules = {
    OwnRule{"cuMemcpyBatchAsync", "a batch of copies cannot be captured",
            "make the copies one by one, or by one kernel (reprise::copy_batch_async)"},
    OwnRule{"cuMemcpy3DBatchAsync", "a batch of copies cannot be captured", "make the copies one by one"},
    OwnRule{"cuStreamAddCallback", "a stream callback cannot be captured",
            "give the stream a host function, which becomes a node (cudaLaunchHostFunc)"},
};

template <std::size_t Count>
bool begins_with_one_of(std::string_view name, const std::array<std::string_view, Count>& beginnings) {
  return std::any_of(beginnings.begin(), beginnings.end(),
                     [&](std::string_view beginning) { return name.starts_with(beginning); });
}

}  // namespace

void explain_failure(CaptureReport::Call& call, const char* driver_name, bool is_work, bool on_capture) {
  const std::string_view name = driver_name;
  if (call.result == Result::stream_capture_unsupported && on_capture)
    for (const OwnRule& rule : own_rules)
      if (name.starts_with(rule.name)) {
        call.rule = rule.sentence;
        call.advice = rule.advice;
        return;
      }
  auto call_class = class_of(name);
  if (!call_class && is_work) call_class = CallClass::stream_work;
  explain(call, rule_met(call_class, call.result, on_capture));
}

bool runtime_does_work(const char* name) noexcept {
  static constexpr std::array<std::string_view, 9> beginnings = {
      "cudaMemcpy",    "cudaMemset",      "cudaLaunch",      "cudaMallocAsync",      "cudaMallocFromPoolAsync",
      "cudaFreeAsync", "cudaGraphLaunch", "cudaMemPrefetch", "cudaStreamAddCallback"};
  return begins_with_one_of(name, beginnings);
}

bool runtime_returns_result(const char* name) noexcept {
  static constexpr std::array<std::string_view, 6> beginnings = {
      "cudaGetLastError",      "cudaPeekAtLastError",      "cudaGetError",
      "cudaStreamIsCapturing", "cudaStreamGetCaptureInfo", "cudaCreateChannelDesc"};
  return !begins_with_one_of(name, beginnings);
}

}  // namespace reprise::backend::cuda
