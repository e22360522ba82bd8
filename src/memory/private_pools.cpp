// SPDX-License-Identifier: Apache-2.0

#include <algorithm>

#include "backend/backend.h"
#include "backend/check.h"
#include "memory/allocator_impl.h"
#include "memory/pool_ids.h"
#include "text/format.h"

namespace reprise {

using memory::Pool;

void CachingAllocator::Impl::open_pool(MempoolId id) {
  if (!id) throw UsageError("expected the id of a private pool; found the id that names none; use graph_pool_handle()");
  const Lock lock(mutex_);
  Pool& pool = private_pools_[id];
  pool.id = id;
  pool.graphs += 1;
}

void CachingAllocator::Impl::close_pool(MempoolId id) noexcept {
  try {
    const Pool* pool = nullptr;
    {
      const Lock lock(mutex_);
      const auto found = private_pools_.find(id);
      if (found == private_pools_.end() || found->second.graphs == 0) {
        warn(text::format("the pool {} of {} was closed more often than it was opened", memory::pool_id_text(id),
                          device_.str()));
        return;
      }
      found->second.graphs -= 1;
      if (!found->second.may_release()) return;
      pool = &found->second;
    }
    // Only compared by address there: the pool may be gone by then.
    backend::warn_on_error(device_.backend(), backend::Call::memory_free, release_cached(pool));
  } catch (const std::exception& error) {
    warn(error.what());
  }
}

void CachingAllocator::Impl::begin_routing(MempoolId id, std::optional<StreamHandle> stream) {
  const Lock lock(mutex_);
  const auto found = private_pools_.find(id);
  if (found == private_pools_.end() || found->second.graphs == 0) {
    throw UsageError(
        text::format("expected a pool that a graph of {} holds; found {}; open the pool before the capture",
                     device_.str(), memory::pool_id_text(id)));
  }
  Pool& pool = found->second;
  if (pool.filling) {
    throw UsageError(text::format(
        "expected a pool that no capture is filling; found pool {} of {}, which another capture is filling "
        "now; end that capture first, or capture into another pool",
        memory::pool_id_text(id), device_.str()));
  }
  routes_.push_back(Route{&pool, stream, {}});
  pool.filling = true;
  routings_.fetch_add(1, std::memory_order_release);
}

void CachingAllocator::Impl::add_capture_id(MempoolId id, std::uint64_t capture_id) {
  const Lock lock(mutex_);
  if (Route* const route = route_of(id)) route->capture_ids.push_back(capture_id);
}

void CachingAllocator::Impl::end_routing(MempoolId id) noexcept {
  const Lock lock(mutex_);
  Route* const route = route_of(id);
  if (route == nullptr) return;
  route->pool->filling = false;
  routes_.erase(routes_.begin() + (route - routes_.data()));
  routings_.fetch_sub(1, std::memory_order_release);
}

CachingAllocator::Impl::Route* CachingAllocator::Impl::route_of(MempoolId id) noexcept {
  const auto found =
      std::find_if(routes_.begin(), routes_.end(), [&](const Route& route) { return route.pool->id == id; });
  return found == routes_.end() ? nullptr : &*found;
}

}  // namespace reprise
