// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <memory>

#include "backend/host/memory/device_memory.h"

namespace reprise::backend::host {

/// The memory of an allocation node. Its address stays the same for as long as the node, an executable or a launch of
/// one refers to it, or a launch left it allocated; its bytes are allocated by the first launch.
///
///     reserved -> allocated by a launch -> freed, by that launch or a later one, or outside of graphs -> allocated ...
///
/// The state is that after all work submitted so far, since the order of streams decides which work may use the memory.
/// State and flags are guarded by the mutex of the runtime.
class GraphMemory {
 public:
  /// Reserves addresses. Null if there are none left.
  static std::shared_ptr<GraphMemory> reserve(DeviceMemory& memory, std::size_t bytes);
  ~GraphMemory() { (void)memory_.free(address_); }
  GraphMemory(const GraphMemory&) = delete;
  GraphMemory& operator=(const GraphMemory&) = delete;

  void* address() const noexcept { return address_; }
  std::size_t bytes() const noexcept { return bytes_; }

  /// Takes the bytes from the memory of the device, unless it has them. False if there are too few.
  bool back() { return memory_.back(address_) == ErrorCode::success; }
  /// Fills what was used of it with DeviceMemory::poison_byte. For operations: at its allocation and at its free.
  void poison() noexcept { memory_.poison(address_); }

  /// True if a submitted launch allocated it, and nothing that was submitted later frees it.
  bool allocated() const noexcept { return self_ != nullptr; }
  static void set_allocated(const std::shared_ptr<GraphMemory>& memory) noexcept { memory->self_ = memory; }
  /// The caller holds a reference.
  void set_freed() noexcept { self_.reset(); }

  bool freed_by_its_graph =
      false;  ///< the graph with its allocation node has a free node for it: nothing else frees it

 private:
  GraphMemory(DeviceMemory& memory, void* address, std::size_t bytes)
      : memory_(memory), address_(address), bytes_(bytes) {}

  DeviceMemory& memory_;
  void* const address_;
  const std::size_t bytes_;
  std::shared_ptr<GraphMemory> self_;  // while it is allocated, when nothing else may hold it
};

/// The work of an allocation node.
struct GraphAllocation {
  std::shared_ptr<GraphMemory> memory;
};

/// The work that frees such memory: of a free node, or of a stream.
struct GraphFree {
  std::shared_ptr<GraphMemory> memory;
};

}  // namespace reprise::backend::host
