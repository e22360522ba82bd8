// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>

#include "reprise/detail/export.h"
#include "reprise/memory.h"
#include "reprise/stream.h"

// Small memory of the library's own that kernels of graphs use: seeds, offsets, states of loops.

namespace reprise::memory {

/// Returns them to the allocator.
struct DeviceWordsDeleter {
  CachingAllocator* allocator;
  void operator()(std::uint64_t* words) const noexcept { reprise::detail::deallocate_buffer(*allocator, words); }
};
using DeviceWords = std::unique_ptr<std::uint64_t, DeviceWordsDeleter>;

/// The stream on which such memory is cleared, one for each device.
///
/// Lives as long as its device, and does not count as a use of it.
REPRISE_EXPORT_INTERNAL StreamRef stream_of_words(const Device& device);

/// Allocates words from the pool of the capture that the stream takes part in, if any. Not cleared.
DeviceWords allocate_words(std::size_t bytes, const StreamRef& stream);

/// Allocates words outside of all private pools, which are never reported as an input of a graph. Not cleared.
REPRISE_EXPORT_INTERNAL DeviceWords allocate_hidden_words(std::size_t bytes, const Device& device);

}  // namespace reprise::memory
