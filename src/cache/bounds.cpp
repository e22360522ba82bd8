// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "backend/framework.h"
#include "cache/graph_cache_impl.h"
#include "memory/lifetime/release_queue.h"
#include "text/format.h"

// The bounds of a cache: which graphs are released, and when.

namespace reprise {

using caches::Entry;
using caches::Record;

std::uint64_t GraphCache::Impl::pool_bytes() const {
  return CachingAllocator::of(shared.device).statistics(shared.pool).reserved_bytes;
}

std::uint64_t GraphCache::Impl::used_pool_bytes() const {
  memory::ReleaseQueue::drain();
  std::uint64_t bytes = CachingAllocator::of(shared.device).statistics(shared.pool).allocated_bytes;
  const backend::Framework* const framework = backend::installed_framework();
  if (framework == nullptr) return bytes;
  try {
    for (const auto& block : framework->blocks(shared.device))
      if (block.in_use && block.pool == shared.pool) bytes += block.bytes;
  } catch (const UsageError&) {  // an allocator of another kind, whose inputs are not known either
  }
  return bytes;
}

std::uint64_t GraphCache::Impl::entry_bytes() {
  std::uint64_t bytes = 0;
  for (const Record& record : records.captured()) bytes += record.entry->bytes();
  return bytes;
}

void GraphCache::Impl::release(Record& record) {
  if (record.entry == nullptr) return;
  record.bytes = record.entry->bytes();
  records.set_entry(record, nullptr);
}

// A graph that is released after few replays has cost more than it saved. Each one that follows has to wait for twice
// as many eager calls.
void GraphCache::Impl::evict(Record& record, RecaptureCause cause_of_release) {
  constexpr std::size_t few_replays = 4;
  constexpr unsigned most_doublings = 10;
  const Clock::time_point begin = Clock::now();
  const bool short_life = record.hits < few_replays;
  record.short_lives = short_life ? std::min(record.short_lives + 1, most_doublings + 1) : 0;
  record.wait = short_life ? (std::size_t{1} << (record.short_lives - 1)) - 1 : 0;
  record.evicted = cause_of_release;
  record.calls = options.capture_after;  // the next call captures it again
  release(record);
  count(counts.evictions, begin);
}

void GraphCache::Impl::release_leftovers() {
  memory::ReleaseQueue::drain();
  has_leftovers = pool_bytes() > pool_before;
}

void GraphCache::Impl::make_room() {
  while (records.entries() >= options.max_entries) evict(*records.oldest(), RecaptureCause::evicted_number);
}

// Two keys that take each other's place are both captured in each call, which is slower than no graph. So a key only
// takes the place of entries that were not used since the last call of the key.
bool GraphCache::Impl::would_thrash(const Record& record) {
  const Record* last_released = nullptr;
  if (records.entries() >= options.max_entries) last_released = records.oldest();
  if (record.evicted) {
    std::uint64_t needed = bytes() + record.bytes;
    for (auto each = records.captured().rbegin(); each != records.captured().rend() && needed > max_bytes; ++each) {
      needed -= std::min(needed, each->entry->bytes());
      last_released = &*each;
    }
  }
  return last_released != nullptr && record.last_use != 0 && last_released->last_use > record.last_use;
}

// An unknown key may be one whose record was dropped. Capturing it at once could thrash, so its second call decides.
bool GraphCache::Impl::may_be_forgotten() const {
  return records.has_forgotten() && (evicts_for_bytes || records.entries() >= options.max_entries);
}

void GraphCache::Impl::warn_of_thrashing(const CacheKey& key, bool needs_capture) {
  if (std::exchange(warned_of_thrashing, true)) return;
  const std::string bounds = text::format(
      "the cache holds {} graphs (max_entries = {}) with {} bytes (max_bytes = {}), and remembers "
      "{} keys without one. Raise the bound that is reached, or map more calls to one key "
      "(padding). Further keys are not reported; statistics() counts them.",
      records.entries(), options.max_entries, bytes(), max_bytes, records.others());
  if (needs_capture)
    warn(
        text::format("GraphCache: key {} is captured again, and takes the place of another graph that is in use. A "
                     "body with control flow does not run eagerly: {}",
                     key_text(key), bounds));
  else
    warn(
        text::format("GraphCache: key {} runs eagerly: its graph would take the place of another one that is "
                     "in use: {}",
                     key_text(key), bounds));
}

// A cache whose keys are all in use has called each `capture_after` times, and captured it, before its calls are hits.
// Several times as many calls without one, and more than hits meanwhile, are those of keys that come and go.
void GraphCache::Impl::warn_if_unsettled() {
  constexpr std::uint64_t least = 256;
  const std::uint64_t enough = std::max(least, 4 * (std::uint64_t{options.capture_after} + 1) * options.max_entries);
  if (warned_of_unsettled || ++calls_without_hit < enough) return;
  const std::uint64_t without = std::exchange(calls_without_hit, 0), hits_meanwhile = hits - hits_before;
  hits_before = hits;
  if (hits_meanwhile >= without) return;
  warned_of_unsettled = true;
  warn(text::format(
      "GraphCache{}: of the last {} calls {} replayed a graph: most calls have a key of their own. {}Leave out of the "
      "key what the graph need not depend on, and pass it in memory of the device, or map more calls to one key "
      "(padding). This is not reported again; statistics() counts eager runs and captures.",
      options.name.empty() ? "" : " `" + options.name + "`", without + hits_meanwhile, hits_meanwhile,
      changing_fields()));
}

// Names the fields that keep taking new values: most of those in the newer half of the keys are in no older one.
std::string GraphCache::Impl::changing_fields() const {
  constexpr std::size_t most_keys = 256;
  const std::vector<const CacheKey*> keys = records.last_used(most_keys);
  std::vector<std::set<std::string>> newer, older;
  for (std::size_t i = 0; i < keys.size(); ++i) {
    const std::vector<std::string> fields = keys[i]->field_texts();
    if (newer.size() < fields.size()) newer.resize(fields.size());
    older.resize(newer.size());
    auto& half = 2 * i < keys.size() ? newer : older;
    for (std::size_t k = 0; k < fields.size(); ++k) half[k].insert(fields[k]);
  }
  std::string text;
  for (std::size_t i = 0; i < newer.size(); ++i) {
    const auto is_new = [&](const std::string& value) { return !older[i].contains(value); };
    const auto added = static_cast<std::size_t>(std::ranges::count_if(newer[i], is_new));
    if (2 * added > newer[i].size())
      text += text::format("In the last {} keys {} has {} values. ", keys.size(),
                           caches::field_name(options.key_fields, i), older[i].size() + added);
  }
  return text;
}

void GraphCache::Impl::begin_pool() {
  shared.pool = graph_pool_handle();
  pool_captures = 0;
}

// As in would_thrash(), a key takes the place of idle entries only. What they had in the pool goes back with the last
// one of the pool.
bool GraphCache::Impl::release_idle(const Record* record, std::uint64_t missing) {
  const std::uint64_t last_use = record != nullptr ? record->last_use : 0;
  const auto is_idle = [&](const Record& each) { return last_use == 0 || each.last_use < last_use; };
  std::size_t idle = 0;
  std::uint64_t released = 0;
  for (const Record& each : records.captured()) {
    if (!is_idle(each)) continue;
    ++idle;
    released += each.entry->bytes();
  }
  if (idle == records.entries()) released += pool_bytes();
  if (idle == 0 || released < missing) return false;
  evicts_for_bytes = true;
  for (; idle != 0; --idle) evict(*records.oldest(), RecaptureCause::evicted_bytes);
  if (records.entries() == 0) begin_pool();
  // Before the next capture: while one is underway, memory that the default stream used cannot be released.
  memory::ReleaseQueue::drain_waiting();
  return true;
}

std::uint64_t GraphCache::Impl::added_bytes(const Entry& entry) const {
  const std::uint64_t pool_now = pool_bytes();
  return entry.bytes() + pool_now - std::min(pool_now, pool_before);
}

std::shared_ptr<const CacheFailure> GraphCache::Impl::too_large(const CacheKey& key, std::uint64_t needed) {
  evicts_for_bytes = true;
  const std::string what = text::format(
      "GraphCache: key {} runs eagerly: its graph alone needs {} bytes of device memory, more than max_bytes = {}.",
      key_text(key), needed, max_bytes);
  if (!std::exchange(warned_of_size, true))
    warn(what + " Further keys are not reported; failure() has the text of each, statistics() counts their calls.");
  return std::make_shared<const CacheFailure>(CacheFailure{what});
}

void GraphCache::Impl::discard(std::shared_ptr<Entry>& entry) {
  entry.reset();
  memory::ReleaseQueue::drain();
  if (records.entries() == 0) begin_pool();
}

// Memory that graphs use while they run stays in the pool until no graph can use it: the graphs of the capture that
// added it, and of all later ones, are gone. Where releasing other entries is not enough, all are released, and a new
// pool begins.
void GraphCache::Impl::keep_within_bytes(Record& fresh, std::uint64_t added) {
  if (bytes() > max_bytes) memory::ReleaseQueue::drain();  // of captures that failed
  if (bytes() > max_bytes) evicts_for_bytes = true;
  if (added > max_bytes) {  // had to be launched: its first eager parts have run
    evict(fresh, RecaptureCause::evicted_bytes);
    fresh.failure = too_large(fresh.key, added);
    fresh.too_large = true;
    memory::ReleaseQueue::drain();
  }
  const bool has_entry = fresh.entry != nullptr;
  const std::size_t own = has_entry ? 1 : 0;
  while (bytes() > max_bytes && records.entries() > own) evict(*records.oldest(), RecaptureCause::evicted_bytes);
  const std::uint64_t needed = bytes();
  if (needed <= max_bytes) return;
  const bool alone = pool_captures == 1;
  if (has_entry) evict(fresh, RecaptureCause::evicted_bytes);
  begin_pool();
  if (!has_entry) return;
  fresh.bytes = alone ? needed : added;
  // Memory that other captures left in the pool may be the reason: the next call captures it alone.
  if (!alone) return;
  fresh.failure = too_large(fresh.key, needed);
  fresh.too_large = true;
}

}  // namespace reprise
