// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <memory>
#include <mutex>
#include <span>
#include <utility>
#include <vector>

#include "captures/capture.h"
#include "memory/lifetime/release_queue.h"

namespace reprise::graphs {

/// What calls in one capture leave to its graph, which holds it as long as anything of the graph can use it: functions
/// of launch_host(), values of copy_value_async(), workspaces of libraries, and what children and loops use.
/// Thread-safe.
class KeptObjects {
 public:
  /// Returns the objects of a capture, made at first use; null if it is over.
  static std::shared_ptr<KeptObjects> of(captures::Capture& capture);
  /// Null if there are none.
  static std::shared_ptr<KeptObjects> find(captures::Capture& capture) noexcept;
  /// Takes them out of an ended capture; null if there are none.
  static std::shared_ptr<KeptObjects> take(captures::Capture& capture) noexcept;

  /// \param function the bytes of a function of launch_host(); empty for another object.
  void keep(std::shared_ptr<void> object, std::span<const std::byte> function = {}) {
    const std::lock_guard lock(mutex_);
    objects_.push_back(std::move(object));
    if (!function.empty()) functions_.push_back(function);
  }
  /// The bytes of each function, as long as this object lives.
  std::vector<std::span<const std::byte>> functions() const {
    const std::lock_guard lock(mutex_);
    return functions_;
  }

 private:
  mutable std::mutex mutex_;
  memory::ReleaseQueue::Resources objects_;
  std::vector<std::span<const std::byte>> functions_;
};

}  // namespace reprise::graphs
