// SPDX-License-Identifier: Apache-2.0
#include <ATen/core/CachingHostAllocator.h>
#include <c10/cuda/CUDACachingAllocator.h>
#include <c10/cuda/CUDAFunctions.h>

#include <algorithm>
#include <atomic>
#include <vector>

#include "backend/backend.h"
#include "backend/check.h"
#include "libtorch/cuda/cuda_tensors.h"
#include "libtorch/cuda/tensor_pool.h"
#include "libtorch/cuda/versions/version.h"
#include "memory/allocator_impl.h"
#include "reprise/error.h"
#include "text/format.h"

namespace reprise::libtorch {
namespace {

// Allocators of all CUDA devices, by number; found without a mutex, as libtorch calls under one of its own; null
// before this library uses a CUDA device.
std::atomic<const std::vector<CachingAllocator*>*> allocators{nullptr};

// For the default pool: cached memory of private pools cannot be released.
bool worth_emptying(CachingAllocator& allocator) {
  const PoolStatistics held = allocator.statistics(MempoolId{});
  const std::uint64_t cached = held.reserved_bytes - held.allocated_bytes;
  if (cached == 0) return false;
  MemoryInfo info;
  backend::Backend& backend = allocator.device().backend();
  const backend::RelaxedCaptureMode relaxed(backend);
  if (backend.memory_info(&info) != ErrorCode::success) return false;
  return info.free < std::max<std::uint64_t>(cached, info.total / 16);
}

// Called by libtorch, with the mutex of its allocator, before each allocation for which its cache has no block. Neither
// with the size, nor again when the driver has no memory left: so this library's cache is released when little is left.
class EmptyOurCache final : public c10::FreeMemoryCallback {
 public:
  bool Execute() override {
    const auto* const all = allocators.load(std::memory_order_acquire);
    if (all == nullptr) return false;
    const auto device = static_cast<std::size_t>(c10::cuda::current_device());
    if (device >= all->size() || !worth_emptying(*(*all)[device])) return false;
    try {
      return (*all)[device]->impl().empty_cache_for_others();
    } catch (const Error& error) {
      warn(text::format("cached memory could not be released for tensors: {}", error.what()));
      return false;
    }
  }
};

}  // namespace

void empty_cuda_cache() noexcept {
  try {
    c10::cuda::CUDACachingAllocator::emptyCache();
  } catch (const std::exception& error) {
    warn(text::format("the cached memory of libtorch could not be released: {}", error.what()));
  }
}

std::uint64_t cuda_reserved_bytes(c10::DeviceIndex device) {
  constexpr auto all = static_cast<std::size_t>(c10::CachingAllocator::StatType::AGGREGATE);
  const auto stats = c10::cuda::CUDACachingAllocator::getDeviceStats(device);
  return static_cast<std::uint64_t>(stats.reserved_bytes[all].current);
}

backend::Framework::PoolBytes cuda_pool_bytes(const Device& device, MempoolId pool) noexcept {
  backend::Framework::PoolBytes bytes;
  try {
    if (!has_cuda_tensors() || !c10::cuda::CUDACachingAllocator::get()->initialized()) return bytes;
    // Several pools of libtorch's may have the place of one.
    const MempoolId wanted = pools_were_replaced() ? MempoolId{} : pool;
    const auto snapshot = version::snapshot({wanted.first, wanted.second});
    for (const auto& segment : snapshot.segments) {
      const auto& theirs = segment.owner_private_pool_id;
      const MempoolId owner = pool_of_libtorch({theirs.first, theirs.second});
      if (segment.device != device.index() || !owner || (pool && owner != pool)) continue;
      bytes.reserved += segment.total_size;
      bytes.allocated += segment.allocated_size;
    }
  } catch (const std::exception& error) {
    warn(text::format("the memory of pools of libtorch is not known: {}", error.what()));
  }
  return bytes;
}

void empty_cuda_pinned_cache() noexcept {
  try {
    at::getHostAllocator(at::kCUDA)->empty_cache();
  } catch (const std::exception& error) {
    warn(text::format("the cached pinned memory of libtorch could not be released: {}", error.what()));
  }
}

// Either allocator that runs out of memory then empties the cache of the other one: EmptyOurCache, empty_cuda_cache().
[[gnu::hot]] bool has_cuda_tensors() noexcept {
  static const bool both = [] {
    if (backend::cuda_backends().empty() || c10::cuda::device_count() == 0) return false;
    auto all = std::make_unique<std::vector<CachingAllocator*>>();
    for (backend::Backend* const backend : backend::cuda_backends())
      all->push_back(&CachingAllocator::of(Device(*backend)));
    allocators.store(all.release(), std::memory_order_release);  // until the process ends
    return true;
  }();
  return both;
}

}  // namespace reprise::libtorch

// Before main(): the list of callbacks has no mutex.
namespace c10 {
REGISTER_FREE_MEMORY_CALLBACK(reprise, reprise::libtorch::EmptyOurCache)
}
