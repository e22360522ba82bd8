// SPDX-License-Identifier: Apache-2.0
#include "graph/synchronize.h"

#include "backend/backend.h"
#include "backend/check.h"
#include "backend/lifetime/release_queue.h"
#include "captures/registry.h"
#include "memory/other_caches.h"
#include "reprise/memory.h"

namespace reprise::graphs {

void synchronize_if_no_capture(Device device) {
  backend::ReleaseQueue::drain();  // without the lock, which the destructors of resources know nothing of
  const captures::NoneBegins none_begins;
  if (none_begins.any_underway()) return;
  backend::Checked(device.backend()).device_synchronize();
  CachingAllocator::of(device).empty_cache();
  memory::empty_other_caches(device);
}

}  // namespace reprise::graphs
