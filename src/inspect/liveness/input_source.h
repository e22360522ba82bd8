// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "graph/capture_listener.h"
#include "memory/watches/block_watch.h"

// Allocators besides CachingAllocator, whose memory can be an input of graphs.

namespace reprise::inspect {

/// Finds the inputs of one capture in another allocator:
///
///     made -> started -> ended -> [find -> is_used ...]
///        \________\________\---> destroyed
///
/// Threads: one call at a time, as a CaptureListener.
class InputSource {
 public:
  virtual ~InputSource() = default;

  /// The runtime has begun to capture. An exception abandons the capture.
  virtual void started(const graphs::CaptureContext& context) = 0;
  /// The capture has ended.
  virtual void ended(GraphHandle template_graph) = 0;
  /// Fills in the addresses, sorted, that lie in this allocator's memory; those in blocks in use get a watch. Frees
  /// since the source was made must be reported to FreeLog.
  virtual void find(std::span<memory::UsedAddress> addresses) = 0;
  /// False if the node is known not to use the address, which lies in a watched block: an uninitialised word of its
  /// parameters. Called for blocks of all allocators.
  virtual bool is_used(GraphNodeHandle node, const memory::BlockWatch& watch, std::uintptr_t address) = 0;
};

/// Makes a source for a capture that is about to begin; null if it does not apply. After an exception the capture does
/// not begin.
using MakeInputSource = std::unique_ptr<InputSource> (*)(const graphs::CaptureContext& context);

/// Registers a source for all later captures that look for inputs. Thread-safe.
void add_input_source(MakeInputSource make);

/// For one capture.
std::vector<std::unique_ptr<InputSource>> make_input_sources(const graphs::CaptureContext& context);

}  // namespace reprise::inspect
