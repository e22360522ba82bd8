// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <memory>
#include <mutex>
#include <utility>
#include <vector>

#include "captures/capture.h"

namespace reprise::graphs {

/// The functions that launch_host() made nodes of, and the values of copy_value_async(), for the graph of one capture.
/// Thread-safe.
class HostFunctions {
 public:
  /// Returns the host functions of a capture, made at first use; null if it is over.
  static std::shared_ptr<HostFunctions> of(captures::Capture& capture);
  /// Takes them out of an ended capture; null if there are none.
  static std::shared_ptr<HostFunctions> take(captures::Capture& capture) noexcept;

  void keep(std::shared_ptr<void> function) {
    const std::lock_guard lock(mutex_);
    functions_.push_back(std::move(function));
  }

 private:
  std::mutex mutex_;
  std::vector<std::shared_ptr<void>> functions_;
};

}  // namespace reprise::graphs
