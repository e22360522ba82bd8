// SPDX-License-Identifier: Apache-2.0
#include "libtorch/cuda/cuda_blocks.h"

#include <c10/cuda/CUDACachingAllocator.h>
#include <c10/util/ScopeExit.h>

#include <algorithm>
#include <optional>
#include <utility>

#include "captures/registry.h"
#include "libtorch/cuda/cuda_tensors.h"
#include "libtorch/cuda/tensor_pool.h"
#include "memory/watches/allocation_log.h"
#include "memory/watches/allocation_stacks.h"
#include "reprise/error.h"
#include "text/format.h"

namespace reprise::libtorch {

namespace c10_allocator = c10::cuda::CUDACachingAllocator;
using Block = backend::Framework::Block;
using memory::BlockWatch;
using memory::FreeLog;
using memory::UsedAddress;
using version::TraceEntry;

namespace {

MempoolId pool_id(const version::PoolId& id) {
  return pool_of_libtorch({id.first, id.second});
}

std::byte* pointer(std::uintptr_t address) {
  return reinterpret_cast<std::byte*>(address);
}

// The name of the allocator that libtorch uses; nullopt if that is its own.
std::optional<std::string> other_allocator() {
  std::string name = c10_allocator::get()->name();
  if (name == "native") return std::nullopt;
  return name;
}

// Returns the blocks of all devices, or of one, by address.
std::vector<Block> blocks_now(std::optional<int> device = {}) {
  std::vector<Block> blocks;
  for (const auto& segment : version::snapshot({0, 0}).segments) {
    if (device && segment.device != *device) continue;
    std::uintptr_t address = segment.address;
    for (const auto& block : segment.blocks) {
      blocks.push_back({address, block.size, segment.address, pool_id(segment.owner_private_pool_id), block.allocated});
      address += block.size;
    }
  }
  std::ranges::sort(blocks, {}, &Block::address);
  return blocks;
}

}  // namespace

std::vector<Block> cuda_blocks(const Device& device) {
  if (!has_cuda_tensors() || !c10_allocator::get()->initialized()) return {};
  if (const auto name = other_allocator())
    throw UsageError(text::format(
        "compare: memory of CUDA tensors is compared where libtorch has its native caching allocator; found another "
        "one, {}, which does not report its blocks: remove PYTORCH_CUDA_ALLOC_CONF=backend. Nothing was executed.",
        *name));
  return blocks_now(device.index());
}

bool CudaBlocks::are_known() {
  return !other_allocator();
}

OperatorInputs::Ranges CudaBlocks::memory_besides(std::span<const MempoolId> own) {
  OperatorInputs::Ranges found;
  for (const Block& block : blocks_now())
    if (std::ranges::find(own, block.pool) == own.end()) found.emplace(block.address, block.address + block.bytes);
  return found;
}

CudaBlocks& CudaBlocks::without_frees() {
  static support::Immortal<CudaBlocks> instance;  // tensors may be freed until the process ends
  return *instance;
}

CudaBlocks& CudaBlocks::get() {
  CudaBlocks& blocks = without_frees();
  std::call_once(blocks.attached_, [&] { blocks.attach(); });
  return blocks;
}

void CudaBlocks::attach() {
  if (const auto name = other_allocator())
    throw UsageError(
        text::format("The inputs and frozen values of a graph are found with libtorch's native caching allocator. This "
                     "process uses another one, {}, which does not report its blocks: remove check_input_liveness, "
                     "inputs.retain and check_frozen_values, or PYTORCH_CUDA_ALLOC_CONF=backend.",
                     *name));
  c10_allocator::attachAllocatorTraceTracker([this](const TraceEntry& entry) { on_trace(entry); });
}

// With the allocator's lock.
void CudaBlocks::on_trace(const TraceEntry& entry) try {
  if (entry.action_ == TraceEntry::ALLOC && memory::allocation_stacks_are_recorded()) [[unlikely]]
    block_made(entry.addr_);
  if (entry.action_ == TraceEntry::ALLOC && captures::any_underway()) [[unlikely]]
    memory::AllocationLog::note(pool_id(entry.mempool_), pointer(entry.addr_), entry.size_);
  if (entry.action_ == TraceEntry::FREE_REQUESTED &&
      (interesting_.load(std::memory_order_relaxed) != 0 || FreeLog::any())) [[unlikely]]
    block_freed(entry);
} catch (const std::exception& error) {
  warn(text::format("The free of a CUDA tensor's memory could not be noted, and a graph may use it: {}", error.what()));
}

void CudaBlocks::block_made(std::uintptr_t address) {
  std::vector<std::string> stack = memory::allocation_stack();
  const std::lock_guard lock(mutex_);
  if (stacks_.insert_or_assign(address, std::move(stack)).second) interesting_.fetch_add(1);
}

void CudaBlocks::block_freed(const TraceEntry& entry) {
  const bool journals = FreeLog::any() && FreeLog::any_for(pool_id(entry.mempool_));
  std::shared_ptr<StorageWatch> watch;
  {
    const std::lock_guard lock(mutex_);
    if (looking_ != 0) freed_now_.insert(entry.addr_);
    if (auto known = watched_.extract(entry.addr_)) {
      interesting_.fetch_sub(1);
      watch = known.mapped().lock();
    }
    std::vector<std::string> created;
    if (auto stack = stacks_.extract(entry.addr_)) {
      interesting_.fetch_sub(1);
      created = std::move(stack.mapped());
    }
    if (watch == nullptr && journals)
      watch = std::shared_ptr<StorageWatch>(
          new StorageWatch{{this, pointer(entry.addr_), entry.size_, std::move(created)}});
  }
  if (watch == nullptr) return;
  if (memory::allocation_stacks_are_recorded()) watch->freed_by = memory::allocation_stack();
  watch->freed.store(true, std::memory_order_release);
  if (journals) FreeLog::note(watch, pool_id(entry.mempool_));
  BlockWatch::frees.fetch_add(1, std::memory_order_release);
}

std::vector<std::string> CudaBlocks::stack_of(std::uintptr_t address) const {
  const auto known = stacks_.find(address);
  return known != stacks_.end() ? known->second : std::vector<std::string>();
}

std::shared_ptr<BlockWatch> CudaBlocks::freed_watch(const Block& block) {
  auto watch = std::shared_ptr<StorageWatch>(new StorageWatch{{this, pointer(block.address), block.bytes, {}}});
  watch->freed.store(true, std::memory_order_relaxed);
  return watch;
}

// With the mutex.
std::shared_ptr<BlockWatch> CudaBlocks::watch(const Block& block, const WeakStorages& storages) {
  std::weak_ptr<StorageWatch>& known = watched_[block.address];
  std::shared_ptr<StorageWatch> watch = known.lock();
  if (watch == nullptr) {
    watch = std::shared_ptr<StorageWatch>(
        new StorageWatch{{this, pointer(block.address), block.bytes, stack_of(block.address)}});
    known = watch;
  }
  watch->storages.insert(watch->storages.end(), storages.begin(), storages.end());
  return watch;
}

void CudaBlocks::find(std::span<UsedAddress> addresses, std::span<const MempoolId> own,
                      const std::function<WeakStorages(const void*, std::size_t)>& storages_in) {
  const auto look = [this](int by) {
    const std::lock_guard lock(mutex_);
    looking_ += by;
    interesting_.fetch_add(static_cast<std::size_t>(by));
    if (looking_ == 0) freed_now_.clear();
  };
  look(1);
  const auto no_longer = c10::make_scope_exit([&] { look(-1); });
  {
    const std::lock_guard lock(mutex_);
    std::erase_if(watched_, [](const auto& each) { return each.second.expired(); });
  }
  const std::vector<Block> found = blocks_now();
  for (UsedAddress& used : addresses) {
    auto at = std::ranges::upper_bound(found, used.value, {}, &Block::address);
    if (used.in_allocator || at == found.begin()) continue;
    const Block& block = *--at;
    if (used.value - block.address >= block.bytes) continue;
    used.in_allocator = true;
    used.own = std::ranges::find(own, block.pool) != own.end();
    used.end = block.address + block.bytes;
    if (used.own) continue;
    if (!block.in_use) {
      if (block.pool == MempoolId{}) used.free = freed_watch(block);
      continue;
    }
    const WeakStorages storages = storages_in(pointer(block.address), block.bytes);
    const std::lock_guard lock(mutex_);
    if (freed_now_.contains(block.address)) continue;  // FreeLog has it
    used.watch = watch(block, storages);
    interesting_.store(watched_.size() + stacks_.size() + static_cast<std::size_t>(looking_));
  }
}

bool CudaBlocks::is_given_out_again(const BlockWatch& watch) {
  const auto begin = reinterpret_cast<std::uintptr_t>(watch.address);
  return std::ranges::any_of(blocks_now(), [&](const Block& block) {
    return block.in_use && block.address < begin + watch.bytes && begin < block.address + block.bytes;
  });
}

}  // namespace reprise::libtorch
