// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "backend/host/races/race_clock.h"

namespace reprise::backend::host {

/// A range of addresses that an operation reads or writes.
struct Access {
  std::uintptr_t begin = 0;
  std::uintptr_t end = 0;  ///< exclusive
  bool writes = false;
  std::string name;  ///< of the operation, for example "memcpy" or "kernel Add"
};

/// An access with its position in the order of operations.
struct Touch {
  Access access;
  Epoch epoch;
  std::string place;     ///< for example "stream 0x55d0 of host:0"
  std::uint64_t id = 0;  ///< of the place; addresses of streams are reused, ids are not
};

/// The history of memory: for each address the last write, and the reads since.
class Shadow {
 public:
  /// True if an epoch is ordered before the access being checked.
  using IsOrdered = std::function<bool(const Epoch& epoch)>;
  using OnConflict = std::function<void(const Touch& earlier, const Touch& now)>;

  /// Adds an access; calls `conflict` for each earlier one that overlaps, is unordered, where at least one writes.
  void touch(std::shared_ptr<const Touch> now, const IsOrdered& ordered, const OnConflict& conflict);
  /// Forgets the accesses to newly allocated memory.
  void forget(std::uintptr_t begin, std::uintptr_t end);

 private:
  struct Segment {
    std::uintptr_t end = 0;
    std::shared_ptr<const Touch> write;
    std::vector<std::shared_ptr<const Touch>> reads;
  };
  using Segments = std::map<std::uintptr_t, Segment>;

  void split(std::uintptr_t at);  // makes this address a boundary between segments
  Segments segments_;
};

}  // namespace reprise::backend::host
