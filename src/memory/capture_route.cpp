// SPDX-License-Identifier: Apache-2.0
#include "memory/capture_route.h"

#include <algorithm>

namespace reprise::memory {
namespace {

constinit captures::Slot<CaptureRoute> route_of;

}  // namespace

void OpenPools::open(CachingAllocator::Impl& allocator) {
  allocators_.reserve(allocators_.size() + 1);
  allocator.open_pool(id_);
  allocators_.push_back(&allocator);
}

OpenPools::~OpenPools() {
  for (CachingAllocator::Impl* allocator : allocators_) allocator->close_pool(id_);
}

CaptureRoute::CaptureRoute(captures::Capture& capture)
    : capture_(capture), pools_(std::make_shared<OpenPools>(capture.pool())) {
  add(CachingAllocator::of(capture.device()).impl());
}

std::shared_ptr<CaptureRoute> CaptureRoute::attach_to(captures::Capture& capture) {
  std::shared_ptr<CaptureRoute> route(new CaptureRoute(capture));
  capture.attach(route_of, route);
  return route;
}

void CaptureRoute::end() noexcept {
  {
    const std::lock_guard lock(mutex_);
    if (std::exchange(ended_, true)) return;
    for (CachingAllocator::Impl* allocator : allocators_) allocator->end_filling(capture_);
  }
  capture_.detach(route_of);
}

void CaptureRoute::add(CachingAllocator::Impl& allocator) {
  allocators_.reserve(allocators_.size() + 1);
  pools_->open(allocator);
  allocator.begin_filling(capture_);
  allocators_.push_back(&allocator);
}

void CaptureRoute::join(CachingAllocator::Impl& allocator, captures::Capture& capture) {
  const std::shared_ptr<CaptureRoute> route = capture.get(route_of);
  if (route == nullptr) return;
  const std::lock_guard lock(route->mutex_);
  if (route->ended_) return;
  // Another thread may have been first.
  const std::vector<CachingAllocator::Impl*>& there = route->allocators_;
  if (std::find(there.begin(), there.end(), &allocator) == there.end()) route->add(allocator);
}

}  // namespace reprise::memory
