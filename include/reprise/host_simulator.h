// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <iosfwd>
#include <string>
#include <vector>

#include "reprise/detail/export.h"
#include "reprise/device.h"
#include "reprise/host_device.h"

/// \file
/// A simulated device for one test, and the races that were found on it.

namespace reprise {

namespace backend::host {
struct SimulatedDevice;
}

/// Two operations that touch the same memory, of which at least one writes, and that nothing orders. See
/// docs/host-device.md, "Looking for races".
struct REPRISE_EXPORT HostRace {
  /// One of the two.
  struct Operation {
    std::string name;               ///< for example `kernel Scale`, `memcpy`
    std::string place;              ///< for example `stream 0x55c0a8f3b680 of host-simulator:0`, `node 2 of a graph`
    bool writes = false;            ///< else it reads
    const void* address = nullptr;  ///< of the memory that it touches
    std::size_t bytes = 0;          ///< of that memory
  };

  Operation first;                ///< the one that was submitted first
  Operation second;               ///< the other one
  const void* address = nullptr;  ///< of what both touch
  std::size_t bytes = 0;          ///< of what both touch
  std::string memory;             ///< the allocation that `address` lies in, in words
  std::string advice;             ///< how to order the two, a sentence without a full stop

  /// All of it in one line.
  std::string str() const;
  /// Writes str().
  friend std::ostream& operator<<(std::ostream& out, const HostRace& race);
};

/// A host device for one test, with options and a scheduler of its own:
///
///     for (std::uint64_t seed : {1, 2, 3}) {
///       reprise::HostSimulator simulator({.check_races = true, .scheduler_seed = seed});
///       const reprise::DeviceGuard guard(simulator.device());
///       ...
///       EXPECT_THAT(simulator.races(), IsEmpty());
///     }
///
/// Streams, events, buffers, graphs, captures and generators work on its device as on `host:0`. What is made on it
/// works with it alone: not with streams, events and memory of another simulator or of the host devices of the process.
/// The device is not among devices(), never default_device(), and tensors of libtorch cannot use it.
///
/// *Its end* waits for all work of the device. The device itself is kept: what outlives the simulator (buffers,
/// streams, graphs, Device values) stays valid. A later simulator with equal options, whatever its seed, uses the
/// device again once its memory is free, no graph is left on it and no operation of it has failed.
///
/// Thread-safe, except that the end of the object must be the last use of the object. It must not end in a host
/// function or a kernel.
class REPRISE_EXPORT HostSimulator {
 public:
  /// The environment variables of host devices do not matter.
  /// \throws UsageError if an option is out of range; Error if the system has not enough addresses for the memory.
  explicit HostSimulator(const HostDeviceOptions& options = {});
  ~HostSimulator();
  HostSimulator(const HostSimulator&) = delete;
  HostSimulator& operator=(const HostSimulator&) = delete;

  Device device() const noexcept;

  /// The races found so far, in the order in which they were found: each when the second operation was submitted.
  /// \throws UsageError if HostDeviceOptions::check_races is not set.
  std::vector<HostRace> races() const;

 private:
  backend::host::SimulatedDevice* device_;
};

}  // namespace reprise
