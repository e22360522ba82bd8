// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <span>

#include "captures/capture.h"
#include "memory/watches/block_watch.h"

// Memory of a framework, as a source of the inputs of graphs: FrameworkCaptures makes one for each capture.

namespace reprise::inspect {

/// Finds the inputs of one capture in another allocator, and later the memory of changed values of its graph:
///
///     made -> started -> ended -> [find -> is_used ...] -> found -> [find -> is_used ...]
///        \________\________\---------------------------------\---> destroyed
///
/// Threads: one call at a time, as a CaptureListener.
class InputSource {
 public:
  virtual ~InputSource() = default;

  /// The runtime has begun to capture. An exception abandons the capture.
  virtual void started(captures::Capture& capture) = 0;
  /// The capture has ended.
  virtual void ended(GraphHandle template_graph) = 0;
  /// Fills in the addresses, sorted, that lie in this allocator's memory; those in blocks in use get a watch. Frees
  /// since the source was made must be reported to FreeLog.
  virtual void find(std::span<memory::UsedAddress> addresses) = 0;
  /// The inputs of the capture were found, and those that the graph retains are kept by it.
  virtual void found() noexcept {}
  /// False if the node is known not to use the address, which lies in a watched block: an uninitialised word of its
  /// parameters. Called for blocks of all allocators.
  virtual bool is_used(GraphNodeHandle node, const memory::BlockWatch& watch, std::uintptr_t address) = 0;
  /// True if the node is known to use it: an operator that created the node was given the memory.
  virtual bool is_certainly_used(GraphNodeHandle /*node*/, std::uintptr_t /*address*/) { return false; }
};

}  // namespace reprise::inspect
