// SPDX-License-Identifier: Apache-2.0
#include "backend/host/races/race_clock.h"

#include <algorithm>
#include <iterator>

namespace reprise::backend::host {
namespace {

bool earlier_timeline(const Epoch& a, const Epoch& b) {
  return a.timeline < b.timeline;
}

}  // namespace

bool Clock::covers(const Epoch& epoch) const noexcept {
  const auto found = std::lower_bound(entries_.begin(), entries_.end(), epoch, earlier_timeline);
  return found != entries_.end() && found->timeline == epoch.timeline && found->tick >= epoch.tick;
}

void Clock::add(const Epoch& epoch) {
  const auto found = std::lower_bound(entries_.begin(), entries_.end(), epoch, earlier_timeline);
  if (found == entries_.end() || found->timeline != epoch.timeline)
    entries_.insert(found, epoch);
  else
    found->tick = std::max(found->tick, epoch.tick);
}

void Clock::merge(const Clock& other) {
  std::vector<Epoch> merged;
  merged.reserve(entries_.size() + other.entries_.size());
  std::merge(entries_.begin(), entries_.end(), other.entries_.begin(), other.entries_.end(), std::back_inserter(merged),
             earlier_timeline);
  entries_.clear();
  for (const Epoch& epoch : merged) {
    if (!entries_.empty() && entries_.back().timeline == epoch.timeline)
      entries_.back().tick = std::max(entries_.back().tick, epoch.tick);
    else
      entries_.push_back(epoch);
  }
}

void Clock::subtract(const Clock& known) {
  std::erase_if(entries_, [&](const Epoch& epoch) { return known.covers(epoch); });
}

}  // namespace reprise::backend::host
