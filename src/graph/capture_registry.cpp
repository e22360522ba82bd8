// SPDX-License-Identifier: Apache-2.0
#include "graph/capture_registry.h"

#include <mutex>

#include "backend/check.h"
#include "backend/lifetime/release_queue.h"
#include "memory/other_caches.h"
#include "reprise/memory.h"

namespace reprise::graphs {

namespace {

// Lock order: this one is taken before the allocator's, and never by anything that an allocator or a resource of the
// release queue calls. Never destroyed: a graph may be, after static destructors have begun.
std::mutex& begin_mutex() {
  static auto* const mutex = new std::mutex;
  return *mutex;
}

}  // namespace

RegisteredCapture::RegisteredCapture() {
  const std::lock_guard lock(begin_mutex());
  backend::captures_underway.fetch_add(1, std::memory_order_relaxed);
}

// Without the mutex: a count that is too high for a moment only makes others more careful.
RegisteredCapture::~RegisteredCapture() {
  backend::captures_underway.fetch_sub(1, std::memory_order_release);
}

void synchronize_if_no_capture(Device device) {
  backend::ReleaseQueue::drain();  // outside of the lock, which resources know nothing of
  const std::lock_guard lock(begin_mutex());
  // Acquire: the end of the last capture, as the device saw it, lies before our wait.
  if (backend::captures_underway.load(std::memory_order_acquire) != 0) return;
  backend::Backend& backend = device.backend();
  backend::check(backend, backend::Call::device_synchronize, backend.device_synchronize());
  CachingAllocator::of(device).empty_cache();
  memory::empty_other_caches(device);
}

}  // namespace reprise::graphs
