// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <span>

#include "graph/capture_listener.h"
#include "memory/watches/block_watch.h"

// Memory of a framework, as a source of the inputs of graphs: FrameworkCaptures makes one for each capture.

namespace reprise::inspect {

/// What another allocator knows of one capture that looks for its inputs:
///
///     made -> started -> ended -> [find -> is_used ...]
///        \________\________\---> destroyed
///
/// Threads: one call at a time, as a CaptureListener.
class InputSource {
 public:
  virtual ~InputSource() = default;

  /// The runtime captures. May throw: the capture is abandoned.
  virtual void started(const graphs::CaptureContext& context) = 0;
  /// The capture is over.
  virtual void ended(GraphHandle template_graph) = 0;
  /// Fills in what is known of addresses, in ascending order, that lie in this allocator's memory; those in blocks that
  /// are given out get a watch. A block that was freed since the source was made is to be told to FreeLog.
  virtual void find(std::span<memory::UsedAddress> addresses) = 0;
  /// False if the address, which lies in a watched block, is known to be none that the node uses: a word of its
  /// parameters that nobody wrote. Asked of blocks of all allocators.
  virtual bool is_used(GraphNodeHandle node, const memory::BlockWatch& watch, std::uintptr_t address) = 0;
};

}  // namespace reprise::inspect
