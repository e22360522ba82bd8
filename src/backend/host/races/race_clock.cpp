// SPDX-License-Identifier: Apache-2.0
#include "backend/host/races/race_clock.h"

#include <algorithm>

namespace reprise::backend::host {
bool Clock::covers(const Epoch& epoch) const noexcept {
  const auto found = std::ranges::lower_bound(entries_, epoch.timeline, {}, &Epoch::timeline);
  return found != entries_.end() && found->timeline == epoch.timeline && found->tick >= epoch.tick;
}

void Clock::add(const Epoch& epoch) {
  const auto found = std::ranges::lower_bound(entries_, epoch.timeline, {}, &Epoch::timeline);
  if (found == entries_.end() || found->timeline != epoch.timeline)
    entries_.insert(found, epoch);
  else
    found->tick = std::max(found->tick, epoch.tick);
}

void Clock::merge(const Clock& other) {
  for (const Epoch& epoch : other.entries_) add(epoch);
}

void Clock::subtract(const Clock& known) {
  std::erase_if(entries_, [&](const Epoch& epoch) { return known.covers(epoch); });
}

}  // namespace reprise::backend::host
