// SPDX-License-Identifier: Apache-2.0
#include "backend/host/races/race_shadow.h"

#include <algorithm>
#include <utility>

namespace reprise::backend::host {

void Shadow::split(std::uintptr_t at) {
  auto after = segments_.upper_bound(at);
  if (after == segments_.begin()) return;
  const auto segment = std::prev(after);
  if (segment->first == at || segment->second.end <= at) return;
  Segment upper = segment->second;
  segment->second.end = at;
  segments_.emplace_hint(after, at, std::move(upper));
}

void Shadow::forget(std::uintptr_t begin, std::uintptr_t end) {
  split(begin);
  split(end);
  segments_.erase(segments_.lower_bound(begin), segments_.lower_bound(end));
}

void Shadow::touch(std::shared_ptr<const Touch> now, const IsOrdered& ordered, const OnConflict& conflict) {
  const auto [begin, end] = std::pair(now->access.begin, now->access.end);
  split(begin);
  split(end);
  const bool writes = now->access.writes;
  std::uintptr_t covered = begin;
  for (auto at = segments_.lower_bound(begin); at != segments_.end() && at->first < end; ++at) {
    Segment& segment = at->second;
    if (segment.write != nullptr && !ordered(segment.write->epoch)) conflict(*segment.write, *now);
    if (writes) {
      for (const auto& read : segment.reads)
        if (!ordered(read->epoch)) conflict(*read, *now);
      continue;
    }
    // An access ordered after this read is ordered after those before it, too.
    std::erase_if(segment.reads, [&](const auto& read) { return ordered(read->epoch); });
    segment.reads.push_back(now);
    if (at->first > covered) segments_.emplace_hint(at, covered, Segment{at->first, nullptr, {now}});
    covered = segment.end;
  }
  if (writes) {
    segments_.erase(segments_.lower_bound(begin), segments_.lower_bound(end));
    segments_.emplace(begin, Segment{end, std::move(now), {}});
  } else if (covered < end) {
    segments_.emplace(covered, Segment{end, nullptr, {std::move(now)}});
  }
}

}  // namespace reprise::backend::host
