// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <memory>
#include <mutex>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "captures/registry.h"
#include "memory/block.h"
#include "memory/held_back.h"
#include "memory/pool.h"
#include "memory/size_classes.h"
#include "memory/watches/block_watch.h"
#include "reprise/memory.h"

namespace reprise {

/// The allocator of one device.
///
/// Locks. `mutex_` guards all state; under it only driver calls that return at once are made. What may wait for the
/// device (memory_allocate, memory_free, event_synchronize) is called without it. `releasing_` is held while segments
/// go back to the driver, so that a thread which was refused memory waits for those on their way; it is taken before
/// `mutex_`.
///
/// Captures. One is announced *before* the backend begins it, so that no allocation slips past the pool. While any
/// capture of the library is underway, allocate() queries which one the stream takes part in (captures::find_own);
/// otherwise it calls nothing. The first allocation for a stream of the capture opens its pool, unless that is open
/// (CapturePools).
class CachingAllocator::Impl final : public memory::BlockOwner {
 public:
  explicit Impl(Device device) : device_(device) {}
  ~Impl();
  Impl(const Impl&) = delete;
  Impl& operator=(const Impl&) = delete;

  void* allocate(std::size_t bytes, const StreamRef& stream);
  /// Takes the pool from `stream`, and a cached block from those of other words only: nodes captured before would
  /// overwrite in each replay what they used and freed.
  void* allocate_words(std::size_t bytes, const StreamRef& stream);
  void deallocate(void* pointer);
  void record_stream(void* pointer, const StreamRef& stream);
  void empty_cache();
  /// Waits for all work of the device: blocks that are deferred, also for streams which other code has destroyed, are
  /// no longer in use by its streams, and empty_cache() releases them. For callers with a captures::NoneBegins, while
  /// no capture is underway. \throws BackendError
  void synchronize_device();
  /// Waits for the device and returns its cached memory to the driver, unless a capture is underway: the wait would
  /// break it. No capture of this library begins during the wait.
  /// \throws BackendError if the device cannot be synchronized; 900 if a capture that this library did not begin is
  ///         underway on it.
  void synchronize_if_no_capture();
  /// True if blocks wait for streams which other code has destroyed.
  bool has_gone_streams();
  /// The same as empty_cache(), for callers with locks of their own: calls no code of users. True if memory was
  /// released.
  bool empty_cache_for_others();
  PoolStatistics statistics() const;
  PoolStatistics statistics(MempoolId pool) const;
  /// All private pools together, the sum of their peaks, and no names.
  PoolStatistics private_pools() const;
  /// For a `call` that allocates from the driver. \throws OutOfMemoryError
  [[noreturn]] void throw_driver_out_of_memory(const char* call, std::size_t bytes) const;
  void reset_peak();
  Device device() const noexcept { return device_; }

  struct UsedBlock {
    const std::byte* address;
    std::size_t bytes;  // as requested
  };
  /// The block in use that an address lies in: in constant time if it begins there, else as BlockTable::find_around().
  std::optional<UsedBlock> find_block(const void* address) const;
  /// True if the address lies in a private pool for which pool_launched() was not called.
  bool awaits_launch(const void* address) const;
  void pool_launched(MempoolId id) noexcept;

  // --- For captures. All are thread-safe. -------------------------------------------------------------------------

  /// One more graph holds the pool, which is made at first use.
  /// \param name of the graph; may be empty.
  /// \throws UsageError for the id that names no pool.
  void open_pool(MempoolId id, const std::string& name);

  /// One graph less. With none left, segments that are wholly free go back to the driver at once; others become cached
  /// memory that no graph needs when their last block is freed, and go back with it (empty_cache(), out of memory,
  /// another close_pool(): freeing a block must not wait for the device). With others left, those of the segments go
  /// back that were added after the last capture of theirs: none of these graphs uses them.
  /// \param name as given to open_pool().
  /// \param filling what begin_filling() returned for the capture of the graph; 0: it is not known, or there was none.
  void close_pool(MempoolId id, const std::string& name, std::uint64_t filling = 0) noexcept;

  /// Allocations for streams that take part in the capture come from its pool.
  /// \returns a number that no other call returns.
  /// \throws UsageError if no graph holds the pool, or another capture is filling it now.
  std::uint64_t begin_filling(const captures::Capture& capture);

  /// The capture ended or failed. Does nothing if it does not fill its pool.
  void end_filling(const captures::Capture& capture) noexcept;

  /// Returns blocks whose uses by other streams have completed to their pools; records events for those that were freed
  /// during captures, if none is underway any more.
  void return_held_back() noexcept;

  // --- For graphs that check or keep what they use: watches/watches.cpp -------------------------------------------

  /// Fills in what addresses mean to this allocator, in one pass; they are in ascending order. Blocks that are given
  /// out are watched from now on, unless they are of the pool `own`.
  void watch(std::span<memory::UsedAddress> addresses, std::span<const MempoolId> own);

  /// A block that is given out is the library's own, and no graph's input, until it is freed.
  void hide_from_graphs(void* pointer);

  /// One more graph keeps the block: when its owner frees it, it stays as it is. False if it was freed before.
  bool retain(memory::BlockWatch& watch) override;

  /// One graph less. With none left, a block that its owner freed is freed.
  void release(memory::BlockWatch& watch) noexcept override;

