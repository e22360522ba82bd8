// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <atomic>

#include "reprise/detail/export.h"

namespace reprise::support {

/// True at the end of the process, when static objects are destroyed that are older than the first call of
/// watch_process_end().
inline bool process_ends() noexcept;

/// Called once a driver is used that shuts down before such objects end.
void watch_process_end() noexcept;

namespace detail {

REPRISE_EXPORT_INTERNAL inline constinit std::atomic<bool> process_ends_flag{false};

}  // namespace detail

inline bool process_ends() noexcept {
  return detail::process_ends_flag.load(std::memory_order_relaxed);
}

}  // namespace reprise::support
