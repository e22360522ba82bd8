// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <memory>
#include <mutex>
#include <span>
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
  /// Null if there are none.
  static std::shared_ptr<HostFunctions> find(captures::Capture& capture) noexcept;
  /// Takes them out of an ended capture; null if there are none.
  static std::shared_ptr<HostFunctions> take(captures::Capture& capture) noexcept;

  /// \param object the bytes of the function; empty for a value.
  void keep(std::shared_ptr<void> function, std::span<const std::byte> object = {}) {
    const std::lock_guard lock(mutex_);
    functions_.push_back(std::move(function));
    objects_.push_back(object);
  }
  /// The bytes of each, as long as this object lives.
  std::vector<std::span<const std::byte>> objects() const {
    const std::lock_guard lock(mutex_);
    return objects_;
  }

 private:
  mutable std::mutex mutex_;
  std::vector<std::shared_ptr<void>> functions_;
  std::vector<std::span<const std::byte>> objects_;
};

}  // namespace reprise::graphs
