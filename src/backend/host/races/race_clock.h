// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <vector>

namespace reprise::backend::host {

/// One operation of one timeline: a stream, or a chain of nodes of a graph.
struct Epoch {
  std::uint64_t timeline = 0;
  std::uint64_t tick = 0;  ///< counts the operations of the timeline, from 1
};

/// A vector clock: for each timeline, the last operation that happened before. Sparse, because the set of streams
/// changes.
class Clock {
 public:
  bool covers(const Epoch& epoch) const noexcept;
  void add(const Epoch& epoch);
  void merge(const Clock& other);
  bool empty() const noexcept { return entries_.empty(); }
  /// Removes the entries that `known` covers.
  void subtract(const Clock& known);

 private:
  std::vector<Epoch> entries_;  // sorted by timeline, one for each
};

}  // namespace reprise::backend::host
