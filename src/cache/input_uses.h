// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <span>
#include <vector>

#include "reprise/graph.h"

namespace reprise::caches {

/// Use of memory by a captured graph.
enum class InputUse {
  none,              ///< no use was found
  readable,          ///< by its address, or one within it, in arguments of kernels: CUDAGraph::parameter()
  readable_in_copy,  ///< likewise, in copies or sets, too: these keep the kind of memory that they have
  unreadable,        ///< perhaps in a place that cannot be read or changed
};

/// Bytes in front of a MemoryRange and behind it that belong to no other memory. The range then begins between two
/// multiples of 512, at which all blocks of the allocator begin: an address that a whole number of rows of 512 bytes
/// separates from it is the beginning of no block.
inline constexpr std::size_t bytes_around = 4096 + 256;

struct MemoryRange {
  const void* data = nullptr;
  std::size_t bytes = 0;  ///< not 0
};

/// Looks for the uses of each memory in all nodes. Unreadable for all: a node whose parameters the driver does not
/// describe, a child graph, a conditional node; an address in the bytes around one, and one further away that is none
/// of other memory, as far as that is known: it may be that of an array of which the memory is a part. For one: a use
/// by a kernel of this library, whose addresses cannot be changed; an address in an argument that launch() knows to be
/// an integer, and one that is not aligned in the arguments, as in a packed struct, which are no uses of
/// CUDAGraph::parameter(). \throws BackendError if the runtime fails.
std::vector<InputUse> find_uses(CUDAGraph& graph, std::span<const MemoryRange> memory);

}  // namespace reprise::caches
