// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <vector>

#include "captures/registry.h"
#include "reprise/stream.h"

// The calls that captured copies, for texts that name them. Recorded in captures with ReportDetail::full only.

namespace reprise::memory {

namespace detail {
void note_copy(const void* destination, const void* source, const StreamRef& stream);
}

/// To be called after a copy was submitted to the stream. One relaxed load while no capture is underway.
/// \throws BackendError if the runtime refuses a query of the stream, with ReportDetail::full only.
inline void note_copy(const void* destination, const void* source, const StreamRef& stream) {
  if (captures::any_underway()) [[unlikely]]
    detail::note_copy(destination, source, stream);
}

/// The stack of the call of this library that captured a copy to or from this address, from its caller outwards; empty
/// if it is not known.
std::vector<std::string> copy_origin(const captures::Capture& capture, const void* address);

}  // namespace reprise::memory
