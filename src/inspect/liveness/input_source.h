// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "graph/capture_listener.h"
#include "memory/watches/block_watch.h"

// Memory of another allocator than CachingAllocator, as a source of the inputs of graphs.

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

/// Makes a source for a capture that is about to begin; null if it has nothing to do with it. May throw: the capture
/// does not begin.
using MakeInputSource = std::unique_ptr<InputSource> (*)(const graphs::CaptureContext& context);

/// From now on each capture that looks for its inputs asks this one, too. Thread-safe.
void add_input_source(MakeInputSource make);

/// For one capture.
std::vector<std::unique_ptr<InputSource>> make_input_sources(const graphs::CaptureContext& context);

}  // namespace reprise::inspect
