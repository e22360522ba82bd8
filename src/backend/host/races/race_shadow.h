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

/// An access with the place that it has in the order of things.
struct Touch {
  Access access;
  Epoch epoch;
  std::string place;     ///< for example "stream 0x55d0 of host:0"
  std::uint64_t id = 0;  ///< of the place; addresses of streams are used again, ids are not
};

/// The history of memory: for each address who wrote it last, and who read it since.
class Shadow {
 public:
  /// Is what happened at an epoch ordered before the access that is looked at?
  using IsOrdered = std::function<bool(const Epoch& epoch)>;
  using OnConflict = std::function<void(const Touch& earlier, const Touch& now)>;

  /// Adds an access; calls `conflict` for each one before it that overlaps, is not ordered, and of which one writes.
  void touch(std::shared_ptr<const Touch> now, const IsOrdered& ordered, const OnConflict& conflict);
  /// The memory is new: nobody has touched it.
  void forget(std::uintptr_t begin, std::uintptr_t end);

 private:
  struct Segment {
    std::uintptr_t end = 0;
    std::shared_ptr<const Touch> write;
    std::vector<std::shared_ptr<const Touch>> reads;
  };
  using Segments = std::map<std::uintptr_t, Segment>;

  void split(std::uintptr_t at);  // no segment goes across this address
  Segments segments_;
};

}  // namespace reprise::backend::host
