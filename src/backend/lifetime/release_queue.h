// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <atomic>
#include <chrono>
#include <memory>
#include <vector>

#include "backend/lifetime/last_launch.h"

namespace reprise::backend {

/// What a graph gives back when the last of template, executables and running launches is gone.
///
/// Of a graph whose handles others may have, the driver says so by the destructor of a user object, on a thread that
/// must not call CUDA; the destructor only queues the resources here. The resources of other graphs are queued with the
/// last launch. drain() gives back what may be, on a thread of the user's, at the next call of the library that is not
/// on a fast path.
class ReleaseQueue {
 public:
  /// Things that are given back by their destructors, the last one first.
  using Resources = std::vector<std::shared_ptr<void>>;

  /// Takes resources for the next drain(). Calls nothing of the device runtime. Thread-safe.
  static void push(std::unique_ptr<Resources> resources) noexcept;

  /// The same, for a drain() that comes when the launch is over.
  static void push(std::unique_ptr<Resources> resources, LastLaunch after) noexcept;

  /// Gives back what is queued, but for what has a launch to wait for that is not over. Waits for nothing. The caller
  /// must not hold a lock that a resource's destructor takes. Thread-safe.
  static void drain() noexcept;

  /// The same, but waits for those launches first. For who is out of memory.
  static void drain_waiting() noexcept;

  /// Is nothing queued?
  static bool empty() noexcept;

  /// Waits until the flag is set, at most `limit`. Returns whether it is. push() wakes the waiters, so the flag must be
  /// set before it.
  static bool wait(const std::atomic<bool>& flag, std::chrono::microseconds limit) noexcept;
};

}  // namespace reprise::backend
