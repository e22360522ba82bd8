// SPDX-License-Identifier: Apache-2.0
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

CachedFunction::CachedFunction(GraphedCacheOptions options, const GraphedSource& source)
    : options_(checked(std::move(options))), source_(source) {}

// On the device of the call if there is none yet.
GraphCache& CachedFunction::cache_of(const CallKey& call) {
  const std::lock_guard lock(mutex_);
  if (!call.device)
    throw UsageError(text::format(
        "A call of cached {} expected an argument or a parameter that is a tensor, to determine the device; found "
        "none.",
        source_.name));
  if (!device_) {
    cache_ = std::make_unique<GraphCache>(cache_options(options_, source_.name), device_of_tensors(*call.device));
    device_ = call.device;
  }
  if (*device_ != *call.device)
    throw UsageError(
        text::format("A call of cached {} expected tensors on {}, as in its first call; found some on {}. Make a "
                     "callable for each device.",
                     source_.name, device_->str(), call.device->str()));
  return *cache_;
}

void CachedFunction::run(const CallKey& call, const cache_detail::Body& body) {
  cache_detail::CacheAccess::run(cache_of(call), {call.key, {}, body, {}});
}

bool CachedFunction::capture(const CallKey& call, const cache_detail::Body& body) {
  return cache_detail::CacheAccess::capture(cache_of(call), {call.key, {}, body, {}});
}

GraphCache* CachedFunction::cache() const {
  const std::lock_guard lock(mutex_);
  return cache_.get();
}

std::shared_ptr<PoolShare> CachedFunction::share_of(const MempoolId& pool) const {
  const std::lock_guard lock(mutex_);
  std::shared_ptr<PoolShare> share = pool_ == pool ? share_.lock() : nullptr;
  if (share == nullptr) share = std::make_shared<PoolShare>(0);
  pool_ = pool;
  share_ = share;
  return share;
}

}  // namespace reprise::libtorch::detail
