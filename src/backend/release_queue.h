// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <atomic>
#include <chrono>
#include <memory>
#include <vector>

namespace reprise::backend {

/// What a graph gives back when the last of template, executables and running launches is gone.
///
/// The driver says so by the destructor of a user object, on a thread that must not call CUDA. The destructor only
/// queues the resources here; drain() gives them back on a thread of the user's, at the next call of the library that
/// is not on a fast path.
class ReleaseQueue {
 public:
  /// Things that are given back by their destructors, the last one first.
  using Resources = std::vector<std::shared_ptr<void>>;

  /// Takes resources for the next drain(). Calls nothing of the device runtime. Thread-safe.
  static void push(std::unique_ptr<Resources> resources) noexcept;

  /// Gives back what is queued. The caller must not hold a lock that a resource's destructor takes. Thread-safe.
  static void drain() noexcept;

  /// Waits until the flag is set, at most `limit`. Returns whether it is. push() wakes the waiters, so the flag must be
  /// set before it.
  static bool wait(const std::atomic<bool>& flag, std::chrono::microseconds limit) noexcept;
};

}  // namespace reprise::backend
