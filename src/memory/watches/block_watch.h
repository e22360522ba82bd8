// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <span>
#include <string>
#include <vector>

#include "captures/capture.h"
#include "reprise/detail/export.h"
#include "reprise/device.h"
#include "reprise/memory.h"

// Notifies graphs when a block of the allocator that they use is freed, and keeps blocks alive for them.

namespace reprise::memory {

struct BlockWatch;

/// An allocator whose blocks graphs watch.
class BlockOwner {
 public:
  /// Keeps the block alive for a graph, until release(). False if it cannot be kept, or was freed already.
  virtual bool retain(BlockWatch& watch) = 0;
  virtual void release(BlockWatch& watch) noexcept = 0;  ///< on any thread, during any capture
  /// True if a retained block can still be freed.
  virtual bool frees_retained() const noexcept { return false; }
  /// True if frees are not notified, so that query() must be called before each replay.
  virtual bool needs_query() const noexcept { return false; }
  virtual void query(BlockWatch& /*watch*/) noexcept {}
  /// For a freed block: true if its memory, or a part of it, was allocated again.
  virtual bool is_given_out_again(const BlockWatch& watch) = 0;

 protected:
  ~BlockOwner() = default;
};

/// Records the free of a block that graphs use.
///
///     in use -> freed
///
/// Shared by the block, while in use, and the graphs. `retained` is guarded by the owner's mutex. Other mutable members
/// are written before `freed` is set, and read after.
struct REPRISE_EXPORT_INTERNAL BlockWatch {
  BlockOwner* const owner;
  std::byte* const address;
  const std::size_t bytes;
  const std::vector<std::string> created;  ///< the stack of the allocation; may be empty
  std::vector<std::string> freed_by = {};  ///< the stack of the free; may be empty
  unsigned retained = 0;                   ///< number of graphs that keep it
  std::atomic<bool> freed{false};

  /// Number of frees of watched blocks in the process, plus 1; incremented after `freed` was set.
  static inline std::atomic<std::uint64_t> frees{1};
};

/// An address that a graph uses, and its block.
struct UsedAddress {
  std::uintptr_t value = 0;
  bool in_allocator = false;               ///< in memory of an allocator, in use or not
  bool own = false;                        ///< ... and in a pool that the graph owns, or hidden
  bool hidden = false;                     ///< ... and hidden from graphs: the library's own
  std::shared_ptr<BlockWatch> watch = {};  ///< of its block, if that is in use and not in such a pool
  /// A free block of the common pool that has the address, and perhaps is several freed ones.
  std::shared_ptr<BlockWatch> free = {};
  /// In memory of an allocator: the address one past the end of what was requested, as far as it is known.
  std::uintptr_t end = 0;
};

/// Looks addresses up in the allocators of all devices of a type. `addresses` must be sorted; blocks of the pools `own`
/// are not watched.
REPRISE_EXPORT_INTERNAL void watch_addresses(const Device& device, std::span<UsedAddress> addresses,
                                             std::span<const MempoolId> own);

/// Records the blocks freed during its lifetime, except those of the capture's own pools: its graph may use them.
/// Thread-safe. The mutex of all logs is locked after an allocator's.
class REPRISE_EXPORT_INTERNAL FreeLog {
 public:
  enum class Which {
    all,
    common,  ///< of the common pool only: what other graphs' pools have is not given to anything else
    kept,    ///< all; blocks that can be kept stay as they are until the log is destroyed, for a graph to retain them
  };
  /// Excludes the pools of this capture. To be destroyed before the capture's registration, without a lock.
  FreeLog(const captures::Capture& capture, Which which) : FreeLog(&capture, which) {}
  /// Blocks of the common pool, in captures and between them.
  FreeLog() : FreeLog(nullptr, Which::common) {}
  ~FreeLog();
  FreeLog(const FreeLog&) = delete;
  FreeLog& operator=(const FreeLog&) = delete;

  /// Sets `watch` of the addresses that lay in such a block and are not resolved otherwise. They must be sorted.
  void find(std::span<UsedAddress> addresses) const;
  bool empty() const;  ///< nothing was freed, except for what is kept

  /// True if any such object exists. One relaxed load: the reader must have been ordered after its construction.
  static bool any() noexcept { return living_.load(std::memory_order_relaxed) != 0; }
  /// True if an object records blocks of this pool.
  static bool any_for(MempoolId pool) noexcept;
  /// Called for each such block that is freed, with the allocator's mutex locked.
  static void note(const std::shared_ptr<BlockWatch>& watch, MempoolId pool);
  /// True if an object keeps blocks of this pool and of devices such as this one: those of the same runtime, which is
  /// there as long as the capture.
  static bool any_keeps(const Device& device, MempoolId pool) noexcept;
  /// Called for a block that is about to be freed, and that its owner can keep, with the allocator's mutex locked:
  /// counts the objects that keep it in BlockWatch::retained.
  static void keep(const std::shared_ptr<BlockWatch>& watch, const Device& device, MempoolId pool);

 private:
  FreeLog(const captures::Capture* capture, Which which);
  bool records(MempoolId pool) const;
  bool keeps(const Device& device, MempoolId pool) const;

  static std::atomic<int> living_;
  static std::mutex mutex_;  // guards the list, and the entries of all logs
  static FreeLog* first_;

  const captures::Capture* const capture_;
  const Which which_;
  FreeLog* next_;
  std::map<std::byte*, std::shared_ptr<BlockWatch>> freed_;  // by address, the last one that began there
  std::vector<std::shared_ptr<BlockWatch>> kept_;
};

/// Blocks that a graph keeps alive. Released by the destructor, on any thread, during any capture.
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
