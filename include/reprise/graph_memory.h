// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>

#include "reprise/detail/export.h"
#include "reprise/device.h"
#include "reprise/memory.h"

/// \file
/// The memory that graphs take.

namespace reprise {

/// Memory that the CUDA driver needs for graphs, in bytes: an estimate, since the driver does not report it. A formula
/// of the numbers of graphs and nodes, from what graphs of small kernels took on an H100 after a launch
/// (docs/performance.md, "Memory of graphs"). Other nodes, drivers and devices take more or less. 0 on the host device.
struct GraphMemoryEstimate {
  std::uint64_t host_bytes = 0;    ///< of templates that are there, and of executables
  std::uint64_t device_bytes = 0;  ///< of executables, also before the first launch, which allocates it
};

/// Memory of one graph (CUDAGraph::memory()), of the graphs of a cache (GraphCache::memory()), or of all graphs of a
/// device (graph_memory()). A value.
struct REPRISE_EXPORT GraphMemory {
  std::size_t graphs = 0;       ///< captured graphs
  std::size_t executables = 0;  ///< of these, those that are instantiated
  /// Number of nodes of the graphs, as captured: with child graphs and bodies of control flow, as often as they were
  /// captured. Later edits of a template do not count.
  std::size_t nodes = 0;

  /// Memory from CachingAllocator: the private pool of the graph, or of all graphs of the cache; for a device, all
  /// private pools together, and the sum of their peaks. Exact. Graphs that share a pool each have all of it.
  PoolStatistics pool = {};
  std::uint64_t tensor_reserved_bytes = 0;  ///< of the pool of libtorch's allocator with the same id, with CUDA tensors
  std::uint64_t tensor_allocated_bytes = 0;  ///< of that, in tensors that live

  GraphMemoryEstimate estimate = {};

  /// Memory that replays leave allocated: of allocation nodes (allocate_async() in the capture) that the graph has no
  /// free node for. The first replay takes it.
  std::uint64_t left_bytes = 0;
  /// Memory that graphs left allocated which have ended, until the program frees it; only of a device.
  std::uint64_t left_by_ended_bytes = 0;

  /// In words, one line for each kind of memory, each ended by a newline.
  std::string str() const;
};

/// The memory of all graphs of a device, those of caches, segments and graphed callables included. Graphs that other
/// code made are not known. The private pools include those of graphs that are gone while something of theirs is still
/// used. Thread-safe.
/// \throws BackendError with 3 in a child process of fork().
REPRISE_EXPORT GraphMemory graph_memory(Device device = current_device());

}  // namespace reprise
