// SPDX-License-Identifier: Apache-2.0
#include "memory/capture_pools.h"

#include <algorithm>

namespace reprise::memory {
namespace {

constinit captures::Slot<CapturePools> pools_of;

}  // namespace

CapturePools::~CapturePools() {
  end_filling();
  for (const Filled& each : filled_) each.allocator->close_pool(id_, name_, each.filling);
}

void CapturePools::fill(CachingAllocator::Impl& allocator, captures::Capture& capture) {
  const std::shared_ptr<CapturePools> pools = capture.get_or_attach(pools_of, capture);
  if (pools == nullptr) return;
  const std::lock_guard lock(pools->mutex_);
  if (pools->capture_ != nullptr && std::ranges::count(pools->filled_, &allocator, &Filled::allocator) == 0)
    pools->add(allocator);
}

std::shared_ptr<CapturePools> CapturePools::end(captures::Capture& capture) noexcept {
  std::shared_ptr<CapturePools> pools = capture.detach(pools_of);
  if (pools != nullptr) pools->end_filling();
  return pools;
}

void CapturePools::add(CachingAllocator::Impl& allocator) {
  filled_.reserve(filled_.size() + 1);
  allocator.open_pool(id_, name_);
  try {
    filled_.push_back({&allocator, allocator.begin_filling(*capture_)});
  } catch (...) {
    allocator.close_pool(id_, name_);
    throw;
  }
}

void CapturePools::end_filling() noexcept {
  const std::lock_guard lock(mutex_);
  if (capture_ == nullptr) return;
  for (const Filled& each : filled_) each.allocator->end_filling(*capture_);
  capture_ = nullptr;
}

}  // namespace reprise::memory
