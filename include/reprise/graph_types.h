// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <compare>
#include <cstddef>

/// \file
/// Types of CUDA's graphs: of nodes and edges, parameters of copies and sets, and results of updates.

namespace reprise {

/// `CUgraphNodeType`; the numbers are CUDA's.
enum class NodeType {
  kernel = 0,
  memcpy = 1,
  memset = 2,
  host = 3,
  child_graph = 4,
  empty = 5,
  event_wait = 6,
  event_record = 7,
  memory_allocate = 10,
  memory_free = 11,
  conditional = 13,
};

/// `CUgraphEdgeData`, with its layout: zeros for a full dependency.
struct EdgeData {
  unsigned char from_port = 0;  ///< 0: when the node is complete; 1: programmatic; 2: launch completion
  unsigned char to_port = 0;    ///< of the node that depends
  unsigned char type = 0;       ///< 0 default, 1 programmatic
  unsigned char reserved[5] = {};
  friend auto operator<=>(const EdgeData&, const EdgeData&) = default;
  // Explicit, because nvcc 13.0 declares, but does not define, the one implied by the order.
  friend bool operator==(const EdgeData&, const EdgeData&) = default;
};

/// `CUDA_MEMCPY3D` in one dimension.
struct MemcpyNodeParams {
  void* destination = nullptr;
  const void* source = nullptr;
  std::size_t bytes = 0;
  friend bool operator==(const MemcpyNodeParams&, const MemcpyNodeParams&) = default;
};

/// `CUDA_MEMSET_NODE_PARAMS` in one dimension.
struct MemsetNodeParams {
  void* destination = nullptr;
  unsigned value = 0;          ///< of which the low `element_bytes` bytes count
  unsigned element_bytes = 1;  ///< 1, 2 or 4; the destination is aligned to it
  std::size_t count = 0;       ///< elements
  friend bool operator==(const MemsetNodeParams&, const MemsetNodeParams&) = default;
};

/// Why CUDA cannot update an executable to another graph: `CUgraphExecUpdateResult`; the numbers are CUDA's.
enum class UpdateResult {
  success = 0,
  error = 1,
  topology_changed = 2,             ///< other nodes, or other dependencies
  node_type_changed = 3,            ///< a node is of another type
  function_changed = 4,             ///< a kernel is another one (drivers before 11.2)
  parameters_changed = 5,           ///< a parameter differs that an update cannot change
  not_supported = 6,                ///< a node is of a kind that cannot be updated
  unsupported_function_change = 7,  ///< a kernel is another one, for which CUDA would need another executable
  attributes_changed = 8,           ///< an attribute of a kernel differs, such as its cluster
};

}  // namespace reprise
