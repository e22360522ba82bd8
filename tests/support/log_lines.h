// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "reprise/log.h"

namespace reprise::test {

/// Collects what is logged up to a level, as "warning: TEXT" and "info: TEXT". Read only while no thread can log.
class LogLines {
 public:
  explicit LogLines(LogLevel level)
      : level_(set_log_level(level)), sink_(set_log_sink([this](LogLevel of_line, std::string_view text) {
          lines_.push_back((of_line == LogLevel::info ? "info: " : "warning: ") + std::string(text));
        })) {}
  ~LogLines() {
    set_log_sink(std::move(sink_));
    set_log_level(level_);
  }
  LogLines(const LogLines&) = delete;
  LogLines& operator=(const LogLines&) = delete;

  const std::vector<std::string>& all() const { return lines_; }

 private:
  std::vector<std::string> lines_;
  const LogLevel level_;
  LogSink sink_;
};

}  // namespace reprise::test
