// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

#include "reprise/handles.h"

namespace reprise::backend {

/// The handle of the per-thread default stream, `cudaStreamPerThread` (0x2): it means another stream on each thread.
inline StreamHandle per_thread_stream() noexcept {
  return reinterpret_cast<StreamHandle>(std::uintptr_t{2});
}

/// True for that handle.
inline bool is_per_thread_stream(StreamHandle stream) noexcept {
  return stream == per_thread_stream();
}

}  // namespace reprise::backend
