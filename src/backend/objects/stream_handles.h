// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

#include "reprise/handles.h"

namespace reprise::backend {

/// True for the handle of the per-thread default stream, `cudaStreamPerThread` (0x2): it means another stream on each
/// thread.
inline bool is_per_thread_stream(StreamHandle stream) noexcept {
  return reinterpret_cast<std::uintptr_t>(stream) == 2;
}

}  // namespace reprise::backend
