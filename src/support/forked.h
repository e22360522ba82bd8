// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <atomic>

#include "reprise/detail/export.h"

namespace reprise::support {

/// True in a child process that fork() made after watch_forks(). A device cannot be used there: the child has none of
/// the device's threads, and a mutex that another thread held at the time stays locked. So calls of
/// a device query this first, and destructors then do nothing, since the memory of the child ends with it.
inline bool forked() noexcept;

/// To be called before the process uses a device: its later children are marked.
void watch_forks() noexcept;

namespace detail {

REPRISE_EXPORT_INTERNAL inline constinit std::atomic<bool> forked_flag{false};

}  // namespace detail

inline bool forked() noexcept {
  return detail::forked_flag.load(std::memory_order_relaxed);
}

}  // namespace reprise::support
