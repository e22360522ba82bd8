// SPDX-License-Identifier: Apache-2.0
#include "memory/capture_route.h"

#include <algorithm>
#include <mutex>

namespace reprise::memory {
namespace {

struct Routes {
  std::mutex mutex;  // guards the list, and what is in the routes
  std::vector<CaptureRoute*> underway;
};

// Never destroyed: a graph in a static object may be abandoned late.
Routes& routes() {
  static auto* const all = new Routes;
  return *all;
}

}  // namespace

void OpenPools::open(CachingAllocator::Impl& allocator) {
  allocators_.reserve(allocators_.size() + 1);
  allocator.open_pool(id_);
  allocators_.push_back(&allocator);
}

OpenPools::~OpenPools() {
  for (CachingAllocator::Impl* allocator : allocators_) allocator->close_pool(id_);
}

CaptureRoute::CaptureRoute(Device device, MempoolId id, StreamHandle stream)
    : type_(device.type()), pools_(std::make_shared<OpenPools>(id)) {
  CachingAllocator::Impl& allocator = CachingAllocator::of(device).impl();
  Routes& all = routes();
  const std::lock_guard lock(all.mutex);
  all.underway.reserve(all.underway.size() + 1);
  add(allocator, stream);
  all.underway.push_back(this);
}

CaptureRoute::~CaptureRoute() {
  Routes& all = routes();
  const std::lock_guard lock(all.mutex);
  std::erase(all.underway, this);
  for (CachingAllocator::Impl* allocator : allocators_) allocator->end_routing(pools_->id());
}

void CaptureRoute::add(CachingAllocator::Impl& allocator, std::optional<StreamHandle> stream) {
  allocators_.reserve(allocators_.size() + 1);
  pools_->open(allocator);
  allocator.begin_routing(pools_->id(), stream);
  allocators_.push_back(&allocator);
  for (const std::uint64_t id : capture_ids_) allocator.add_capture_id(pools_->id(), id);
}

void CaptureRoute::add_capture_id(std::uint64_t capture_id) {
  const std::lock_guard lock(routes().mutex);
  capture_ids_.push_back(capture_id);
  for (CachingAllocator::Impl* allocator : allocators_) allocator->add_capture_id(pools_->id(), capture_id);
}

bool CaptureRoute::leads_to(MempoolId pool, DeviceType type, std::uint64_t capture_id) {
  Routes& all = routes();
  const std::lock_guard lock(all.mutex);
  return std::any_of(all.underway.begin(), all.underway.end(), [&](const CaptureRoute* route) {
    const std::vector<std::uint64_t>& ids = route->capture_ids_;
    return route->type_ == type && route->pools_->id() == pool &&
           std::find(ids.begin(), ids.end(), capture_id) != ids.end();
  });
}

void CaptureRoute::join(CachingAllocator::Impl& allocator, std::uint64_t capture_id) {
  Routes& all = routes();
  const std::lock_guard lock(all.mutex);
  const auto found = std::find_if(all.underway.begin(), all.underway.end(), [&](const CaptureRoute* route) {
    const std::vector<std::uint64_t>& ids = route->capture_ids_;
    return route->type_ == allocator.device().type() && std::find(ids.begin(), ids.end(), capture_id) != ids.end();
  });
  if (found == all.underway.end()) return;
  // Another thread may have been first.
  const std::vector<CachingAllocator::Impl*>& there = (*found)->allocators_;
  if (std::find(there.begin(), there.end(), &allocator) == there.end()) (*found)->add(allocator, std::nullopt);
}

}  // namespace reprise::memory
