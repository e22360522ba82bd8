// SPDX-License-Identifier: Apache-2.0
#include <algorithm>

#include "memory/allocator_impl.h"
#include "memory/watches/allocation_stacks.h"

// Blocks that graphs watch and keep alive.

namespace reprise {

using memory::BlockState;
using memory::BlockWatch;
using memory::MemoryBlock;
using memory::UsedAddress;

namespace {

std::uintptr_t begin_of(const MemoryBlock* block) {
  return reinterpret_cast<std::uintptr_t>(block->address);
}

std::shared_ptr<BlockWatch> make_watch(CachingAllocator::Impl* allocator, const MemoryBlock& block) {
  return std::shared_ptr<BlockWatch>(new BlockWatch{allocator, block.address, block.bytes, block.created});
}

std::shared_ptr<BlockWatch> freed_watch(CachingAllocator::Impl* allocator, const MemoryBlock& block) {
  auto watch = make_watch(allocator, block);
  watch->freed.store(true, std::memory_order_relaxed);
  return watch;
}

}  // namespace

void CachingAllocator::Impl::watch(std::span<UsedAddress> addresses, std::span<const MempoolId> own) {
  const Lock lock(mutex_);
  std::vector<MemoryBlock*> blocks;
  blocks_.for_each([&](MemoryBlock* block) { blocks.push_back(block); });
  std::ranges::sort(blocks, {}, begin_of);
  auto at = blocks.begin();
  for (UsedAddress& used : addresses) {
    while (at != blocks.end() && begin_of(*at) + (*at)->bytes <= used.value) ++at;
    if (at == blocks.end()) return;
    MemoryBlock& block = **at;
    if (used.value < begin_of(&block)) continue;
    used.in_allocator = true;
    used.hidden = block.hidden;
    used.own = block.hidden || std::ranges::find(own, block.pool->id) != own.end();
    used.end = begin_of(&block) + (block.is_given_out() ? block.requested : block.bytes);
    if (used.own) continue;
    if (!block.is_given_out()) {
      if (!block.pool->is_private()) used.free = freed_watch(this, block);
      continue;
    }
    if (block.watch == nullptr) block.watch = make_watch(this, block);
    used.watch = block.watch;
  }
}

void CachingAllocator::Impl::hide_from_graphs(void* pointer) {
  const Lock lock(mutex_);
  block_in_use(pointer, "hide_from_graphs()", "call it before the block is freed")->hidden = true;
}

bool CachingAllocator::Impl::retain(BlockWatch& watch) {
  const Lock lock(mutex_);
  if (watch.freed.load(std::memory_order_relaxed)) return false;
  watch.retained += 1;
  return true;
}

void CachingAllocator::Impl::release(BlockWatch& watch) noexcept {
  try {
    const Lock lock(mutex_);
    watch.retained -= 1;
    if (watch.retained != 0) return;
    MemoryBlock* const block = blocks_.find(watch.address);  // kept, so it exists
    if (block->state != BlockState::retained) return;
    std::vector<std::string> stack = std::move(watch.freed_by);
    record_free(block, std::move(stack));
    free_block(block);
  } catch (const std::exception& error) {
    warn(error.what());
  }
}

bool CachingAllocator::Impl::is_given_out_again(const BlockWatch& watch) {
  const Lock lock(mutex_);
  bool found = false;
  blocks_.for_each([&](const MemoryBlock* block) {
    found |= block->is_given_out() && block->address < watch.address + watch.bytes &&
             watch.address < block->address + block->bytes;
  });
  return found;
}

void CachingAllocator::Impl::keep_stack(void* pointer) {
  if (pointer == nullptr) return;
  std::vector<std::string> stack = memory::allocation_stack();
  const Lock lock(mutex_);
  blocks_.find(pointer)->created = std::move(stack);  // the address is not published yet
}

// True if a graph keeps a block that is about to be freed, or a capture whose graph may.
bool CachingAllocator::Impl::is_kept(MemoryBlock& block) {
  if (!block.hidden && memory::FreeLog::any() && memory::FreeLog::any_keeps(device_, block.pool->id)) {
    if (block.watch == nullptr) block.watch = make_watch(this, block);
    memory::FreeLog::keep(block.watch, device_, block.pool->id);
  }
  return block.watch != nullptr && block.watch->retained != 0;
}

// Takes the watch from a block that is about to be freed.
void CachingAllocator::Impl::record_free(MemoryBlock* block, std::vector<std::string> stack) {
  const bool journals = !block->hidden && memory::FreeLog::any() && memory::FreeLog::any_for(block->pool->id);
  const bool is_watched = block->watch != nullptr;
  if (!is_watched && journals) block->watch = make_watch(this, *block);
  if (block->watch == nullptr) return;
  if (journals) memory::FreeLog::note(block->watch, block->pool->id);  // may throw, before anything has changed
  const std::shared_ptr<BlockWatch> watch = std::move(block->watch);
  watch->freed_by = std::move(stack);
  watch->freed.store(true, std::memory_order_release);
  if (is_watched) BlockWatch::frees.fetch_add(1, std::memory_order_release);
}

}  // namespace reprise
