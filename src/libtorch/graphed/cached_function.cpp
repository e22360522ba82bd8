// SPDX-License-Identifier: Apache-2.0
#include <mutex>
#include <utility>

#include "libtorch/cuda/cuda_tensors.h"
#include "libtorch/tensor_device.h"
#include "reprise/error.h"
#include "reprise/libtorch/graphed_cache.h"
#include "text/format.h"

namespace reprise::libtorch::detail {
namespace {

GraphedCacheOptions checked(GraphedCacheOptions options) {
  if (options.max_entries == 0)
    throw UsageError("make_graphed_callables expected GraphedCacheOptions::max_entries to be at least 1.");
  if (options.callable.pool)
    throw UsageError(
        "make_graphed_callables with a cache expected GraphedCallableOptions::pool to be left as it is: the cache "
        "decides it. Remove the option.");
  return options;
}

GraphCacheOptions cache_options(const GraphedCacheOptions& options, const std::string& source) {
  GraphCacheOptions cache;
  cache.name = options.name.empty() ? source : options.name;
  cache.max_entries = options.max_entries;
  cache.max_bytes = options.max_bytes;
  cache.capture_after = options.capture_after;
  cache.check_every = options.check_every;
  cache.key_fields = call_key_fields();
  return cache;
}

}  // namespace

std::uint64_t framework_bytes(c10::Device device) {
  return device.is_cuda() ? cuda_reserved_bytes(device.index()) : 0;
}

struct CachedFunction::Impl {
  Impl(GraphedCacheOptions wanted, GraphedSource its_source)
      : options(checked(std::move(wanted))),
        cache_options(detail::cache_options(options, its_source.name)),
        source(std::move(its_source)) {}

  /// The cache, on the device of the call if there is none yet.
  GraphCache& cache_of(const CallKey& call) {
    const std::optional<c10::Device> found = call.device;
    const std::lock_guard lock(mutex);
    if (!found)
      throw UsageError(text::format(
          "A call of cached {} expected an argument or a parameter that is a tensor, to determine the device; found "
          "none.",
          source.name));
    if (!device) {
      cache = std::make_unique<GraphCache>(cache_options, device_of_tensors(*found));
      device = found;
    }
    if (*device != *found)
      throw UsageError(
          text::format("A call of cached {} expected tensors on {}, as in its first call; found some on {}. Make a "
                       "callable for each device.",
                       source.name, device->str(), found->str()));
    return *cache;
  }
  const GraphedCacheOptions options;
  const GraphCacheOptions cache_options;
  const GraphedSource source;
  mutable std::mutex mutex;
  std::optional<c10::Device> device;
  std::unique_ptr<GraphCache> cache;
  MempoolId pool;
  std::weak_ptr<PoolShare> share;  // of that pool
};

CachedFunction::CachedFunction(GraphedCacheOptions options, const GraphedSource& source)
    : impl_(std::make_unique<Impl>(std::move(options), source)) {}
CachedFunction::~CachedFunction() = default;

void CachedFunction::run(const CallKey& call, const cache_detail::Body& body) {
  cache_detail::CacheAccess::run(impl_->cache_of(call), {call.key, {}, body, {}});
}

bool CachedFunction::capture(const CallKey& call, const cache_detail::Body& body) {
  return cache_detail::CacheAccess::capture(impl_->cache_of(call), {call.key, {}, body, {}});
}

GraphCache* CachedFunction::cache() const {
  const std::lock_guard lock(impl_->mutex);
  return impl_->cache.get();
}

std::optional<c10::Device> CachedFunction::device() const {
  return device_of_source(impl_->source);
}

std::shared_ptr<PoolShare> CachedFunction::share_of(const MempoolId& pool) const {
  const std::lock_guard lock(impl_->mutex);
  std::shared_ptr<PoolShare> share = impl_->pool == pool ? impl_->share.lock() : nullptr;
  if (share == nullptr) share = std::make_shared<PoolShare>();
  impl_->pool = pool;
  impl_->share = share;
  return share;
}

const GraphedCallableOptions& CachedFunction::options() const noexcept {
  return impl_->options.callable;
}

}  // namespace reprise::libtorch::detail
