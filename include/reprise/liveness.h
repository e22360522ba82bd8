// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "reprise/detail/export.h"
#include "reprise/error.h"

/// \file
/// Input liveness: memory that a graph uses and does not own, and whether it was freed.

namespace reprise {

/// Memory that counts as an input of a graph (`GraphOptions::inputs.scope`).
enum class Liveness {
  /// Memory of CachingAllocator, such as Buffer; with the component `libtorch` that of tensors, too. No call of the
  /// runtime per replay.
  allocator,
  /// Memory of allocators, and memory of the driver: `cudaMalloc`, pinned and managed memory. One query for each
  /// allocation and replay.
  all,
};

/// Memory that a graph uses and does not own, found in the parameters of its nodes; or a node whose
/// parameters are not known, so that inputs may be missing. A value.
struct GraphInput {
  /// Start of the block, also if the graph uses a part of it; null for a node whose parameters are not known.
  const void* address = nullptr;
  std::size_t bytes = 0;                ///< of the whole block; rounded, for a block of CachingAllocator; 0 if unknown
  std::vector<std::string> nodes = {};  ///< that use it, for example "kernel Scale (node 3)"; they count from 0
  bool retained = false;                ///< true if the graph keeps it alive (`GraphOptions::inputs.retain`)
  /// The stack of its allocation, a line each, as in CaptureReport::Call; empty unless record_allocation_stacks() was
  /// on by then.
  std::vector<std::string> created = {};
  /// Why replays do not check it, without a full stop: the parameters of the node are not known. Empty for memory that
  /// is checked or retained.
  std::string not_checked = {};
};

/// An input that was freed.
struct DeadInput : GraphInput {
  std::vector<std::string> freed = {};  ///< the stack of the free, likewise
  bool given_out_again = false;         ///< true if the memory, or a part of it, was allocated again
};

/// A replay was refused, because memory that the graph uses was freed. Nothing was launched, and the graph is
/// unchanged: each further replay is refused likewise, until the address is set, as by CUDAGraph::set(). Also thrown
/// for a child graph, by add_child(), by breakable() for a body that frees what it uses, and by GraphCache::run() for
/// one that replaces it.
class REPRISE_EXPORT DeadInputError : public Error {
 public:
  /// \param what the whole text.
  /// \param inputs the freed inputs.
  DeadInputError(const std::string& what, std::vector<DeadInput> inputs)
      : Error(what), inputs_(std::make_shared<const std::vector<DeadInput>>(std::move(inputs))) {}

  /// All freed inputs, sorted by address. They live as long as this exception or a copy of it.
  const std::vector<DeadInput>& inputs() const noexcept { return *inputs_; }

 private:
  std::shared_ptr<const std::vector<DeadInput>> inputs_;  // so that copying an exception cannot throw
};

/// Switches the recording of stacks on or off, for DeadInputError: CachingAllocator then records the stack of each
/// allocation, and of each free of memory that a graph uses. Off by default, unless `REPRISE_MEMORY_STACKS=1` is set: a
/// stack takes tens of microseconds. For all devices. Thread-safe.
REPRISE_EXPORT void record_allocation_stacks(bool on);

}  // namespace reprise
