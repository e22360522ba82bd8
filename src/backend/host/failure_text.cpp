// SPDX-License-Identifier: Apache-2.0
#include "backend/host/failure_text.h"

#include <algorithm>
#include <climits>
#include <iterator>
#include <utility>

#include "reprise/error.h"
#include "support/environment.h"
#include "text/format.h"

namespace reprise::backend::host {
namespace {

using Named = std::pair<std::string_view, ErrorCode>;

constexpr Named code_names[] = {
    {"invalid_value", ErrorCode::invalid_value},
    {"out_of_memory", ErrorCode::out_of_memory},
    {"not_initialized", ErrorCode::not_initialized},
    {"invalid_device_function", ErrorCode::invalid_device_function},
    {"no_device", ErrorCode::no_device},
    {"invalid_device", ErrorCode::invalid_device},
    {"operating_system", ErrorCode::operating_system},
    {"invalid_handle", ErrorCode::invalid_handle},
    {"illegal_state", ErrorCode::illegal_state},
    {"not_ready", ErrorCode::not_ready},
    {"illegal_address", ErrorCode::illegal_address},
    {"context_is_destroyed", ErrorCode::context_is_destroyed},
    {"launch_failure", ErrorCode::launch_failure},
    {"cooperative_launch_too_large", ErrorCode::cooperative_launch_too_large},
    {"not_permitted", ErrorCode::not_permitted},
    {"not_supported", ErrorCode::not_supported},
    {"stream_capture_unsupported", ErrorCode::stream_capture_unsupported},
    {"stream_capture_invalidated", ErrorCode::stream_capture_invalidated},
    {"stream_capture_merge", ErrorCode::stream_capture_merge},
    {"stream_capture_unmatched", ErrorCode::stream_capture_unmatched},
    {"stream_capture_unjoined", ErrorCode::stream_capture_unjoined},
    {"stream_capture_isolation", ErrorCode::stream_capture_isolation},
    {"stream_capture_implicit", ErrorCode::stream_capture_implicit},
    {"captured_event", ErrorCode::captured_event},
    {"stream_capture_wrong_thread", ErrorCode::stream_capture_wrong_thread},
    {"graph_exec_update_failure", ErrorCode::graph_exec_update_failure},
    {"unknown", ErrorCode::unknown},
};

constexpr std::pair<std::string_view, Call> call_names[] = {
#define REPRISE_CALL(name, cuda, parameters, arguments) {#name, Call::name}, {cuda, Call::name},
#include "backend/calls.def"
};

}  // namespace

std::optional<Call> find_call(std::string_view name) {
  // In the same form as in reports of other devices.
  for (const std::string_view version : {"_v2", "_v3", "_v4"})
    if (name.ends_with(version)) name.remove_suffix(version.size());
  const auto* const found = std::find_if(std::begin(call_names), std::end(call_names),
                                         [&](const auto& entry) { return entry.first == name; });
  return found == std::end(call_names) ? std::nullopt : std::optional(found->second);
}

namespace {

std::optional<ErrorCode> find_code(std::string_view text) {
  for (const auto& [name, code] : code_names)
    if (text == name || text == result_name(code)) return code;
  const auto number = support::whole_number(text);
  if (number && *number > 0 && *number <= INT_MAX) return static_cast<ErrorCode>(*number);
  return std::nullopt;
}

// Removes and returns the part of `text` before `separator`, which is removed, too.
std::string_view cut(std::string_view& text, char separator) {
  const std::size_t at = text.find(separator);
  const std::string_view part = text.substr(0, at);
  text = at == std::string_view::npos ? std::string_view() : text.substr(at + 1);
  return part;
}

FailurePlan::Failure parse_failure(std::string_view text) {
  const auto refuse = [whole = text](std::string_view what, std::string_view found) {
    throw UsageError(
        text::format("the environment variable REPRISE_HOST_FAIL: expected call[:nth[:code]] with {}; found \"{}\" in "
                     "\"{}\"; for example cuGraphInstantiateWithParams:2:out_of_memory",
                     what, found, whole));
  };
  const char* const whole_end = text.data() + text.size();
  FailurePlan::Failure failure;
  const std::string_view call = cut(text, ':');
  failure.call = find_call(call);
  if (!failure.call) refuse("a call of the runtime, such as cuMemAlloc or memory_allocate", call);
  if (text.empty()) return failure;
  const std::string_view nth = cut(text, ':');
  const auto number = support::whole_number(nth);
  if (!number || *number == 0) refuse("a whole number from 1", nth);
  failure.nth = *number;
  if (nth.data() + nth.size() == whole_end) return failure;
  const auto code = find_code(text);
  if (!code) refuse("a code that is a name of reprise::ErrorCode, CUDA's name of it, or a number from 1", text);
  failure.code = *code;
  return failure;
}

}  // namespace

std::vector<FailurePlan::Failure> failures_from_environment() {
  std::vector<FailurePlan::Failure> failures;
  std::string_view text = support::environment("REPRISE_HOST_FAIL");
  while (!text.empty()) failures.push_back(parse_failure(cut(text, ',')));
  return failures;
}

}  // namespace reprise::backend::host
