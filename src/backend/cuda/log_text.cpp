// SPDX-License-Identifier: Apache-2.0
#include "backend/cuda/log_text.h"

#include <fmt/format.h>

#include <optional>

namespace reprise::backend::cuda {
namespace {

/// Takes "[text]" off the front of `rest`; nothing if it does not start so.
std::optional<std::string_view> take_bracketed(std::string_view& rest) {
  const std::size_t end = rest.find(']');
  if (rest.empty() || rest.front() != '[' || end == std::string_view::npos) return std::nullopt;
  const std::string_view inside = rest.substr(1, end - 1);
  rest.remove_prefix(end + 1);
  return inside;
}

std::string message_of(std::string_view line, std::string_view thread_id) {
  const auto time = take_bracketed(line);
  const auto thread = take_bracketed(line);
  const auto source = take_bracketed(line);
  const auto severity = take_bracketed(line);
  if (!time || !source || thread != thread_id || severity != "E") return {};
  const auto function = take_bracketed(line);
  while (!line.empty() && line.front() == ' ') line.remove_prefix(1);
  if (line.empty() || line.starts_with("Returning ")) return {};
  return function ? fmt::format("{}: {}", *function, line) : std::string(line);
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

}  // namespace reprise::backend::cuda
