// SPDX-License-Identifier: Apache-2.0
#include "graph/capture/idle_device.h"

#include "backend/framework.h"
#include "captures/registry.h"
#include "memory/allocator_impl.h"
#include "memory/framework_cache.h"
#include "memory/lifetime/release_queue.h"

namespace reprise::graphs {

void synchronize_if_no_capture(Device device) {
  // Resources are released without the lock: their destructors may begin captures, or wait for threads that do.
  memory::ReleaseQueue::drain();
  CachingAllocator::Impl& allocator = CachingAllocator::of(device).impl();
  {
    const captures::NoneBegins none_begins;
    if (none_begins.any_underway()) return;
    allocator.synchronize_device();
    memory::empty_framework_cache(device);
    if (const auto* const framework = backend::installed_framework()) framework->empty_pinned_cache(device);
  }
  allocator.empty_cache();
}

}  // namespace reprise::graphs
