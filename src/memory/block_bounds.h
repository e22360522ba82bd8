// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <optional>

#include "captures/registry.h"
#include "memory/allocator_impl.h"

// The end of the block that a copy or fill begins in. The runtime only knows the segment, which has other blocks, too.

namespace reprise::memory {

/// The block of the device's allocator that `bytes` at `address` begin in and go beyond the end of; nullopt if there is
/// none. An address within a block, behind its beginning, is looked up only while a capture is underway, since that
/// searches all blocks. Locks the allocator's mutex.
inline std::optional<CachingAllocator::Impl::UsedBlock> exceeded_block(const Device& device, const void* address,
                                                                       std::size_t bytes) {
  const CachingAllocator::Impl& allocator = CachingAllocator::of(device).impl();
  auto block = allocator.block_at(address);
  if (!block && captures::any_underway()) block = allocator.find_block(address);
  if (!block) return std::nullopt;
  const auto offset = static_cast<std::size_t>(static_cast<const std::byte*>(address) - block->address);
  // An address in what rounding added to the block is none of the user's.
  return offset <= block->bytes && bytes <= block->bytes - offset ? std::nullopt : block;
}

}  // namespace reprise::memory
