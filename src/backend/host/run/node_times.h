// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <vector>

namespace reprise::backend::host {

/// Start and end of the nodes of a launch, by their places in the plan; of a node in a loop, of its last run. Launches
/// of an executable do not overlap, and each node runs on one thread, so there is no lock. Read after the launch.
class NodeTimes {
 public:
  explicit NodeTimes(std::size_t nodes) : times_(nodes) {}

  void launched() noexcept {
    for (Time& time : times_) time = {};
  }
  void begins(std::size_t node) noexcept { times_[node].start = now(); }
  void ends(std::size_t node) noexcept { times_[node].end = now(); }

  bool has_run(std::size_t node) const noexcept { return times_[node].end != 0; }
  std::uint64_t start(std::size_t node) const noexcept { return times_[node].start; }  ///< nanoseconds
  std::uint64_t end(std::size_t node) const noexcept { return times_[node].end; }      ///< nanoseconds

 private:
  struct Time {
    std::uint64_t start = 0;
    std::uint64_t end = 0;
  };
  static std::uint64_t now() noexcept {
    const auto since = std::chrono::steady_clock::now().time_since_epoch();
    return static_cast<std::uint64_t>(std::chrono::duration_cast<std::chrono::nanoseconds>(since).count());
  }
  std::vector<Time> times_;
};

}  // namespace reprise::backend::host
