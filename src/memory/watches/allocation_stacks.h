// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <atomic>
#include <string>
#include <vector>

#include "reprise/detail/export.h"

namespace reprise::memory {

namespace stacks_detail {
REPRISE_EXPORT_INTERNAL extern std::atomic<bool> recorded;
}

/// True if the stacks of allocations and frees are recorded. One relaxed load.
inline bool allocation_stacks_are_recorded() noexcept {
  return stacks_detail::recorded.load(std::memory_order_relaxed);
}

/// The stack of the calling thread, from the caller of the allocator or of a copy outwards. Empty if there is no
/// memory.
REPRISE_EXPORT_INTERNAL std::vector<std::string> allocation_stack() noexcept;

}  // namespace reprise::memory
