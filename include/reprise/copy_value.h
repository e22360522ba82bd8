// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>

#include "reprise/detail/export.h"
#include "reprise/stream.h"

/// \file
/// Copies of a value that the host has now.

namespace reprise {

/// Copies bytes of the host in the order of a stream. They are read before the call returns: the source may be reused
/// then, whatever kind of memory it is. In a capture each replay writes the value that the source has now, and the
/// graph owns it; copy_async() reads the source again in each replay.
/// \param destination memory of the device, or pinned memory.
/// \param source memory of the host, pageable or pinned.
/// \param bytes none are copied if it is 0.
/// \param stream the stream whose prior work comes first.
/// \throws UsageError if the source is memory of the device; in a capture of other code, whose graph cannot own the
///         value. The capture continues.
/// \throws BackendError with 2 if there is no pinned memory for the value; as copy_async().
REPRISE_EXPORT void copy_value_async(void* destination, const void* source, std::size_t bytes,
                                     const StreamRef& stream = current_stream());

}  // namespace reprise
