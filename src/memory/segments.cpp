// SPDX-License-Identifier: Apache-2.0
#include <vector>

#include "backend/backend.h"
#include "backend/check.h"
#include "backend/framework.h"
#include "captures/registry.h"
#include "memory/allocator_impl.h"
#include "memory/lifetime/release_queue.h"
#include "memory/node_memory.h"

// Allocation and release of segments: everything that may wait for the device, done without the mutex.

namespace reprise {

using backend::Call;
using backend::check;
using backend::Checked;
using backend::RelaxedCaptureMode;
using backend::Result;
using backend::WarnOnError;
using memory::BlockState;
using memory::MemoryBlock;
using memory::Pool;
using memory::ReleaseQueue;
using memory::Request;

namespace {

// Keeps a pool alive while the mutex is unlocked. Constructed under the mutex; the destructor locks it if necessary.
class PoolInUse {
 public:
  PoolInUse(Pool& pool, std::unique_lock<std::mutex>& lock) : pool_(pool), lock_(lock) { pool_.requests += 1; }
  ~PoolInUse() {
    if (!lock_.owns_lock()) lock_.lock();
    pool_.requests -= 1;
  }
  PoolInUse(const PoolInUse&) = delete;
  PoolInUse& operator=(const PoolInUse&) = delete;

