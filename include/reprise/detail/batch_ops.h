// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>

/// \file
/// The operations of batches (batch.h), as kernels see them.

namespace reprise {

/// One copy of a batch. Any alignment is allowed; multiples of 16 bytes for source and destination are fastest.
struct CopyOp {
  void* destination = nullptr;   ///< must overlap no other address of the batch
  const void* source = nullptr;  ///< must overlap no destination of the batch
  /// At most 2^31 - 1 times 16 KiB. 0: nothing is copied, and the addresses may be null.
  std::size_t bytes = 0;
};

/// One fill of a batch: a repeated pattern of 1, 2, 4 or 8 bytes.
struct FillOp {
  void* destination = nullptr;  ///< aligned to the pattern; must overlap no other destination of the batch
  std::uint64_t pattern = 0;    ///< only the low `pattern_bytes` bytes are used
  unsigned pattern_bytes = 1;   ///< 1, 2, 4 or 8
  /// A multiple of `pattern_bytes`, at most 2^31 - 1 times 16 KiB. 0: the address may be null.
  std::size_t bytes = 0;
};

/// The number of operations of one kernel; a larger batch takes several kernels.
inline constexpr std::size_t batch_ops_per_kernel = 128;

}  // namespace reprise
