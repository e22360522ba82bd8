// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "reprise/error.h"

namespace reprise::test {

/// Collects the warnings of the library. Read only while no thread can warn.
class Warnings {
 public:
  Warnings() : previous_(set_log_sink([this](std::string_view text) { texts_.emplace_back(text); })) {}
  ~Warnings() { set_log_sink(std::move(previous_)); }
  Warnings(const Warnings&) = delete;
  Warnings& operator=(const Warnings&) = delete;

  const std::vector<std::string>& texts() const { return texts_; }

 private:
  std::vector<std::string> texts_;
  LogSink previous_;
};

}  // namespace reprise::test
