// SPDX-License-Identifier: Apache-2.0
#include "reprise/graph_cache.h"

#include <utility>

#include "cache/graph_cache_impl.h"
#include "graph/resources/graph_counts.h"
#include "text/format.h"
#include "text/require_named.h"

namespace reprise {

namespace {

void refuse_option(const char* name, const char* expected) {
  throw UsageError(text::format("GraphCache expected {} to be {}.", name, expected));
}

GraphCacheOptions checked_options(GraphCacheOptions options) {
  if (options.max_entries == 0) refuse_option("GraphCacheOptions::max_entries", "at least 1");
  text::require_named("GraphCacheOptions::inputs", options.inputs, {CacheInputs::patch, CacheInputs::copy},
                      "CacheInputs::patch or CacheInputs::copy");
  text::require_named("GraphCacheOptions::outputs", options.outputs, {CacheOutputs::alias, CacheOutputs::copy},
                      "CacheOutputs::alias or CacheOutputs::copy");
  const GraphOptions& capture = options.capture;
  graphs::require_named_options(capture);
  const auto belongs = [](const char* name) {
    refuse_option(name, "left as it is: the cache decides it. Remove the option");
  };
  if (capture.pool) belongs("GraphOptions::pool");
  if (capture.stream) belongs("GraphOptions::stream");
  if (capture.warmup != 0) belongs("GraphOptions::warmup");
  if (capture.keep_graph != KeepGraph::no) belongs("GraphOptions::keep_graph");
  if (capture.discard_template) belongs("GraphOptions::discard_template");
  if (capture.check_frozen_values) belongs("GraphOptions::check_frozen_values");
  if (!capture.name.empty()) belongs("GraphOptions::name");
  return options;
}

}  // namespace

GraphCache::Impl::Impl(GraphCacheOptions wanted, const Device& device)
    : options(checked_options(std::move(wanted))),
      max_bytes(options.max_bytes != 0 ? options.max_bytes : device.memory_info().total / 4),
      check_every(options.check_every),
      shared(options, device),
      records(options.max_entries) {}

GraphCache::GraphCache(GraphCacheOptions options, Device device)
    : impl_(std::make_unique<Impl>(std::move(options), device)) {}

GraphCache::~GraphCache() = default;

[[gnu::hot]] cache_detail::Outcome GraphCache::run_call(const cache_detail::Call& call) {
  return impl_->run(call);
}

bool GraphCache::capture_call(const cache_detail::Call& call) {
  return impl_->capture_ahead(call);
}

std::size_t GraphCache::padded_length(std::size_t length) const {
  const char* const name = "GraphCache::run_padded";
  if (!impl_->options.padding)
    throw UsageError(text::format("{} expected GraphCacheOptions::padding; found none. Set it, or call run().", name));
  if (length == 0) throw UsageError(text::format("{} expected a length of at least 1; found 0.", name));
  const std::size_t padded = impl_->options.padding(length);
  if (padded < length)
    throw UsageError(
        text::format("{} expected GraphCacheOptions::padding to return at least {}; found {}.", name, length, padded));
  return padded;
}

bool GraphCache::forget(const CacheKey& key) {
  const Impl::Lock lock(*impl_, "GraphCache::forget");
  return impl_->records.forget(key);
}

void GraphCache::clear() {
  const Impl::Lock lock(*impl_, "GraphCache::clear");
  impl_->records.clear();
  impl_->begin_pool();
  impl_->warned_of_thrashing = impl_->warned_of_size = impl_->warned_of_unsettled = impl_->evicts_for_bytes = false;
  impl_->calls_without_hit = 0;
  impl_->hits_before = impl_->hits;
}

std::optional<CacheFailure> GraphCache::failure(const CacheKey& key) const {
  const Impl::Lock lock(*impl_, "GraphCache::failure");
  const caches::Record* const record = impl_->records.find(key);
  if (record == nullptr || record->failure == nullptr) return std::nullopt;
  return *record->failure;
}

bool GraphCache::contains(const CacheKey& key) const {
  const Impl::Lock lock(*impl_, "GraphCache::contains");
  const caches::Record* const record = impl_->records.find(key);
  return record != nullptr && record->entry != nullptr;
}

std::size_t GraphCache::size() const {
  const Impl::Lock lock(*impl_, "GraphCache::size");
  return impl_->records.entries();
}

GraphCacheStatistics GraphCache::statistics() const {
  const Impl::Lock lock(*impl_, "GraphCache::statistics");
  return impl_->statistics();
}

GraphMemory GraphCache::memory() const {
  graphs::GraphCounts counts;
  MempoolId shared;
  {
    const Impl::Lock lock(*impl_, "GraphCache::memory");
    for (const caches::Record& record : impl_->records.captured()) counts += record.entry->counts();
    shared = impl_->shared.pool;
  }
  return graphs::memory_of(impl_->shared.device, counts, shared);
}

Device GraphCache::device() const noexcept {
  return impl_->shared.device;
}

MempoolId GraphCache::pool() const {
  const Impl::Lock lock(*impl_, "GraphCache::pool");
  return impl_->shared.pool;
}

namespace cache_detail {

void check_result(const Lender* lender, std::uint64_t call) {
  if (lender == nullptr) return;
  const std::uint64_t now = lender->call.load(std::memory_order_relaxed);
  if (now != call) [[unlikely]]
    throw UsageError(text::format(
        "CacheResult: a result of replay {} of key {} was overwritten by replay {}. Use results before the "
        "next call of their key, copy them, or make the cache with CacheOutputs::copy.",
        call, lender->key, now));
}

void check_rows(const char* what, std::size_t number, std::size_t values, std::size_t length) {
  if (length != 0 && values % length != 0)
    throw UsageError(
        text::format("GraphCache::run_padded: expected {} {} to have {} rows; found {} values, which is no multiple of "
                     "that. Results "
                     "and inputs without such rows go to memory that the body uses directly.",
                     what, number, length, values));
}

void read_result(const Lender* lender, const void* data, void* values, std::size_t bytes, const StreamRef* stream) {
  if (bytes == 0) return;
  const detail::PublicCall call("CacheResult::read");
  const StreamRef on = stream != nullptr ? *stream : current_stream(lender->device);
  copy_async(values, data, bytes, on);
  on.synchronize();
}

}  // namespace cache_detail
}  // namespace reprise