 private:
  Pool& pool_;
  std::unique_lock<std::mutex>& lock_;
};

// Has the framework, if there is one, release its cached memory to the driver. Without a lock.
void empty_framework_cache(const Device& device) noexcept {
  const backend::Framework* const framework = backend::installed_framework();
  if (framework == nullptr) return;
  const RelaxedCaptureMode relaxed(device.backend());
  framework->empty_cache(device);
}

}  // namespace

void* CachingAllocator::Impl::allocate_from_driver(Lock& lock, Pool& pool, const Request& request, std::size_t bytes,
                                                   StreamHandle stream) {
  const PoolInUse in_use(pool, lock);
  if (MemoryBlock* const block = new_segment(lock, pool, request, stream)) return give_out(block, request);

  // No memory. First release resources of destroyed graphs and cached memory, also that of a framework; then wait for
  // blocks that are deferred for other streams and for replays of destroyed graphs. Both are
  // always done: the second releases what became free after the first.
  for (const bool wait : {false, true}) {
    lock.unlock();
    if (wait)
      ReleaseQueue::drain_waiting();
    else
      ReleaseQueue::drain();
    empty_framework_cache(device_);
    if (wait) wait_for_held_back();
    release_unused();
    lock.lock();
    poll_held_back();
    if (MemoryBlock* const block = take_cached(pool, request, stream)) return give_out(block, request);
    if (MemoryBlock* const block = new_segment(lock, pool, request, stream)) return give_out(block, request);
  }
  throw_out_of_memory(bytes, request, pool);
}

// Returns a new segment as one block that is in no set, or null when the driver has no memory.
MemoryBlock* CachingAllocator::Impl::new_segment(Lock& lock, Pool& pool, const Request& request, StreamHandle stream) {
  void* address = nullptr;
  const std::uint64_t filling = pool.last_filling;
  lock.unlock();
  // A framework shares memory once it was queried: what is cached here can then be released for its allocations.
  static_cast<void>(backend::keeper_of_current(device_));
  bool allocated = false;
  {
    const RelaxedCaptureMode relaxed(device_.backend());
    const Checked runtime(device_.backend());
    allocated = runtime.allowing(ErrorCode::out_of_memory).memory_allocate(&address, request.segment_bytes);
  }
  lock.lock();
  if (!allocated) return nullptr;
  MemoryBlock* block = nullptr;
  try {
    block = blocks_.make_segment(static_cast<std::byte*>(address), request.segment_bytes);
  } catch (...) {
    const RelaxedCaptureMode relaxed(device_.backend());
    WarnOnError(device_.backend()).memory_free(address);
    throw;
  }
  block->stream = stream;
  block->pool = &pool;
  block->filling = filling;
  block->small = request.small;
  memory::count_reserved(pool.statistics, block->bytes);
  memory::count_reserved(total_, block->bytes);
  return block;
}

void CachingAllocator::Impl::empty_cache() {
  ReleaseQueue::drain();
  release_unused();
}

bool CachingAllocator::Impl::has_gone_streams() {
  const Lock lock(mutex_);
  poll_held_back();
  return held_back_.has_gone_streams();
}

void CachingAllocator::Impl::synchronize_device() {
  {
    const Lock lock(mutex_);
    held_back_.begin_wait();
  }
  Checked(device_.backend()).device_synchronize();
  const Lock lock(mutex_);
  held_back_.end_wait(device_);
}

void CachingAllocator::Impl::synchronize_if_no_capture() {
  // Resources are released without the lock: their destructors may begin captures, or wait for threads that do.
  ReleaseQueue::drain();
  {
    const captures::NoneBegins none_begins;
    if (none_begins.any_underway()) return;
    synchronize_device();
    empty_framework_cache(device_);
    if (const auto* const framework = backend::installed_framework()) framework->empty_pinned_cache(device_);
  }
  empty_cache();
}

bool CachingAllocator::Impl::empty_cache_for_others() {
  const std::uint64_t before = statistics().reserved_bytes;
  release_unused();
  return statistics().reserved_bytes < before;
}

void CachingAllocator::Impl::release_unused() {
  check(device_.backend(), Call::memory_free, release_cached(nullptr));
  memory::NodeMemory::trim(device_);
}

// Releases the cached segments of one pool, or of all pools that no graph needs, to the driver. If graphs need that one
// pool, those are released that were added after the last of their captures. Returns the first error; a segment whose
// free failed stays cached. Also removes pools that ended.
Result CachingAllocator::Impl::release_cached(const Pool* only) {
  const std::lock_guard releasing(releasing_);
  std::vector<MemoryBlock*> segments;
  {
    const Lock lock(mutex_);
    poll_held_back();
    const auto collect = [&](Pool& pool) {
      if (only != nullptr && only != &pool) return;
      const bool all = pool.may_release();
      if (!all && only == nullptr) return;
      const std::uint64_t first = all ? 0 : pool.newest_filling() + 1;
      pool.small_blocks.take_whole_segments(segments, first);
      pool.large_blocks.take_whole_segments(segments, first);
    };
    collect(default_pool_);
    for (auto& entry : private_pools_) collect(entry.second);
    for (MemoryBlock* block : segments) {
      block->state = BlockState::releasing;
      blocks_.hide(block);
    }
  }
  Result first = ErrorCode::success;
  for (MemoryBlock* block : segments) {
    Result result = [&] {
      const RelaxedCaptureMode relaxed(device_.backend());
      return device_.backend().memory_free(block->address);
    }();
    const Lock lock(mutex_);
    settle_release(block, !result.failed());
    if (!first.failed()) first = std::move(result);
  }
  const Lock lock(mutex_);
  std::erase_if(private_pools_, [](const auto& entry) { return entry.second.is_over(); });
  return first;
}

void CachingAllocator::Impl::settle_release(MemoryBlock* block, bool released) {
  if (!released) {
    blocks_.show(block);
    make_cached(block);
    return;
  }
  Pool& pool = *block->pool;
  memory::count_released(pool.statistics, block->bytes);
  memory::count_released(total_, block->bytes);
  blocks_.remove(block);
}

// Waits for the work submitted to other streams before blocks were freed. Without the mutex.
void CachingAllocator::Impl::wait_for_held_back() {
  std::vector<std::pair<backend::Backend*, EventHandle>> events;
  {
    const Lock lock(mutex_);
    events = held_back_.last_events();
  }
  for (const auto& [backend, event] : events) {
    const RelaxedCaptureMode relaxed(*backend);
    WarnOnError(*backend).event_synchronize(event);
  }
}

}  // namespace reprise
