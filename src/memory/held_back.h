// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <deque>
#include <vector>

#include "backend/backend.h"
#include "memory/block.h"

namespace reprise::memory {

/// Blocks that were freed while work of other streams may still use them (record_stream).
///
/// hold() records an event on each of these streams; poll() gives the block back when all of them are reached. An event
/// that is recorded on a capturing stream is never reached, and querying it breaks the capture: while a capture is
/// underway on any device, whose streams may be of this block, the block waits without events; and so it does when an
/// event cannot be recorded, until it can.
///
/// Guarded by the allocator's mutex. Calls the driver in relaxed capture mode, never anything that waits.
class HeldBackBlocks {
 public:
  HeldBackBlocks() = default;
  ~HeldBackBlocks();
  HeldBackBlocks(const HeldBackBlocks&) = delete;
  HeldBackBlocks& operator=(const HeldBackBlocks&) = delete;

  /// Must a block that is freed now be held back?
  static bool needed(const MemoryBlock& block) noexcept { return !block.recorded.empty() || block.pending_events != 0; }

  /// Takes a block that was freed.
  void hold(MemoryBlock* block);

  /// Appends to `done` the blocks that nothing uses any more.
  void poll(std::vector<MemoryBlock*>& done);

  /// Is nothing held back, so that poll() has nothing to do?
  bool empty() const noexcept { return events_ == 0 && deferred_.empty(); }

  /// A stream is about to be destroyed, and no event can be recorded on it later: does so now for a block, in use or
  /// held back, of which `recorded` names the stream, and takes the stream off that list.
  void stream_ends(MemoryBlock* block, const StreamRef& stream);

  /// The last event of each stream, with the backend to wait for it with: when they are reached, poll() gives back all
  /// blocks that have events. Such an event may be recorded anew at any time, but is never destroyed.
  std::vector<std::pair<backend::Backend*, EventHandle>> last_events() const;

  /// An event without timing, from those that were given back if there is one; null on failure, which is reported
  /// unless `quiet`.
  EventHandle take_event(backend::Backend& backend, bool quiet = false) noexcept;
  void give_event_back(backend::Backend& backend, EventHandle event);

 private:
  struct Pending {
    EventHandle event;
    MemoryBlock* block;
    bool reported = false;  // it could not be asked
  };
  // The events of one stream are reached in the order in which they were recorded.
  struct StreamQueue {
    StreamRef stream;
    std::deque<Pending> pending;
  };

  bool record(MemoryBlock* block, const StreamRef& stream);
  bool record_all(MemoryBlock* block);
  void defer(MemoryBlock* block);
  void poll_deferred(std::vector<MemoryBlock*>& done);
  void poll_stream(StreamQueue& queue, std::vector<MemoryBlock*>& done);

  std::size_t events_ = 0;              // in all queues
  std::vector<MemoryBlock*> deferred_;  // without events for the streams in `recorded`, which is not empty
  std::vector<StreamQueue> queues_;
  std::vector<std::pair<backend::Backend*, EventHandle>> spare_events_;
};

}  // namespace reprise::memory
