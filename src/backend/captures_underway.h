// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <atomic>

namespace reprise::backend {

/// How many captures of this library are underway, on any thread and device; graphs::RegisteredCapture counts them.
inline std::atomic<int> captures_underway{0};

}  // namespace reprise::backend
