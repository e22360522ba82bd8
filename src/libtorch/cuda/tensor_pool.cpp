// SPDX-License-Identifier: Apache-2.0
#include "libtorch/cuda/tensor_pool.h"

#include <ATen/core/CachingHostAllocator.h>
#include <c10/cuda/CUDACachingAllocator.h>
#include <c10/cuda/CUDAStream.h>

#include <atomic>
#include <map>
#include <mutex>
#include <string_view>
#include <utility>

#include "backend/backend.h"
#include "backend/check.h"
#include "captures/registry.h"
#include "libtorch/cuda/cuda_tensors.h"
#include "libtorch/cuda/versions/version.h"
#include "memory/pool_ids.h"
#include "reprise/error.h"
#include "support/immortal.h"
#include "text/format.h"

namespace reprise::libtorch {
namespace {

namespace device_memory = c10::cuda::CUDACachingAllocator;

c10::DeviceIndex index_of(const Device& device) {
  return static_cast<c10::DeviceIndex>(device.index());
}

version::PoolId c10_id(MempoolId id) {
  return {id.first, id.second};
}

// Called for each allocation while a capture is underway, with the allocator's mutex. On the stream that it began on,
// which most are for, without a query of the driver.
struct TakesPart {
  Device device;
  MempoolId pool;
  StreamHandle begun_on;

  bool operator()(const Device& where, StreamHandle stream) const {
    if (stream == begun_on && where == device) return true;
    const std::shared_ptr<captures::Capture> capture = captures::find_own(StreamRef(where, stream));
    return capture != nullptr && capture->pool() == pool;
  }
};

template <class F>
void release_or_warn(MempoolId id, F&& release) noexcept {
  try {
    release();
  } catch (const std::exception& error) {
    warn(text::format("pool {} of libtorch could not be released: {}", memory::pool_id_text(id), error.what()));
  }
}

// Pools of libtorch that have the place of another one, by device.
class Replacements {
 public:
  MempoolId of(const Device& device, MempoolId id) const {
    const std::lock_guard lock(mutex_);
    const auto known = current_.find({device.index(), id});
    return known != current_.end() ? known->second : id;
  }
  MempoolId add(const Device& device, MempoolId id) {
    const MempoolId made = new_cuda_pool_id(/*by_user=*/true).value();
    const std::lock_guard lock(mutex_);
    originals_.emplace(made, id);
    current_.insert_or_assign({device.index(), id}, made);
    any_.store(true, std::memory_order_release);
    return made;
  }
  bool any() const noexcept { return any_.load(std::memory_order_acquire); }
  MempoolId original(MempoolId theirs) const {
    if (!any()) [[likely]]
      return theirs;
    const std::lock_guard lock(mutex_);
    const auto known = originals_.find(theirs);
    return known != originals_.end() ? known->second : theirs;
  }

