// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <cstdint>
#include <deque>
#include <functional>
#include <iterator>
#include <map>
#include <memory>
#include <set>
#include <string>
#include <unordered_map>
#include <utility>
#include <vector>

#include "reprise/memory.h"

namespace reprise::memory {

struct BlockWatch;
struct Pool;
struct MemoryBlock;

/// The state of a block.
enum class BlockState {
  in_use,     ///< returned by allocate()
  retained,   ///< freed by its owner, but a graph keeps it; counts as allocated
  held_back,  ///< freed, but work of other streams may still use it: in HeldBackBlocks
  cached,     ///< free: in one of its pool's sets
  releasing,  ///< a whole segment being freed to the driver: in no set, and hidden in the BlockTable
};

/// The key of a search in a FreeSet: the smallest block of `stream` of at least `bytes`.
struct BlockKey {
  StreamHandle stream = nullptr;
  std::size_t bytes = 0;
};

/// Orders by stream, size, address: the first block that is not before a key is the best fit.
struct BlockOrder {
  using is_transparent = void;
  bool operator()(const MemoryBlock* a, const MemoryBlock* b) const noexcept;
  bool operator()(const MemoryBlock* a, const BlockKey& b) const noexcept;
  bool operator()(const BlockKey& a, const MemoryBlock* b) const noexcept;
};

/// Hashes an address by the high bits of a product: the low bits of blocks' addresses are always 0.
struct AddressHash {
  std::size_t operator()(const void* address) const noexcept {
    return static_cast<std::size_t>((reinterpret_cast<std::uintptr_t>(address) * 0x9E3779B97F4A7C15u) >> 20);
  }
};

/// True of the handle of a stream, false of a number that stands for a thread or for words: it is no address.
inline bool is_stream(StreamHandle owner) noexcept {
  return (reinterpret_cast<std::uintptr_t>(owner) >> 63) == 0;
}

using BlockSet = std::set<MemoryBlock*, BlockOrder>;
using BlockMap = std::unordered_map<const void*, MemoryBlock*, AddressHash>;
using SegmentMap = std::map<const void*, MemoryBlock*, std::less<>>;

/// A part of a segment. The blocks of a segment are a list in the order of their addresses; a block without neighbours
/// is a whole segment. Guarded by the allocator's mutex.
struct MemoryBlock {
  std::byte* address = nullptr;
  std::size_t bytes = 0;
  /// The stream that it is allocated for, a number that stands for a thread or for words (allocator_impl.cpp), or the
  /// tag of a stream that has ended; the same for a whole segment.
  StreamHandle stream = nullptr;
  Pool* pool = nullptr;
  MemoryBlock* previous = nullptr;  ///< the neighbour below, or null at the start of the segment
  MemoryBlock* next = nullptr;      ///< the neighbour above, or null at the end of the segment
  BlockState state = BlockState::in_use;
  std::size_t requested = 0;        ///< while it is in use: the bytes requested
  std::uint64_t filling = 0;        ///< Pool::last_filling when the segment was allocated; the same for all of it
  bool small = false;               ///< which of its pool's sets it goes to
  bool deferred = false;            ///< held back without events, in the list of HeldBackBlocks
  bool gone_stream = false;         ///< deferred, and the last query found a stream of `recorded` destroyed
  bool waited = false;              ///< deferred before the last HeldBackBlocks::begin_wait()
  bool unrecorded = false;          ///< held back, and the failure to record an event was reported
  bool captured_use = false;        ///< once freed, it is held back until no capture is underway
  bool hidden = false;              ///< never an input of a graph: hide_from_graphs()
  unsigned pending_events = 0;      ///< number of events of streams that used it, not completed yet
  std::vector<StreamRef> recorded;  ///< streams of record_stream()

  std::shared_ptr<BlockWatch> watch = {};  ///< while it is in use or retained, if a graph uses it
  std::vector<std::string> created = {};   ///< the stack of its allocation, if stacks were recorded then

  /// The tree and table nodes of this block while it is in no tree or table, kept so that allocating and freeing a
  /// cached block needs no host memory.
  BlockSet::node_type set_node = {};
  BlockMap::node_type map_node = {};
  SegmentMap::node_type segment_node = {};  ///< of a whole segment that is hidden

  bool is_whole_segment() const noexcept { return previous == nullptr && next == nullptr; }
  bool is_given_out() const noexcept { return state == BlockState::in_use || state == BlockState::retained; }
};

inline bool BlockOrder::operator()(const MemoryBlock* a, const MemoryBlock* b) const noexcept {
  if (a->stream != b->stream) return std::less<>{}(a->stream, b->stream);
  if (a->bytes != b->bytes) return a->bytes < b->bytes;
  return a->address < b->address;
}
inline bool BlockOrder::operator()(const MemoryBlock* a, const BlockKey& b) const noexcept {
  return a->stream != b.stream ? std::less<>{}(a->stream, b.stream) : a->bytes < b.bytes;
}
inline bool BlockOrder::operator()(const BlockKey& a, const MemoryBlock* b) const noexcept {
  return a.stream != b->stream ? std::less<>{}(a.stream, b->stream) : a.bytes < b->bytes;
}

/// The cached blocks of one size class of a pool.
class FreeSet {
 public:
  void insert(MemoryBlock* block) {
    if (block->set_node) {
      block->set_node.value() = block;
      blocks_.insert(std::move(block->set_node));
    } else {
      blocks_.insert(block);
    }
  }
  void erase(MemoryBlock* block) { block->set_node = blocks_.extract(blocks_.find(block)); }

