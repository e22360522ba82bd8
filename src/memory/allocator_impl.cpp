// SPDX-License-Identifier: Apache-2.0
#include "memory/allocator_impl.h"

#include <algorithm>
#include <atomic>
#include <cstdint>

#include "backend/backend.h"
#include "backend/check.h"
#include "backend/objects/stream_handles.h"
#include "memory/capture_pools.h"
#include "memory/watches/allocation_log.h"
#include "memory/watches/allocation_stacks.h"
#include "text/format.h"

namespace reprise {
namespace {

using memory::BlockState;
using memory::MemoryBlock;
using memory::Pool;
using memory::Request;

// Stands for words, which no stream has. No address, as the numbers after it.
constexpr std::uintptr_t number_of_words = std::uintptr_t{1} << 63;

// What stands for a stream in blocks: its handle. The per-thread default stream is another one on each thread, so that
// a number of the calling thread, which no other one ever gets, stands for it.
StreamHandle owner_of(StreamHandle stream) noexcept {
  if (!backend::is_per_thread_stream(stream)) [[likely]]
    return stream;
  static constinit std::atomic<std::uintptr_t> last{number_of_words};
  thread_local const std::uintptr_t mine = ++last;
  return reinterpret_cast<StreamHandle>(mine);
}

StreamHandle stream_of_owner(StreamHandle owner) noexcept {
  return memory::is_stream(owner) ? owner : backend::per_thread_stream();
}

void check_device(Device mine, Device stream) {
  if (stream == mine) return;
  throw UsageError(
      text::format("expected a stream of {}, whose memory this allocator manages; found a stream of {}; use "
                   "CachingAllocator::of(stream.device())",
                   mine.str(), stream.str()));
}

}  // namespace

CachingAllocator::Impl::~Impl() {
  const backend::RelaxedCaptureMode relaxed(device_.backend());
  blocks_.for_each([&](MemoryBlock* block) {
    if (block->previous != nullptr) return;
    backend::WarnOnError(device_.backend()).memory_free(block->address);
  });
}

void* CachingAllocator::Impl::allocate(std::size_t bytes, const StreamRef& stream) {
  return allocate_for(bytes, stream, owner_of(stream.native()));
}

void* CachingAllocator::Impl::allocate_words(std::size_t bytes, const StreamRef& stream) {
  return allocate_for(bytes, stream, reinterpret_cast<StreamHandle>(number_of_words));
}

void* CachingAllocator::Impl::allocate_for(std::size_t bytes, const StreamRef& stream, StreamHandle owner) {
  void* const address = allocate_block(bytes, stream, owner);
  if (memory::allocation_stacks_are_recorded()) [[unlikely]]
    keep_stack(address);
  return address;
}

void* CachingAllocator::Impl::allocate_block(std::size_t bytes, const StreamRef& stream, StreamHandle owner) {
  check_device(device_, stream.device());
  if (bytes == 0) return nullptr;
  const Request request = memory::make_request(bytes);
  const std::shared_ptr<captures::Capture> capture = captures::find_own(stream);

  Lock lock(mutex_);
  if (!held_back_.empty()) poll_held_back();
  Pool& pool = capture == nullptr ? default_pool_ : pool_of(lock, *capture);
  if (capture != nullptr && capture->leaves_body(stream)) [[unlikely]]
    leave_blocks(stream, pool);
  MemoryBlock* const block = take_cached(pool, request, owner);
  void* const address =
      block != nullptr ? give_out(block, request) : allocate_from_driver(lock, pool, request, bytes, owner);
  if (capture != nullptr) [[unlikely]]
    memory::AllocationLog::note(*capture, address, bytes);
  return address;
}

void CachingAllocator::Impl::deallocate(void* pointer) {
  if (pointer == nullptr) return;
  std::vector<std::string> stack;
  if (memory::allocation_stacks_are_recorded()) [[unlikely]]
    stack = memory::allocation_stack();
  const Lock lock(mutex_);
  MemoryBlock* const block = block_in_use(
      pointer, "deallocate()",
      "free each block once, by the address that allocate() returned, with the allocator that it came from");
  if (block->watch != nullptr || memory::FreeLog::any()) [[unlikely]] {
    if (is_kept(*block)) {
      block->watch->freed_by = std::move(stack);
      block->state = BlockState::retained;
      return;
    }
    record_free(block, std::move(stack));
  }
  free_block(block);
}

// Later iterations need a block from outside of a loop that the body frees. A stream that has ended counts as outside.
void CachingAllocator::Impl::keep_for_later_iterations(MemoryBlock& block) const {
  const captures::Capture* const capture = block.pool->filled_by;
  if (capture == nullptr || !block.recorded.empty()) return;
  block.captured_use |= capture->is_outside_open_loop(StreamRef(device_, stream_of_owner(block.stream)));
}

// `block` is in use, and not retained by a graph.
void CachingAllocator::Impl::free_block(MemoryBlock* block) {
  block->created.clear();
  block->hidden = false;
  memory::count_freed(block->pool->statistics, block->bytes);
  memory::count_freed(total_, block->bytes);
  keep_for_later_iterations(*block);
  if (memory::HeldBackBlocks::needed(*block)) {
    held_back_.hold(block);
  } else {
    make_cached(block);
  }
  if (!held_back_.empty()) poll_held_back();
}

void CachingAllocator::Impl::record_stream(void* pointer, const StreamRef& stream) {
  if (!backend::same_runtime(stream.device(), device_)) {
    throw UsageError(
        text::format("expected a stream of the same device runtime as the memory, which is on {}; found a "
                     "stream of {}, whose work cannot use it",
                     device_.str(), stream.device().str()));
  }
  const Lock lock(mutex_);
  MemoryBlock* const block = block_in_use(
      pointer, "record_stream()",
      "call it before the block is freed, with the address that allocate() returned, on the allocator that it came "
      "from");
  if (stream.device() == device_ && owner_of(stream.native()) == block->stream) return;
  if (backend::is_per_thread_stream(stream.native()))
    throw UsageError(
        "record_stream() expected a stream whose work every thread can wait for; found the per-thread default stream, "
        "which is another one on each thread, and memory of another stream or thread; have the memory's stream wait "
        "for the work before the block is freed (StreamRef::wait), and record nothing");
  if (std::find(block->recorded.begin(), block->recorded.end(), stream) == block->recorded.end())
    block->recorded.push_back(stream);
}

std::optional<CachingAllocator::Impl::UsedBlock> CachingAllocator::Impl::find_block(const void* address) const {
  const Lock lock(mutex_);
  const MemoryBlock* block = blocks_.find(address);
  if (block == nullptr) block = blocks_.find_around(address);
  if (block == nullptr || block->state != BlockState::in_use) return std::nullopt;
  return UsedBlock{block->address, block->requested};
}

PoolStatistics CachingAllocator::Impl::statistics() const {
  const Lock lock(mutex_);
  return total_;
}

PoolStatistics CachingAllocator::Impl::statistics(MempoolId pool) const {
  const Lock lock(mutex_);
  if (!pool) return default_pool_.statistics;
  const auto found = private_pools_.find(pool);
  if (found == private_pools_.end()) return {};
  PoolStatistics statistics = found->second.statistics;
  statistics.graphs = found->second.graphs;
  return statistics;
}

PoolStatistics CachingAllocator::Impl::private_pools() const {
  const Lock lock(mutex_);
  PoolStatistics all;
  for (const auto& entry : private_pools_) {
    const PoolStatistics& each = entry.second.statistics;
    all.reserved_bytes += each.reserved_bytes;
    all.allocated_bytes += each.allocated_bytes;
    all.peak_reserved_bytes += each.peak_reserved_bytes;
    all.peak_allocated_bytes += each.peak_allocated_bytes;
    all.segments += each.segments;
    all.allocations += each.allocations;
  }
  return all;
}

void CachingAllocator::Impl::reset_peak() {
  const Lock lock(mutex_);
  memory::restart_peaks(total_);
  memory::restart_peaks(default_pool_.statistics);
  for (auto& entry : private_pools_) memory::restart_peaks(entry.second.statistics);
}

Pool& CachingAllocator::Impl::pool_of(Lock& lock, captures::Capture& capture) {
  Pool* pool = pool_filled_by(capture);
  if (pool == nullptr) {
    lock.unlock();
    memory::CapturePools::fill(*this, capture);
    lock.lock();
    pool = pool_filled_by(capture);
  }
  return pool != nullptr ? *pool : default_pool_;
}

Pool* CachingAllocator::Impl::pool_filled_by(const captures::Capture& capture) noexcept {
  const auto found = private_pools_.find(capture.pool());
  return found != private_pools_.end() && found->second.filled_by == &capture ? &found->second : nullptr;
}

MemoryBlock* CachingAllocator::Impl::take_cached(Pool& pool, const Request& request, StreamHandle stream) {
  MemoryBlock* const block = pool.blocks(request.small).take({stream, request.bytes});
  if (block != nullptr || ended_streams_.empty()) return block;
  return adopt(pool, request, stream);
}

// `block` is in no set, free and large enough; what is too much of it is cut off. Without memory for that, it is
// cached.
void* CachingAllocator::Impl::give_out(MemoryBlock* block, const Request& request) {
  Pool& pool = *block->pool;
  const std::size_t remainder = block->bytes - request.bytes;
  if (memory::worth_splitting(remainder, block->small)) {
    MemoryBlock* rest = nullptr;
    try {
      rest = blocks_.make(block->address + request.bytes, remainder);
    } catch (...) {
      make_cached(block);
      throw;
    }
    rest->stream = block->stream;
    rest->pool = block->pool;
    rest->filling = block->filling;
    rest->small = block->small;
    rest->state = BlockState::cached;
    rest->previous = block;
    rest->next = block->next;
    if (rest->next != nullptr) rest->next->previous = rest;
    block->next = rest;
    block->bytes = request.bytes;
    pool.blocks(rest->small).insert(rest);
  }
  block->state = BlockState::in_use;
  block->requested = request.requested;
  memory::count_allocated(pool.statistics, block->bytes);
  memory::count_allocated(total_, block->bytes);
  return block->address;
}

// `block` is in no set, and nothing uses it.
void CachingAllocator::Impl::make_cached(MemoryBlock* block) {
  memory::FreeSet& blocks = block->pool->blocks(block->small);
  if (block->next != nullptr && block->next->state == BlockState::cached) {
    blocks.erase(block->next);
    block = join(block, block->next);
  }
  if (block->previous != nullptr && block->previous->state == BlockState::cached) {
    blocks.erase(block->previous);
    block = join(block->previous, block);
  }
  block->state = BlockState::cached;
  blocks.insert(block);
}

MemoryBlock* CachingAllocator::Impl::join(MemoryBlock* lower, MemoryBlock* upper) {
  lower->bytes += upper->bytes;
  lower->next = upper->next;
  if (lower->next != nullptr) lower->next->previous = lower;
  blocks_.remove(upper);
  return lower;
}

void CachingAllocator::Impl::poll_held_back() {
  done_.clear();
  held_back_.poll(done_);
  for (MemoryBlock* block : done_) make_cached(block);
}

MemoryBlock* CachingAllocator::Impl::block_in_use(void* pointer, const char* call, const char* advice) const {
  MemoryBlock* const block = blocks_.find(pointer);
  if (block != nullptr && block->state == BlockState::in_use) return block;
  throw UsageError(text::format(
      "{} expected an address of the allocator of {} that is still in use; found {}, {}; {}", call, device_.str(),
      pointer,
      block != nullptr ? "which was freed already"
                       : "which it never returned, or which was freed already and joined with its neighbours",
      advice));
}

}  // namespace reprise
