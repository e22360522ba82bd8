// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <atomic>
#include <cstdint>
#include <mutex>
#include <vector>

#include "support/immortal.h"
#include "support/thread_object.h"

namespace reprise::backend {

/// Numbers of guards that ended on another thread than they began on: these stay in the list of their thread.
class GuardsEndedElsewhere {
 public:
  static void add(std::uint64_t number) {
    GuardsEndedElsewhere& all = support::Immortal<GuardsEndedElsewhere>::get();
    const std::lock_guard lock(all.mutex_);
    all.numbers_.push_back(number);
  }
  static bool has(std::uint64_t number) {
    GuardsEndedElsewhere& all = support::Immortal<GuardsEndedElsewhere>::get();
    const std::lock_guard lock(all.mutex_);
    return std::ranges::find(all.numbers_, number) != all.numbers_.end();
  }

 private:
  std::mutex mutex_;
  std::vector<std::uint64_t> numbers_;
};

/// A number for a guard, which no other one has.
inline std::uint64_t next_guard_number() noexcept {
  static constinit std::atomic<std::uint64_t> last{0};
  return ++last;
}

/// The guards of one kind that the calling thread has begun and not ended, in order, with what was current before.
///
/// Guards mostly end in the reverse order. One that ends while a later one is there changes nothing that is current,
/// and the later one restores what this one would have: what was current in between may be gone by then.
template <class Previous>
class OpenGuards {
 public:
  /// Guards may be static or `thread_local` objects, so this outlives them.
  static OpenGuards& of_thread() { return support::ThreadObject<OpenGuards>::get(); }

  /// Makes room, so that begin() cannot fail.
  void reserve() {
    if (open_.size() == open_.capacity()) open_.reserve(2 * open_.size() + 4);
  }
  void begin(std::uint64_t number, Previous previous) noexcept { open_.push_back({number, previous}); }

  /// Calls `restore(Previous)`, or leaves that to the next later guard for which `concerns(Previous)` holds: calls
  /// `inherit(its Previous&, Previous)`.
  template <class Concerns, class Inherit, class Restore>
  void end(std::uint64_t number, const Concerns& concerns, const Inherit& inherit, const Restore& restore) {
    auto mine = std::ranges::find(open_, number, &Open::number);
    if (mine == open_.end()) return;
    const Previous previous = mine->previous;
    for (auto later = open_.erase(mine); later != open_.end();) {
      if (!concerns(later->previous))
        ++later;
      else if (GuardsEndedElsewhere::has(later->number))
        later = open_.erase(later);
      else
        return inherit(later->previous, previous);
    }
    restore(previous);
  }

 private:
  struct Open {
    std::uint64_t number;
    Previous previous;
  };
  std::vector<Open> open_;
};

}  // namespace reprise::backend