  bool is_given_out_again(const memory::BlockWatch& watch) override;

  // --- For streams ------------------------------------------------------------------------------------------------

  /// A stream is about to be destroyed. Its cached memory is given out for other streams once its work is done, and in
  /// a capture to those that come after it: its handle may come back for another stream, which would otherwise get
  /// memory that old work still uses.
  void stream_ends(const StreamRef& stream) noexcept;

 private:
  // A stream that was destroyed, or left a body, in one pool. The address of this object replaces the stream handle in
  // its blocks there, so that no new stream with the old handle matches them.
  struct EndedStream {
    memory::Pool* pool;
    // Members for the default pool.
    EventHandle event =
        nullptr;        // the end of its work; null when that is known to be reached, or could not be recorded
    bool done = false;  // other streams may use its segments
    // Members for a private pool, until the capture that fills it is over.
    StreamHandle handle = nullptr;
    GraphHandle graph = nullptr;             // that it captured; null: it is not known what comes after its work
    std::vector<GraphNodeHandle> last = {};  // what its next node would have depended on

    StreamHandle tag() noexcept { return reinterpret_cast<StreamHandle>(this); }
  };

  using Lock = std::unique_lock<std::mutex>;

  // allocator_impl.cpp
  void* allocate_for(std::size_t bytes, const StreamRef& stream, StreamHandle owner);
  void* allocate_block(std::size_t bytes, const StreamRef& stream, StreamHandle owner);
  void keep_for_later_iterations(memory::MemoryBlock& block) const;
  void free_block(memory::MemoryBlock* block);
  memory::Pool& pool_of(Lock& lock, captures::Capture& capture);
  memory::Pool* pool_filled_by(const captures::Capture& capture) noexcept;
  memory::MemoryBlock* take_cached(memory::Pool& pool, const memory::Request& request, StreamHandle stream);
  void* give_out(memory::MemoryBlock* block, const memory::Request& request);
  void make_cached(memory::MemoryBlock* block);
  memory::MemoryBlock* join(memory::MemoryBlock* lower, memory::MemoryBlock* upper);
  void poll_held_back();
  memory::MemoryBlock* block_in_use(void* pointer, const char* call, const char* advice) const;

  // watches/watches.cpp
  void keep_stack(void* pointer);
  bool is_kept(memory::MemoryBlock& block);
  void record_free(memory::MemoryBlock* block, std::vector<std::string> stack);

  // segments.cpp
  void* allocate_from_driver(Lock& lock, memory::Pool& pool, const memory::Request& request, std::size_t bytes,
                             StreamHandle stream);
  memory::MemoryBlock* new_segment(Lock& lock, memory::Pool& pool, const memory::Request& request, StreamHandle stream);
  void release_unused();
  backend::Result release_cached(const memory::Pool* only);
  void settle_release(memory::MemoryBlock* block, bool released);
  void wait_for_held_back();

  // out_of_memory.cpp
  // What all pools hold: "1.0 MiB, 512 bytes of it in use:", and a line for each pool, with its graphs. With the mutex
  // held, as the next one.
  std::string holdings_text() const;
  OutOfMemoryError::Statistics statistics_without_memory(std::size_t bytes) const;
  [[noreturn]] void throw_out_of_memory(std::size_t bytes, const memory::Request& request, const memory::Pool& pool);

  // ended_streams.cpp
  void stream_ends(const StreamRef& stream, memory::Pool& pool);
  memory::MemoryBlock* adopt(memory::Pool& pool, const memory::Request& request, StreamHandle stream);
  void leave_blocks(const StreamRef& stream, memory::Pool& pool);
  bool is_done(EndedStream& ended);
  void retag_blocks(StreamHandle from, std::unique_ptr<EndedStream> ended);
  void retag_blocks(memory::Pool& pool, StreamHandle from, StreamHandle to);
  void give_handles_back(memory::Pool& pool);
  void forget_ended_streams();

  const Device device_;
  std::mutex releasing_;
  mutable std::mutex mutex_;
  memory::BlockTable blocks_;
  memory::Pool default_pool_;
  memory::PoolMap private_pools_;
  std::uint64_t fillings_ = 0;  // by captures, of all pools
  memory::HeldBackBlocks held_back_;
  std::vector<memory::MemoryBlock*> done_;  // for poll_held_back(), so that it needs no memory of the host
  std::vector<std::unique_ptr<EndedStream>> ended_streams_;
  PoolStatistics total_;
};

namespace memory {

/// The block of the device's allocator in which `bytes` at `address` begin, if they end beyond it; else nullopt. The
/// runtime knows the segment alone, which has other blocks, too. Locks the allocator's mutex.
inline std::optional<CachingAllocator::Impl::UsedBlock> exceeded_block(const Device& device, const void* address,
                                                                       std::size_t bytes) {
  const CachingAllocator::Impl& allocator = CachingAllocator::of(device).impl();
  const auto block = allocator.find_block(address);
  if (!block) return std::nullopt;
  const auto offset = static_cast<std::size_t>(static_cast<const std::byte*>(address) - block->address);
  // An address in the bytes that rounding added to the block is not the user's.
  return offset <= block->bytes && bytes <= block->bytes - offset ? std::nullopt : block;
}

}  // namespace memory
}  // namespace reprise
