// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "reprise/detail/export.h"

// The caller of a call, for capture reports. Slow; for failed calls only.

namespace reprise::backend {

/// The system's id of the calling thread, as debuggers show it (`gettid`).
REPRISE_EXPORT_INTERNAL std::uint64_t thread_number() noexcept;

/// The calling thread's stack, from the caller of this library outwards, a line each: "function at file+0x12", or
/// "file+0x12" where the program was linked without names (`-rdynamic`). Without the frames of this library's backend.
/// Empty if there is no memory.
REPRISE_EXPORT_INTERNAL std::vector<std::string> call_stack() noexcept;

}  // namespace reprise::backend
