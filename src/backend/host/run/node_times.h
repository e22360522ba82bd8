// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <vector>

namespace reprise::backend::host {

/// Start and end of the nodes of a launch, by their places in the plan, and how often a node in a loop ran. Launches of
/// an executable do not overlap, and each node runs on one thread at a time, so there is no lock. Read after the
/// launch.
class NodeTimes {
 public:
  explicit NodeTimes(std::size_t nodes) : times_(nodes) {}

  void launched() noexcept {
    for (Time& time : times_) time = {};
  }
  void begins(std::size_t node) noexcept {
    Time& time = times_[node];
    time.last_start = now();
    if (time.runs == 0) time.start = time.last_start;
  }
  void ends(std::size_t node) noexcept {
    Time& time = times_[node];
    time.end = now();
    time.sum += time.end - time.last_start;
    ++time.runs;
  }

  std::size_t runs(std::size_t node) const noexcept { return times_[node].runs; }
  // In nanoseconds.
  std::uint64_t start(std::size_t node) const noexcept { return times_[node].start; }  ///< of the first run
  std::uint64_t end(std::size_t node) const noexcept { return times_[node].end; }      ///< of the last run
  std::uint64_t sum(std::size_t node) const noexcept { return times_[node].sum; }      ///< of all runs

 private:
  struct Time {
    std::uint64_t start = 0;
    std::uint64_t end = 0;
    std::uint64_t last_start = 0;
    std::uint64_t sum = 0;
    std::size_t runs = 0;
  };
  static std::uint64_t now() noexcept {
    const auto since = std::chrono::steady_clock::now().time_since_epoch();
    return static_cast<std::uint64_t>(std::chrono::duration_cast<std::chrono::nanoseconds>(since).count());
  }
  std::vector<Time> times_;
};

}  // namespace reprise::backend::host
