// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "captures/capture.h"
#include "reprise/device.h"
#include "reprise/memory.h"

// How graphs learn that a block of the allocator which they use was freed, and how they keep one.

namespace reprise::memory {

struct BlockWatch;

/// An allocator whose blocks graphs watch.
class BlockOwner {
 public:
  /// A graph keeps the block, or one more does, until release(). False if it cannot be kept, or was freed already.
  virtual bool retain(BlockWatch& watch) = 0;
  virtual void release(BlockWatch& watch) noexcept = 0;  ///< on any thread, under anyone's capture
  /// Can a block that is retained be freed all the same?
  virtual bool frees_retained() const noexcept { return false; }
  /// Does nobody tell when a block is freed, so that ask() must find out before each replay?
  virtual bool is_asked() const noexcept { return false; }
  virtual void ask(BlockWatch& /*watch*/) noexcept {}
  /// Of a block that was freed: has somebody else its memory now, or a part of it?
  virtual bool is_given_out_again(const BlockWatch& watch) = 0;

 protected:
  ~BlockOwner() = default;
};

/// A block that graphs use, as they see it.
///
///     given out -> freed
///
/// Shared by the block, while it is given out, and the graphs. `retained` is guarded by the owner's mutex. What is
/// not const is written before `freed` is set, and read after.
struct BlockWatch {
  BlockOwner* const owner;
  std::byte* const address;
  const std::size_t bytes;
  const std::vector<std::string> created;  ///< the stack of the allocation; may be empty
  std::vector<std::string> freed_by = {};  ///< the stack of the free; may be empty
  unsigned retained = 0;                   ///< how many graphs keep it
  std::atomic<bool> freed{false};

  /// How often a block that is watched was freed, in the process; raised after `freed` was set. Never 0.
  static inline std::atomic<std::uint64_t> frees{1};
};

/// An address that a graph uses, and what is known of it.
struct UsedAddress {
  std::uintptr_t value = 0;
  bool in_allocator = false;               ///< it lies in memory of an allocator, given out or not
  bool own = false;                        ///< ... and in that of the graph's own pool
  std::shared_ptr<BlockWatch> watch = {};  ///< of the block that it lies in, if that is given out and not its own
};

/// Asks the allocators of all devices of a type. `addresses` are in ascending order; blocks of the pool `own` are not
/// watched.
void watch_addresses(DeviceType type, std::span<UsedAddress> addresses, MempoolId own);

/// The blocks that are freed while this object lives, besides those of the capture's own pool: its graph may use them.
/// Thread-safe. Its mutex comes after an allocator's.
class FreeLog {
 public:
  /// Of a capture, whose pool is the own one. To be destroyed before the capture's registration.
  explicit FreeLog(captures::Capture& capture);
  ~FreeLog();
  FreeLog(const FreeLog&) = delete;
  FreeLog& operator=(const FreeLog&) = delete;

  /// Fills in `watch` of those addresses that lay in such a block and are known to nobody else. They are in ascending
  /// order.
  void find(std::span<UsedAddress> addresses) const;

  /// Is there any such object? One relaxed load: who knows of one has seen it made.
  static bool any() noexcept { return living_.load(std::memory_order_relaxed) != 0; }
  /// Is there one that wants to know of a block of this pool?
  static bool any_for(MempoolId pool) noexcept;
  /// To be called for each such block that is freed, with the allocator's mutex.
  static void note(const std::shared_ptr<BlockWatch>& watch, MempoolId pool);

 private:
  static std::atomic<int> living_;
  struct Entries;
  template <class Visit>
  static void for_each_other(MempoolId pool, const Visit& visit);

  captures::Capture& capture_;
  const std::shared_ptr<Entries> entries_;
};

/// Blocks that a graph keeps. They are let go of by the destructor, on any thread, under anyone's capture.
class RetainedBlocks {
 public:
  RetainedBlocks() = default;
  ~RetainedBlocks();
  RetainedBlocks(const RetainedBlocks&) = delete;
  RetainedBlocks& operator=(const RetainedBlocks&) = delete;

  /// False if the block cannot be kept, or was freed already.
  bool add(const std::shared_ptr<BlockWatch>& watch);
  bool empty() const noexcept { return blocks_.empty(); }

 private:
  std::vector<std::shared_ptr<BlockWatch>> blocks_;
};

}  // namespace reprise::memory