  /// Removes and returns the best fit, or null.
  MemoryBlock* take(const BlockKey& key) {
    const auto found = blocks_.lower_bound(key);
    if (found == blocks_.end() || (*found)->stream != key.stream) return nullptr;
    MemoryBlock* const block = *found;
    block->set_node = blocks_.extract(found);
    return block;
  }

  /// Returns the smallest whole segment of at least that size, which stays in the set, or null.
  MemoryBlock* whole_segment(const BlockKey& key) const {
    for (auto found = blocks_.lower_bound(key); found != blocks_.end() && (*found)->stream == key.stream; ++found)
      if ((*found)->is_whole_segment()) return *found;
    return nullptr;
  }

  /// Removes and returns all whole segments whose MemoryBlock::filling is `first` or a later one.
  void take_whole_segments(std::vector<MemoryBlock*>& into, std::uint64_t first) {
    for (auto at = blocks_.begin(); at != blocks_.end();) {
      MemoryBlock* const block = *at;
      const auto here = at++;
      if (!block->is_whole_segment() || block->filling < first) continue;
      into.push_back(block);
      block->set_node = blocks_.extract(here);
    }
  }

 private:
  BlockSet blocks_;
};

/// All blocks of an allocator, in any state, by address; owns them.
class BlockTable {
 public:
  MemoryBlock* find(const void* address) const {
    const auto found = by_address_.find(address);
    return found == by_address_.end() ? nullptr : found->second;
  }

  /// The block that an address lies in; walks through the blocks of its segment that are below.
  MemoryBlock* find_around(const void* address) const {
    const auto above = segments_.upper_bound(address);
    if (above == segments_.begin()) return nullptr;
    MemoryBlock* block = std::prev(above)->second;
    while (block != nullptr && !std::less<>{}(address, static_cast<const void*>(block->address + block->bytes)))
      block = block->next;
    return block;
  }

  MemoryBlock* make_segment(std::byte* address, std::size_t bytes) {
    const auto segment = segments_.emplace(address, nullptr).first;
    try {
      return segment->second = make(address, bytes);
    } catch (...) {
      segments_.erase(segment);
      throw;
    }
  }

  /// A part of a segment that has a block below it.
  MemoryBlock* make(std::byte* address, std::size_t bytes) {
    if (spare_.empty()) make_spare();
    MemoryBlock* const block = spare_.back();
    block->address = address;
    block->bytes = bytes;
    if (block->map_node) {
      block->map_node.key() = address;
      by_address_.insert(std::move(block->map_node));
    } else {
      by_address_.emplace(address, block);
    }
    spare_.pop_back();
    return block;
  }

  /// Keeps the entries of a whole segment, but nothing finds it: as soon as it is freed, the driver may return the same
  /// address to other code.
  void hide(MemoryBlock* segment) {
    segment->map_node = by_address_.extract(segment->address);
    segment->segment_node = segments_.extract(static_cast<const void*>(segment->address));
  }
  void show(MemoryBlock* segment) {
    by_address_.insert(std::move(segment->map_node));
    segments_.insert(std::move(segment->segment_node));
  }

  /// Destroys a block that has one below it, or a hidden segment; it must be in no set.
  void remove(MemoryBlock* block) {
    if (!block->map_node) block->map_node = by_address_.extract(block->address);
    block->segment_node = {};
    block->stream = nullptr;
    block->pool = nullptr;
    block->previous = block->next = nullptr;
    spare_.push_back(block);
  }

  template <class F>
  void for_each(F&& f) const {
    for (const auto& entry : by_address_) f(entry.second);
  }

 private:
  // With its tree node, so that a block that exists can always be cached; spare_ has room for all blocks.
  void make_spare() {
    if (spare_.capacity() <= storage_.size()) spare_.reserve(std::max(2 * spare_.capacity(), storage_.size() + 1));
    MemoryBlock& made = storage_.emplace_back();
    try {
      BlockSet tree;
      tree.insert(&made);
      made.set_node = tree.extract(tree.begin());
    } catch (...) {
      storage_.pop_back();
      throw;
    }
    spare_.push_back(&made);
  }

  std::deque<MemoryBlock> storage_;
  std::vector<MemoryBlock*> spare_;
  BlockMap by_address_;
  SegmentMap segments_;  // the lowest block of each
};

}  // namespace reprise::memory
