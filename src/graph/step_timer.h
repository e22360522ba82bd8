// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <chrono>
#include <optional>

#include "reprise/log.h"

namespace reprise::graphs {

/// The time since a step of a graph began. Measured only where steps are logged (LogLevel::info); otherwise this is one
/// load of the level.
class StepTimer {
 public:
  StepTimer() noexcept {
    if (log_level() >= LogLevel::info) began_ = Clock::now();
  }

  /// True if the step is logged.
  explicit operator bool() const noexcept { return began_.has_value(); }
  /// The time since the constructor, in milliseconds; only for a step that is logged.
  double ms() const { return std::chrono::duration<double, std::milli>(Clock::now() - *began_).count(); }

 private:
  using Clock = std::chrono::steady_clock;
  std::optional<Clock::time_point> began_;
};

}  // namespace reprise::graphs
