// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <atomic>
#include <chrono>
#include <memory>
#include <vector>

#include "memory/lifetime/last_launch.h"
#include "reprise/detail/export.h"

namespace reprise::memory {

/// Resources of graphs, to be released when the last of template, executables and running launches is gone.
///
/// For a graph whose handles are accessible to users, the driver notifies this by the destructor of a user object, on a
/// thread that must not call CUDA; the destructor only queues the resources here. The resources of other graphs are
/// queued with the last launch. drain() releases what is due, on a thread of the user's, at the next call of the
/// library that is not on a fast path.
class ReleaseQueue {
 public:
  /// Released by their destructors, the last one first.
  struct Resources : std::vector<std::shared_ptr<void>> {
    using vector::vector;
    Resources() = default;
    Resources(Resources&&) = default;
    Resources& operator=(Resources&& other) noexcept {
      while (!empty()) pop_back();
      vector::operator=(std::move(other));
      after_ = std::move(other.after_);
      next_ = std::move(other.next_);
      return *this;
    }
    ~Resources() {
      while (!empty()) pop_back();
    }

   private:
    // In the queue, which so needs no memory of the host.
    friend class ResourceList;
    friend class ReleaseQueue;
    LastLaunch after_;
    std::unique_ptr<Resources> next_;
  };

  /// Queues resources for the next drain(). Calls nothing of the device runtime. Thread-safe.
  static void push(std::unique_ptr<Resources> resources) noexcept;

  /// Queues resources for the first drain() after the launch has completed.
  static void push(std::unique_ptr<Resources> resources, LastLaunch after) noexcept;

  /// Releases what is queued, except resources whose launch is still running. Does not wait. The caller must not hold a
  /// lock that a resource's destructor takes. Thread-safe.
  REPRISE_EXPORT_INTERNAL static void drain() noexcept;

  /// As drain(), but waits for those launches first. For callers out of memory.
  static void drain_waiting() noexcept;

  /// Waits until the flag is set, at most `limit`; returns the flag. push() wakes the waiters, so the flag must be set
  /// before it.
  static bool wait(const std::atomic<bool>& flag, std::chrono::microseconds limit) noexcept;
};

}  // namespace reprise::memory
