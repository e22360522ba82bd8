// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "reprise/stream.h"

// Streams that outlive their Stream. A framework may use a handle that it was given for as long as the process lives:
// libtorch's allocators and autograd assume that streams are never destroyed. Where Framework::keeps_streams() is true,
// the handle of a Stream that ends is therefore not destroyed, but kept for a later Stream with the same options.
// Thread-safe.

namespace reprise::backend {

/// True if the streams of a device are kept.
bool keeps_streams(const Device& device) noexcept;

/// Keeps the stream of a Stream that ends. When out of host memory it stays valid, but is never reused.
void keep_stream(const StreamRef& stream, const StreamOptions& options) noexcept;

/// Returns the handle of a kept stream with these options, which is the caller's from now on: one without pending work
/// and outside of captures. Null if there is none. Breaks no capture.
StreamHandle take_kept_stream(const Device& device, const StreamOptions& options) noexcept;

}  // namespace reprise::backend
