// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <deque>
#include <functional>
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

/// Where a block is in its life.
enum class BlockState {
  in_use,     ///< given out by allocate()
  retained,   ///< freed by its owner, but a graph keeps it; counts as allocated
  held_back,  ///< freed, but work of other streams may still use it: in HeldBackBlocks
  cached,     ///< free: in one of its pool's sets
  releasing,  ///< a whole segment on its way back to the driver: in no set, and hidden in the BlockTable
};

/// What to look for in a FreeSet: the smallest block of `stream` of at least `bytes`.
struct BlockKey {
  StreamHandle stream = nullptr;
  std::size_t bytes = 0;
};

/// By stream, then size, then address: the first block that is not before a key is the best fit.
struct BlockOrder {
  using is_transparent = void;
  bool operator()(const MemoryBlock* a, const MemoryBlock* b) const noexcept;
  bool operator()(const MemoryBlock* a, const BlockKey& b) const noexcept;
  bool operator()(const BlockKey& a, const MemoryBlock* b) const noexcept;
};

/// Addresses are multiples of 512, most of them of much more: their low bits say nothing, so the hash is taken from the
/// high bits of a product.
struct AddressHash {
  std::size_t operator()(const void* address) const noexcept {
    return static_cast<std::size_t>((reinterpret_cast<std::uintptr_t>(address) * 0x9E3779B97F4A7C15u) >> 20);
  }
};

using BlockSet = std::set<MemoryBlock*, BlockOrder>;
using BlockMap = std::unordered_map<const void*, MemoryBlock*, AddressHash>;

/// A piece of a segment. The blocks of a segment are a list in the order of their addresses; a block without
/// neighbours is a whole segment. Everything in it is guarded by the allocator's mutex.
struct MemoryBlock {
  std::byte* address = nullptr;
  std::size_t bytes = 0;
  StreamHandle stream = nullptr;  ///< in whose order of work it is given out; the same for a whole segment
  Pool* pool = nullptr;
  MemoryBlock* previous = nullptr;  ///< the neighbour below, or null at the start of the segment
  MemoryBlock* next = nullptr;      ///< the neighbour above, or null at the end of the segment
  BlockState state = BlockState::in_use;
  bool small = false;               ///< which of its pool's sets it goes to
  bool deferred = false;            ///< held back without events, in HeldBackBlocks' list
  bool unrecorded = false;          ///< held back, and an event could not be recorded: that was reported
  bool hidden = false;              ///< no input of any graph: hide_from_graphs()
  unsigned pending_events = 0;      ///< events of streams that used it, not reached yet
  std::vector<StreamRef> recorded;  ///< streams of record_stream()

  std::shared_ptr<BlockWatch> watch = {};  ///< while it is in use or retained, if a graph uses it
  std::vector<std::string> created = {};   ///< the stack of its allocation, if stacks were recorded then

  /// The tree and table nodes of this block while it is in no tree or table: taken out and put in again, so that
  /// allocating and freeing a cached block needs no memory of the host.
  BlockSet::node_type set_node = {};
  BlockMap::node_type map_node = {};

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

  /// Takes the best fit out, or returns null.
  MemoryBlock* take(const BlockKey& key) {
    const auto found = blocks_.lower_bound(key);
    if (found == blocks_.end() || (*found)->stream != key.stream) return nullptr;
    MemoryBlock* const block = *found;
    block->set_node = blocks_.extract(found);
    return block;
  }

  /// Takes out the smallest block of at least that size which is a whole segment, or returns null.
  MemoryBlock* take_whole_segment(const BlockKey& key) {
    for (auto found = blocks_.lower_bound(key); found != blocks_.end() && (*found)->stream == key.stream; ++found) {
      if (!(*found)->is_whole_segment()) continue;
      MemoryBlock* const block = *found;
      block->set_node = blocks_.extract(found);
      return block;
    }
    return nullptr;
  }

  /// Takes out all that are whole segments.
  void take_whole_segments(std::vector<MemoryBlock*>& into) {
    for (auto at = blocks_.begin(); at != blocks_.end();) {
      MemoryBlock* const block = *at;
      const auto here = at++;
      if (!block->is_whole_segment()) continue;
      into.push_back(block);
      block->set_node = blocks_.extract(here);
    }
  }

 private:
  BlockSet blocks_;
};

/// All blocks of an allocator, in whatever state, by address; owns them.
class BlockTable {
 public:
  MemoryBlock* find(const void* address) const {
    const auto found = by_address_.find(address);
    return found == by_address_.end() ? nullptr : found->second;
  }

  MemoryBlock* make(std::byte* address, std::size_t bytes) {
    if (spare_.empty()) spare_.push_back(&storage_.emplace_back());
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

  /// The block keeps its place, but is not found any more: from the moment that the driver has the address back, it may
  /// give it to someone else.
  void hide(MemoryBlock* block) { block->map_node = by_address_.extract(block->address); }
  void show(MemoryBlock* block) { by_address_.insert(std::move(block->map_node)); }

  /// The block is no more; it must be in no set.
  void remove(MemoryBlock* block) {
    if (!block->map_node) hide(block);
    block->stream = nullptr;
    block->pool = nullptr;
    block->previous = block->next = nullptr;
    spare_.push_back(block);
  }

  template <class F>
  void for_each(F&& f) {
    for (const auto& entry : by_address_) f(entry.second);
  }

 private:
  std::deque<MemoryBlock> storage_;
  std::vector<MemoryBlock*> spare_;
  BlockMap by_address_;
};

}  // namespace reprise::memory