 private:
  std::atomic<bool> any_{false};
  mutable std::mutex mutex_;  // guards the rest; nothing is called under it
  std::map<std::pair<int, MempoolId>, MempoolId> current_;
  std::map<MempoolId, MempoolId> originals_;  // of all that were ever made: tensors may live in them
};

// Never destroyed: tensors may be freed until the process ends.
Replacements& replacements() {
  static support::Immortal<Replacements> instance;
  return *instance;
}

// Begins to fill a pool. libtorch fails, without a specific code, if another capture fills it, or if all graphs of the
// pool are gone and some of its memory, cached or in use, is not. Returns false for memory in use, which no new pool
// has.
template <class Begin, class EmptyCache, class Release>
bool begin_filling(const TensorPool& pool, bool is_new, std::string_view what, const Begin& begin,
                   const EmptyCache& empty_cache, const Release& release) {
  for (const bool again : {false, true}) {
    try {
      begin();
      return true;
    } catch (const c10::Error& error) {
      if (std::string_view(error.what_without_backtrace()).find("already recording") != std::string_view::npos) {
        release();  // undoes the failed call's increment
        throw UsageError(
            text::format("expected a pool that no capture is filling; found pool {} of {}, which another capture is "
                         "filling with {} now; end that capture first, or capture into another pool",
                         memory::pool_id_text(pool.id()), pool.device().str(), what));
      }
      if (is_new) throw;
      if (again) break;
    }
    const backend::RelaxedCaptureMode relaxed(pool.device().backend());
    release_or_warn(pool.id(), empty_cache);
  }
  return false;
}

}  // namespace

bool pools_were_replaced() noexcept {
  return replacements().any();
}

MempoolId pool_of_libtorch(MempoolId theirs) {
  return replacements().original(theirs);
}

TensorPool::~TensorPool() {
  const version::PoolId theirs = c10_id(theirs_);
  if (holds_pinned_memory_) release_or_warn(id_, [&] { version::release_pinned_pool(theirs); });
  if (holds_device_memory_) release_or_warn(id_, [&] { device_memory::releasePool(index_of(device_), theirs); });
}

TensorRoute::TensorRoute(const Device& device, MempoolId id, StreamHandle begun_on)
    : pool_(std::make_shared<TensorPool>(device, id, replacements().of(device, id))) {
  if (begin(begun_on, /*is_new=*/false)) return;
  pool_ = std::make_shared<TensorPool>(device, id, replacements().add(device, id));
  begin(begun_on, /*is_new=*/true);
}

bool TensorRoute::begin(StreamHandle begun_on, bool is_new) {
  bool begun = false;
  try {
    begun = begin_device_memory(begun_on, is_new) && begin_pinned_memory(begun_on, is_new);
  } catch (...) {
    end();
    throw;
  }
  if (!begun) end();
  return begun;
}

TensorRoute::~TensorRoute() {
  end();
}

bool TensorRoute::begin_device_memory(StreamHandle begun_on, bool is_new) {
  const c10::DeviceIndex index = index_of(pool_->device());
  const version::PoolId id = c10_id(pool_->id_in_libtorch());
  const TakesPart takes_part{pool_->device(), pool_->id(), begun_on};
  if (!begin_filling(
          *pool_, is_new, "tensors",
          [&] {
            device_memory::beginAllocateToPool(
                index, id, [takes_part](cudaStream_t stream) { return takes_part(takes_part.device, stream); });
          },
          [] { device_memory::emptyCache(); }, [&] { device_memory::releasePool(index, id); }))
    return false;
  device_memory_ = pool_->holds_device_memory_ = true;
  version::capture_begins(index);
  return true;
}

bool TensorRoute::begin_pinned_memory(StreamHandle begun_on, bool is_new) {
  const version::PoolId id = c10_id(pool_->id_in_libtorch());
  const TakesPart takes_part{pool_->device(), pool_->id(), begun_on};
  const auto filter = [takes_part](c10::Stream stream) {
    const auto& all = backend::cuda_backends();
    const auto index = static_cast<std::size_t>(stream.device_index());
    return index < all.size() && takes_part(Device(*all[index]), c10::cuda::CUDAStream(stream).stream());
  };
  if (!begin_filling(
          *pool_, is_new, "pinned tensors", [&] { version::begin_pinned_pool(id, filter); },
          [] { at::getHostAllocator(at::kCUDA)->empty_cache(); }, [&] { version::release_pinned_pool(id); }))
    return false;
  pinned_memory_ = pool_->holds_pinned_memory_ = true;
  return true;
}

void TensorRoute::end() noexcept {
  const version::PoolId id = c10_id(pool_->id_in_libtorch());
  if (std::exchange(pinned_memory_, false)) release_or_warn(pool_->id(), [&] { version::end_pinned_pool(id); });
  if (!std::exchange(device_memory_, false)) return;
  const c10::DeviceIndex index = index_of(pool_->device());
  release_or_warn(pool_->id(), [&] {
    device_memory::endAllocateToPool(index, id);
    version::capture_ended(index);
  });
}

}  // namespace reprise::libtorch
