// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <optional>

#include "memory/allocator_impl.h"

// The end of the block that a copy or fill begins in. The runtime only knows the segment, which has other blocks, too.

namespace reprise::memory {

/// The block of the device's allocator in which `bytes` at `address` begin, if they end beyond it; else nullopt.
/// Locks the allocator's mutex.
inline std::optional<CachingAllocator::Impl::UsedBlock> exceeded_block(const Device& device, const void* address,
                                                                       std::size_t bytes) {
  const CachingAllocator::Impl& allocator = CachingAllocator::of(device).impl();
  const auto block = allocator.find_block(address);
  if (!block) return std::nullopt;
  const auto offset = static_cast<std::size_t>(static_cast<const std::byte*>(address) - block->address);
  // An address in the bytes that rounding added to the block is not the user's.
  return offset <= block->bytes && bytes <= block->bytes - offset ? std::nullopt : block;
}

}  // namespace reprise::memory
