// SPDX-License-Identifier: Apache-2.0
#include "reprise/cache_statistics.h"

#include <algorithm>
#include <iterator>
#include <utility>

#include "cache/graph_cache_impl.h"
#include "text/format.h"
#include "text/size.h"

namespace reprise {

std::string caches::field_name(const std::vector<std::string>& names, std::size_t field) {
  return field < names.size() && !names[field].empty() ? names[field] : text::format("field {}", field);
}

namespace {

constexpr std::size_t most_reasons = 256;       // further ones are counted together
constexpr std::size_t most_compared_keys = 64;  // of those that were used last

std::size_t count_differences_of(const std::vector<std::string>& a, const std::vector<std::string>& b) {
  std::size_t differ = std::max(a.size(), b.size()) - std::min(a.size(), b.size());
  for (std::size_t i = 0; i < std::min(a.size(), b.size()); ++i) differ += a[i] != b[i] ? 1 : 0;
  return differ;
}

const char* text_of(RecaptureCause cause) {
  switch (cause) {
    case RecaptureCause::new_key:
      return "new key";
    case RecaptureCause::evicted_number:
      return "evicted, max_entries";
    case RecaptureCause::evicted_bytes:
      return "evicted, max_bytes";
    case RecaptureCause::forgotten:
      return "forgotten";
  }
  return "?";
}

const char* text_of(EagerCause cause) {
  switch (cause) {
    case EagerCause::counted:
      return "fewer calls than capture_after";
    case EagerCause::failed:
      return "capture failed";
    case EagerCause::too_large:
      return "larger than max_bytes";
    case EagerCause::thrashing:
      return "would thrash";
    case EagerCause::unordered:
      return "last stream is captured";
  }
  return "?";
}

}  // namespace

void GraphCache::Impl::add_reason(RecaptureCause why, std::string field) {
  auto reason = std::pair(why, std::move(field));
  if (reasons.size() >= most_reasons && !reasons.contains(reason)) reason = {why, "further fields"};
  ++reasons[std::move(reason)];
}

void GraphCache::Impl::count_recapture(const Record& record) {
  if (counts.captures.number == 0) return;
  if (record.evicted) return add_reason(*record.evicted, "");
  const std::vector<std::string> fields = record.key.field_texts();
  std::vector<std::string> of_nearest;
  std::size_t fewest = SIZE_MAX, compared = 0;
  for (Record& each : records.captured()) {
    if (++compared > most_compared_keys) break;
    std::vector<std::string> others = each.key.field_texts();
    const std::size_t differ = count_differences_of(fields, others);
    if (differ >= fewest) continue;
    fewest = differ;
    of_nearest = std::move(others);
  }
  if (compared == 0) return add_reason(RecaptureCause::new_key, "");
  if (fields.size() != of_nearest.size()) add_reason(RecaptureCause::new_key, "number of fields");
  for (std::size_t i = 0; i < std::min(fields.size(), of_nearest.size()); ++i)
    if (fields[i] != of_nearest[i]) add_reason(RecaptureCause::new_key, caches::field_name(options.key_fields, i));
}

GraphCacheStatistics GraphCache::Impl::statistics() {
  GraphCacheStatistics now = counts;
  now.hits = hits;
  now.entries = records.entries();
  now.keys = records.others();
  now.pool_bytes = pool_bytes();
  now.entry_bytes = entry_bytes();
  now.max_bytes = max_bytes;
  for (const auto& [reason, number] : reasons) now.recaptures.push_back({reason.first, reason.second, number});
  std::ranges::stable_sort(now.recaptures, std::ranges::greater(), &RecaptureReason::number);
  return now;
}

std::string GraphCacheStatistics::str() const {
  std::string table = text::format("{:<42}{:>9}{:>14}{:>12}\n", "", "number", "total", "each");
  const auto add = [&](const char* name, const CacheCount& count) {
    const double total = static_cast<double>(count.time.count()) * 1e-6;
    const double each = count.number == 0 ? 0 : total * 1e3 / static_cast<double>(count.number);
    table += text::format("{:<42}{:>9}{:>11.3f} ms{:>9.2f} us\n", name, count.number, total, each);
  };
  table += text::format("{:<42}{:>9}\n", "hits", hits);
  add("captures", captures);
  add("captures that failed", failed_captures);
  add("checks", checks);
  add("evictions", evictions);
  add("eager runs", eager);
  for (std::size_t i = 0; i < std::size(eager_by_cause); ++i)
    if (eager_by_cause[i] != 0)
      table += text::format("  {:<40}{:>9}\n", text_of(static_cast<EagerCause>(i)), eager_by_cause[i]);
  table += text::format("{:<42}{:>9}\n", "graphs", entries);
  table += text::format("{:<42}{:>9}\n", "keys without a graph", keys);
  table += text::format("memory: {} in the pool, {} of entries, at most {}\n", text::size_text(pool_bytes),
                        text::size_text(entry_bytes), text::size_text(max_bytes));
  for (const RecaptureReason& each : recaptures)
    table += text::format("recaptures: {}{}: {}\n", text_of(each.cause), each.field.empty() ? "" : ", " + each.field,
                          each.number);
  return table;
}

}  // namespace reprise
