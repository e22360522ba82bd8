// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <chrono>
#include <cstdint>

namespace reprise::caches {

/// The time of a step that is too short to read the clock twice in each: of the first one, and then of one in 16, at
/// random distances, so that steps that differ in turn are met alike. One thread at a time.
class SampledTime {
 public:
  using Clock = std::chrono::steady_clock;

  /// One step, from the constructor on; not counted unless done() is called.
  class Step {
   public:
    explicit Step(SampledTime& time) : time_(time) { begin_again(); }
    /// Leaves out what was done so far.
    void begin_again() {
      if (time_.left_ == 0) [[unlikely]]
        begin_ = Clock::now();
    }
    void done() {
      if (time_.left_ == 0) [[unlikely]]
        time_.add(Clock::now() - begin_);
      else
        --time_.left_;
    }

   private:
    SampledTime& time_;
    Clock::time_point begin_;
  };

  /// The time of that many steps, at the mean of those that were timed.
  std::chrono::nanoseconds of(std::uint64_t steps) const noexcept {
    if (timed_ == 0) return std::chrono::nanoseconds(0);
    const double mean = static_cast<double>(total_.count()) / static_cast<double>(timed_);
    return std::chrono::nanoseconds(static_cast<std::chrono::nanoseconds::rep>(mean * static_cast<double>(steps)));
  }

 private:
  void add(Clock::duration time) {
    total_ += time;
    ++timed_;
    random_ = random_ * 6364136223846793005U + 1442695040888963407U;  // Knuth's
    left_ = static_cast<unsigned>(random_ >> 59);                     // 0 to 31
  }

  std::chrono::nanoseconds total_{0};
  std::uint64_t timed_ = 0;
  std::uint64_t random_ = 0;
  unsigned left_ = 0;  // steps until the next that is timed
};

}  // namespace reprise::caches
