// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>

#include "reprise/device.h"
#include "reprise/export.h"
#include "reprise/memory.h"

/// \file
/// The memory that graphs take.

namespace reprise {

/// Memory that the device runtime needs for graphs, in bytes: an estimate, since no runtime reports it.
///
/// Measured once for each device: the change of the free memory of the device, and of the memory of the process
/// (resident, or given out by `malloc`, whichever grows more), around a batch of templates and executables with one
/// node, and of others with many; from that follows what a graph and what each further node takes. The nodes of the
/// batch are kernels with 40 bytes of arguments, one after another; other nodes take more or less. The host device
/// needs no device memory for a graph.
struct GraphMemoryEstimate {
  std::uint64_t template_host_bytes = 0;
  std::uint64_t template_device_bytes = 0;
  std::uint64_t executable_host_bytes = 0;
  std::uint64_t executable_device_bytes = 0;  ///< also before the first upload or replay, which allocates it
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

  /// For the templates that are there, and the executables. All 0 if it could not be measured.
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
/// used.
///
/// The first call for a device, of this function or of a member memory(), measures what GraphMemoryEstimate says: that
/// takes up to 0.5 s, and as much memory as a graph of 20000 nodes, which is freed again, but which the driver may keep
/// for later graphs. Allocations of other threads meanwhile change the estimate. Without memory for it, the estimate
/// is 0, there is a warning, and the next call measures again. Breaks no capture. Thread-safe.
/// \throws BackendError with 3 in a child process of fork().
REPRISE_EXPORT GraphMemory graph_memory(Device device = current_device());

}  // namespace reprise
