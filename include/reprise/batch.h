// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <bit>
#include <cstddef>
#include <cstring>
#include <span>
#include <type_traits>

#include "reprise/accesses.h"
#include "reprise/detail/batch_ops.h"
#include "reprise/detail/export.h"
#include "reprise/stream.h"

/// \file
/// Many copies, or many fills, by one kernel: one launch, and one node of a graph, instead of one for each.
///
/// All addresses must be accessible to kernels: device memory, pinned memory, memory of another device with peer
/// access. The host device refuses others with UsageError; a CUDA device faults on them.

namespace reprise {

/// Returns a fill of `count` times `value`, which must have 1, 2, 4 or 8 bytes.
/// \throws UsageError if the values would end past the last address.
template <class T>
FillOp make_fill(T* destination, T value, std::size_t count) {
  static_assert(std::is_trivially_copyable_v<T> && sizeof(T) <= 8 && std::has_single_bit(sizeof(T)),
                "a pattern has 1, 2, 4 or 8 bytes");
  FillOp op{destination, 0, static_cast<unsigned>(sizeof(T)),
            detail::checked_bytes("make_fill", destination, count, sizeof(T))};
  std::memcpy(&op.pattern, &value, sizeof(T));
  return op;
}

/// Runs all copies in unspecified order, after prior work on `stream`. In a capture this is a kernel node, and each
/// replay reads and writes these addresses again.
/// \throws UsageError, before anything is copied, if an address is null, an operation ends past the last address or has
///         too many bytes, or, on the host device, if an operation is not within one block of memory that kernels can
///         access.
REPRISE_EXPORT void copy_batch_async(std::span<const CopyOp> batch, const StreamRef& stream = current_stream());

/// Runs all fills in unspecified order, after prior work on `stream`. In a capture this is a kernel node.
/// \throws UsageError as copy_batch_async(), or if an operation is not as FillOp requires.
REPRISE_EXPORT void fill_batch_async(std::span<const FillOp> batch, const StreamRef& stream = current_stream());

}  // namespace reprise
