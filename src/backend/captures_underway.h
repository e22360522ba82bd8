// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <atomic>

namespace reprise::backend {

/// How many captures of this library are underway, on any thread and device; written by the registry of
/// captures alone, and read where that cannot be included.
inline std::atomic<int> captures_underway{0};

}  // namespace reprise::backend
