// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <deque>
#include <vector>

#include "backend/backend.h"
#include "memory/block.h"

namespace reprise::memory {

/// Blocks that were freed while work of other streams may still use them (record_stream).
///
/// hold() records an event on each of these streams; poll() returns the block when all of them have completed. An event
/// recorded on a capturing stream never completes, and querying it breaks the capture: while a capture is underway on
/// any device, whose streams may be of this block, or when an event cannot be recorded, the block is deferred without
/// events.
///
/// Guarded by the allocator's mutex. Calls the driver in relaxed capture mode, and never waits.
class HeldBackBlocks {
 public:
  HeldBackBlocks() = default;
  ~HeldBackBlocks();
  HeldBackBlocks(const HeldBackBlocks&) = delete;
  HeldBackBlocks& operator=(const HeldBackBlocks&) = delete;

  /// True if a block that is freed now must be held back.
  static bool needed(const MemoryBlock& block) noexcept {
    return !block.recorded.empty() || block.pending_events != 0 || block.captured_use;
  }

  /// Adds a freed block.
  void hold(MemoryBlock* block);

  /// Moves the blocks that are no longer in use to `done`.
  void poll(std::vector<MemoryBlock*>& done);

  /// True if nothing is held back.
  bool empty() const noexcept { return events_ == 0 && deferred_.empty(); }

  /// Prepares a block, in use or held back, for the destruction of a stream in its list `recorded`: records an event on
  /// the stream, which is impossible later, and removes it from the list.
  void stream_ends(MemoryBlock* block, const StreamRef& stream);
  /// Call after the above for all blocks: forgets the stream once its events have completed.
  void stream_ends(const StreamRef& stream);

  /// True if a block waits for a stream that other code destroyed, without notification, and poll() has found that: no
  /// event can be recorded on it any more.
  bool has_gone_streams() const;

  /// Around a wait for all work of a device: blocks that were deferred before begin_wait() are no longer in use by its
  /// streams after end_wait(), which calls nothing, since such a stream may be destroyed.
  void begin_wait() noexcept;
  void end_wait(const Device& device) noexcept;

  /// The last event of each stream, and the backend for waiting: when they have completed, poll() returns all blocks
  /// with events. Such an event may be recorded again at any time, but is never destroyed.
  std::vector<std::pair<backend::Backend*, EventHandle>> last_events() const;

  /// Returns an event without timing, a reused one if possible; null on failure, which is reported unless `quiet`.
  EventHandle take_event(backend::Backend& backend, bool quiet = false) noexcept;
  void return_event(backend::Backend& backend, EventHandle event);

 private:
  struct Pending {
    EventHandle event;
    MemoryBlock* block;
    bool reported = false;  // a failed query was reported
  };
  // The events of one stream complete in the order of their records.
  struct StreamQueue {
    StreamRef stream;
    std::deque<Pending> pending;
    bool ended = false;  // the stream was destroyed
  };

  bool record(MemoryBlock* block, const StreamRef& stream);
  bool record_all(MemoryBlock* block);
  void defer(MemoryBlock* block);
  void poll_deferred(std::vector<MemoryBlock*>& done);
  void poll_stream(StreamQueue& queue, std::vector<MemoryBlock*>& done);

  std::size_t events_ = 0;              // in all queues
  std::vector<MemoryBlock*> deferred_;  // without events for the streams in `recorded`, which is not empty
  std::vector<StreamQueue> queues_;
  bool any_ended_ = false;  // of the queues
  std::vector<std::pair<backend::Backend*, EventHandle>> spare_events_;
};

}  // namespace reprise::memory
