// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <atomic>

namespace reprise::support {

/// True once the process ends: static objects are destroyed that are older than the call of watch_process_end().
inline bool process_ends() noexcept;

/// To be called when the process has used a driver that shuts down before these objects end.
void watch_process_end() noexcept;

namespace detail {

inline constinit std::atomic<bool> process_ends_flag{false};

}  // namespace detail

inline bool process_ends() noexcept {
  return detail::process_ends_flag.load(std::memory_order_relaxed);
}

}  // namespace reprise::support
