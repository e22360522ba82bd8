// SPDX-License-Identifier: Apache-2.0
#include "backend/cuda/monitor/call_traits.h"

#include <algorithm>
#include <span>
#include <string_view>

#include "backend/rules/cuda_calls.h"
#include "backend/rules/reported_call.h"

namespace reprise::backend::cuda {
namespace {

bool begins_with_one_of(std::string_view name, std::span<const std::string_view> beginnings) noexcept {
  return std::ranges::any_of(beginnings, [&](std::string_view each) { return name.starts_with(each); });
}

}  // namespace

const CaptureRule* rule_of_failure(const char* driver_name, ErrorCode result, bool on_capture) noexcept {
  const auto call_class = class_of(std::string_view(driver_name));
  const auto has_this_code = [&](const CaptureRule& rule) { return rule.result == result; };
  // Other codes are not related to captures: for example an invalid argument.
  const bool is_of_captures =
      is_about_captures(result) || (call_class && std::ranges::any_of(rules_of(*call_class), has_this_code));
  return is_of_captures ? rule_met(call_class, result, on_capture) : nullptr;
}

bool runtime_does_work(const char* name) noexcept {
  static constexpr std::string_view beginnings[] = {
      "cudaMemcpy",    "cudaMemset",      "cudaLaunch",      "cudaMallocAsync",      "cudaMallocFromPoolAsync",
      "cudaFreeAsync", "cudaGraphLaunch", "cudaMemPrefetch", "cudaStreamAddCallback"};
  return begins_with_one_of(name, beginnings);
}

bool runtime_returns_result(const char* name) noexcept {
  static constexpr std::string_view beginnings[] = {
      "cudaGetLastError",      "cudaPeekAtLastError",      "cudaGetError",
      "cudaStreamIsCapturing", "cudaStreamGetCaptureInfo", "cudaCreateChannelDesc"};
  return !begins_with_one_of(name, beginnings);
}

}  // namespace reprise::backend::cuda
