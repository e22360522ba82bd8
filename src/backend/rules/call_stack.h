// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <string>
#include <vector>

// Who made a call: for capture reports. Slow; for calls that failed.

namespace reprise::backend {

/// The system's number of the calling thread, as debuggers show it (`gettid`).
std::uint64_t thread_number() noexcept;

/// The calling thread's stack, from the caller of this library outwards, a line each: "function at file+0x12", or
/// "file+0x12" where the program was linked without names (`-rdynamic`). The frames of this library's own backend are
/// left out. Empty if there is no memory.
std::vector<std::string> call_stack() noexcept;

}  // namespace reprise::backend
