// SPDX-License-Identifier: Apache-2.0

#include <algorithm>

#include "backend/backend.h"
#include "backend/check.h"
#include "memory/allocator_impl.h"
#include "memory/pool_ids.h"
#include "text/format.h"

namespace reprise {

using memory::Pool;

void CachingAllocator::Impl::open_pool(MempoolId id, const std::string& name) {
  if (!id) throw UsageError("expected the id of a private pool; found the id that names none; use graph_pool_handle()");
  const Lock lock(mutex_);
  Pool& pool = private_pools_[id];
  pool.id = id;
  pool.graphs.push_back(name);
}

void CachingAllocator::Impl::close_pool(MempoolId id, const std::string& name, std::uint64_t filling) noexcept {
  try {
    const Pool* pool = nullptr;
    {
      const Lock lock(mutex_);
      const auto found = private_pools_.find(id);
      if (found == private_pools_.end() || found->second.graphs.empty()) {
        warn(text::format("the pool {} of {} was closed more often than it was opened", memory::pool_id_text(id),
                          device_.str()));
        return;
      }
      std::vector<std::string>& graphs = found->second.graphs;
      const auto holder = std::ranges::find(graphs, name);
      graphs.erase(holder != graphs.end() ? holder : graphs.begin());
      std::erase(found->second.fillings, filling);
      pool = &found->second;
      if (!pool->may_release() && filling == 0) return;
    }
    // Only compared by address there: the pool may be gone by then.
    backend::warn_on_error(device_.backend(), backend::Call::memory_free, release_cached(pool));
  } catch (const std::exception& error) {
    warn(error.what());
  }
}

std::uint64_t CachingAllocator::Impl::begin_filling(const captures::Capture& capture) {
  const MempoolId id = capture.pool();
  const Lock lock(mutex_);
  const auto found = private_pools_.find(id);
  if (found == private_pools_.end() || found->second.graphs.empty()) {
    throw UsageError(
        text::format("expected a pool that a graph of {} holds; found {}; open the pool before the capture",
                     device_.str(), memory::pool_id_text(id)));
  }
  if (found->second.filled_by != nullptr) {
    throw UsageError(text::format(
        "expected a pool that no capture is filling; found pool {} of {}, which another capture is filling "
        "now; end that capture first, or capture into another pool",
        memory::pool_id_text(id), device_.str()));
  }
  found->second.fillings.push_back(fillings_ + 1);
  found->second.filled_by = &capture;
  return found->second.last_filling = ++fillings_;
}

void CachingAllocator::Impl::end_filling(const captures::Capture& capture) noexcept {
  {
    const Lock lock(mutex_);
    Pool* const pool = pool_filled_by(capture);
    if (pool == nullptr) return;
    pool->filled_by = nullptr;
    give_handles_back(*pool);
  }
  return_held_back();  // the next capture into the pool may need what this one has freed
}

void CachingAllocator::Impl::pool_launched(MempoolId id) noexcept {
  const Lock lock(mutex_);
  if (const auto found = private_pools_.find(id); found != private_pools_.end()) found->second.launched = true;
}

bool CachingAllocator::Impl::awaits_launch(const void* address) const {
  const Lock lock(mutex_);
  const memory::MemoryBlock* const block = blocks_.find_around(address);
  return block != nullptr && block->pool->is_private() && !block->pool->launched;
}

void CachingAllocator::Impl::return_held_back() noexcept try {
  const Lock lock(mutex_);
  if (!held_back_.empty()) poll_held_back();
} catch (const std::exception& error) {
  warn(error.what());
}

}  // namespace reprise
