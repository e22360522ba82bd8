// SPDX-License-Identifier: Apache-2.0
#include "backend/cuda/log_text.h"

#include <algorithm>
#include <charconv>
#include <optional>
#include <utility>

#include "text/format.h"

namespace reprise::backend::cuda {
namespace {

/// Removes "[text]" from the front of `rest`; nullopt if there is none.
std::optional<std::string_view> take_bracketed(std::string_view& rest) {
  const std::size_t end = rest.find(']');
  if (rest.empty() || rest.front() != '[' || end == std::string_view::npos) return std::nullopt;
  const std::string_view inside = rest.substr(1, end - 1);
  rest.remove_prefix(end + 1);
  return inside;
}

struct Line {
  std::string_view thread;
  std::optional<std::string_view> function;
  std::string_view text;
};

// A line about an error; nullopt if it has another form.
std::optional<Line> parse(std::string_view line) {
  const auto time = take_bracketed(line);
  const auto thread = take_bracketed(line);
  const auto source = take_bracketed(line);
  const auto severity = take_bracketed(line);
  if (!time || !source || !thread || severity != "E") return std::nullopt;
  const auto function = take_bracketed(line);
  while (!line.empty() && line.front() == ' ') line.remove_prefix(1);
  return Line{*thread, function, line};
}

std::string message_of(std::string_view text, std::string_view thread_id) {
  const auto line = parse(text);
  if (!line || line->thread != thread_id || line->text.empty() || line->text.starts_with("Returning ")) return {};
  return line->function ? text::format("{}: {}", *line->function, line->text) : std::string(line->text);
}

// "Returning 900 (CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED) from cuMemAlloc_v2"
std::optional<LoggedFailure> failure_of(std::string_view text) {
  constexpr std::string_view beginning = "Returning ", before_name = " from ";
  const auto line = parse(text);
  if (!line || !line->text.starts_with(beginning)) return std::nullopt;
  const std::string_view number = line->text.substr(beginning.size());
  LoggedFailure failure;
  if (std::from_chars(number.data(), number.data() + number.size(), failure.code).ec != std::errc())
    return std::nullopt;
  const std::size_t name = number.rfind(before_name);
  if (name == std::string_view::npos) return std::nullopt;
  failure.function = number.substr(name + before_name.size());
  failure.thread = line->thread;
  return failure;
}

}  // namespace

std::string last_message(std::string_view log, std::string_view thread_id) {
  while (!log.empty()) {
    const std::size_t end = log.find_last_not_of('\n');
    if (end == std::string_view::npos) return {};
    const std::size_t before = log.find_last_of('\n', end);
    const std::size_t begin = before == std::string_view::npos ? 0 : before + 1;
    if (std::string message = message_of(log.substr(begin, end + 1 - begin), thread_id); !message.empty())
      return message;
    log = log.substr(0, begin);
  }
  return {};
}

std::optional<LoggedFailure> first_capture_failure(std::string_view log,
                                                   bool (*can_break)(std::string_view name, int code)) {
  constexpr int first_capture_code = 900, invalidated = 901, last_capture_code = 908;
  std::optional<LoggedFailure> before;
  for (std::size_t begin = 0; begin < log.size();) {
    const std::size_t end = std::min(log.find('\n', begin), log.size());
    auto failure = failure_of(log.substr(begin, end - begin));
    begin = end + 1;
    if (!failure || !can_break(failure->function, failure->code)) continue;
    if (failure->code == invalidated) {
      if (before) return before;
    } else if (failure->code >= first_capture_code && failure->code <= last_capture_code) {
      return failure;
    } else {
      before = std::move(failure);
    }
  }
  return std::nullopt;
}

}  // namespace reprise::backend::cuda
