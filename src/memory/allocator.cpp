// SPDX-License-Identifier: Apache-2.0
#include <mutex>
#include <unordered_map>
#include <utility>

#include "backend/backend.h"
#include "backend/notifications.h"
#include "memory/allocator_impl.h"
#include "memory/capture_pools.h"
#include "memory/lifetime/release_queue.h"
#include "reprise/detail/public_call.h"
#include "support/forked.h"
#include "support/immortal.h"

namespace reprise {
namespace {

void stream_ends(const StreamRef& stream) noexcept;
void simulator_ends(const Device& device) noexcept;

struct Allocators {
  Allocators() {
    static constinit backend::StreamCallback of_streams(&stream_ends);
    backend::stream_end_callbacks.add(of_streams);
    static constinit support::Callback<const Device&> of_simulators(&simulator_ends);
    backend::simulator_end_callbacks.add(of_simulators);
  }

  std::mutex mutex;
  std::unordered_map<backend::Backend*, std::unique_ptr<CachingAllocator>> by_device;
};

// Never destroyed: buffers may live in static objects, and the driver is going away when those are destroyed.
Allocators& allocators() {
  static support::Immortal<Allocators> all;
  return *all;
}

// Visits the allocators of all devices of the same runtime.
template <class Visit>
void for_each_beside(const Device& device, const Visit& visit) {
  Allocators& all = allocators();
  const std::lock_guard lock(all.mutex);
  for (const auto& entry : all.by_device)
    if (backend::same_runtime(entry.second->device(), device)) visit(entry.second->impl());
}

void stream_ends(const StreamRef& stream) noexcept {
  for_each_beside(stream.device(), [&](CachingAllocator::Impl& allocator) { allocator.stream_ends(stream); });
}

void simulator_ends(const Device& device) noexcept {
  memory::ReleaseQueue::drain();  // what it releases may be memory
  try {
    CachingAllocator& allocator = CachingAllocator::of(device);
    allocator.empty_cache();
    allocator.reset_peak();
  } catch (const std::exception& error) {
    warn(error.what());
  }
}

}  // namespace

void memory::watch_addresses(const Device& device, std::span<UsedAddress> addresses, std::span<const MempoolId> own) {
  for_each_beside(device, [&](CachingAllocator::Impl& allocator) { allocator.watch(addresses, own); });
}

void memory::return_held_back_blocks(const Device& device) noexcept {
  for_each_beside(device, [](CachingAllocator::Impl& allocator) { allocator.return_held_back(); });
}

CachingAllocator& CachingAllocator::of(Device device) {
  // The allocator that this thread used last, found without the mutex.
  thread_local CachingAllocator* last = nullptr;
  if (last != nullptr && last->device() == device) return *last;
  Allocators& all = allocators();
  const std::lock_guard lock(all.mutex);
  std::unique_ptr<CachingAllocator>& allocator = all.by_device[&device.backend()];
  if (allocator == nullptr) allocator = std::make_unique<CachingAllocator>(device);
  last = allocator.get();
  return *last;
}

CachingAllocator::CachingAllocator(Device device) : device_(device), impl_(std::make_unique<Impl>(device)) {}

CachingAllocator::~CachingAllocator() = default;

void* CachingAllocator::allocate(std::size_t bytes, const StreamRef& stream) {
  const detail::PublicCall call("CachingAllocator::allocate");
  return impl_->allocate(bytes, stream);
}

void CachingAllocator::deallocate(void* pointer) {
  if (support::forked()) return;  // the memory ends with the child
  impl_->deallocate(pointer);
}

void CachingAllocator::record_stream(void* pointer, const StreamRef& stream) {
  impl_->record_stream(pointer, stream);
}

void CachingAllocator::empty_cache() {
  const detail::PublicCall call("CachingAllocator::empty_cache");
  if (impl_->has_gone_streams()) {
    const captures::NoneBegins none_begins;
    if (!none_begins.any_underway()) impl_->synchronize_device();
  }
  impl_->empty_cache();
}

PoolStatistics CachingAllocator::statistics() const {
  return impl_->statistics();
}

PoolStatistics CachingAllocator::statistics(MempoolId pool) const {
  return impl_->statistics(pool);
}

void CachingAllocator::reset_peak() {
  impl_->reset_peak();
}

}  // namespace reprise
