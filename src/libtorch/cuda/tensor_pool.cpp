// SPDX-License-Identifier: Apache-2.0
#include "libtorch/cuda/tensor_pool.h"

#include <ATen/core/CachingHostAllocator.h>
#include <c10/cuda/CUDACachingAllocator.h>
#include <c10/cuda/CUDAStream.h>

#include <string>
#include <string_view>

#include "backend/backend.h"
#include "backend/check.h"
#include "captures/registry.h"
#include "libtorch/cuda/versions/version.h"
#include "memory/pool_ids.h"
#include "reprise/error.h"
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

// Seen with libtorch 2.11: a pool that had expandable segments does not become free when its memory does. The setting
// is read as it is: CUDAAllocatorConfig::expandable_segments() says false in what is compiled outside of libtorch.
std::string reason_of_expandable_segments() {
  if (!version::expandable_segments()) return "";
  return ", or that expandable segments keep, which libtorch's allocator does not release with PYTORCH_CUDA_ALLOC_CONF="
         "expandable_segments:True";
}

// Begins to fill a pool. libtorch fails, without a specific code, if another capture fills it, or if all graphs of the
// pool are gone and some of its memory, cached or in use, is not.
template <class Begin, class EmptyCache, class Release>
void begin_filling(const TensorPool& pool, std::string_view what, const Begin& begin, const EmptyCache& empty_cache,
                   const Release& release) {
  std::string text;
  for (const bool again : {false, true}) {
    try {
      begin();
      return;
    } catch (const c10::Error& error) {
      text = error.what_without_backtrace();
    }
    if (text.find("already recording") != std::string::npos) {
      release();  // undoes the failed call's increment
      throw UsageError(
          text::format("expected a pool that no capture is filling; found pool {} of {}, which another capture is "
                       "filling with {} now; end that capture first, or capture into another pool",
                       memory::pool_id_text(pool.id()), pool.device().str(), what));
    }
    if (again) break;
    const backend::RelaxedCaptureMode relaxed(pool.device().backend());
    release_or_warn(pool.id(), empty_cache);
  }
  throw UsageError(
      text::format("expected a pool that a graph holds, or an empty one; found pool {} of {}, in which {} still lie "
                   "although all its graphs are gone{}; free them first, or capture into another pool. (libtorch: {})",
                   memory::pool_id_text(pool.id()), pool.device().str(), what, reason_of_expandable_segments(), text));
}

}  // namespace

TensorPool::~TensorPool() {
  if (holds_pinned_memory_) release_or_warn(id_, [&] { version::release_pinned_pool(c10_id(id_)); });
  if (holds_device_memory_) release_or_warn(id_, [&] { device_memory::releasePool(index_of(device_), c10_id(id_)); });
}

TensorRoute::TensorRoute(const Device& device, MempoolId id, StreamHandle begun_on)
    : pool_(std::make_shared<TensorPool>(device, id)) {
  try {
    begin_device_memory(begun_on);
    begin_pinned_memory(begun_on);
  } catch (...) {
    end();
    throw;
  }
}

TensorRoute::~TensorRoute() {
  end();
}

void TensorRoute::begin_device_memory(StreamHandle begun_on) {
  const c10::DeviceIndex index = index_of(pool_->device());
  const version::PoolId id = c10_id(pool_->id());
  const TakesPart takes_part{pool_->device(), pool_->id(), begun_on};
  begin_filling(
      *pool_, "tensors",
      [&] {
        device_memory::beginAllocateToPool(
            index, id, [takes_part](cudaStream_t stream) { return takes_part(takes_part.device, stream); });
      },
      [] { device_memory::emptyCache(); }, [&] { device_memory::releasePool(index, id); });
  device_memory_ = pool_->holds_device_memory_ = true;
  version::capture_begins(index);
}

void TensorRoute::begin_pinned_memory(StreamHandle begun_on) {
  const version::PoolId id = c10_id(pool_->id());
  const TakesPart takes_part{pool_->device(), pool_->id(), begun_on};
  const auto filter = [takes_part](c10::Stream stream) {
    const auto& all = backend::cuda_backends();
    const auto index = static_cast<std::size_t>(stream.device_index());
    return index < all.size() && takes_part(Device(*all[index]), c10::cuda::CUDAStream(stream).stream());
  };
  begin_filling(
      *pool_, "pinned tensors", [&] { version::begin_pinned_pool(id, filter); },
      [] { at::getHostAllocator(at::kCUDA)->empty_cache(); }, [&] { version::release_pinned_pool(id); });
  pinned_memory_ = pool_->holds_pinned_memory_ = true;
}

void TensorRoute::end() noexcept {
  const version::PoolId id = c10_id(pool_->id());
  if (std::exchange(pinned_memory_, false)) release_or_warn(pool_->id(), [&] { version::end_pinned_pool(id); });
  if (!std::exchange(device_memory_, false)) return;
  const c10::DeviceIndex index = index_of(pool_->device());
  release_or_warn(pool_->id(), [&] {
    device_memory::endAllocateToPool(index, id);
    version::capture_ended(index);
  });
}

}  // namespace reprise::libtorch
