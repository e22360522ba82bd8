// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <stdexcept>
#include <string>
#include <vector>

#include "reprise/reprise.h"
#include "tests/support/accounting_backend.h"
#include "tests/unit/graph/graph_fixture.h"

// The walk of failures: what is done with graphs, as scenarios, and what must hold when any call of one fails.
//
// A listener or an operation that is new adds a line to the table in failure_walk_scenarios.cpp; the walk in
// failure_walk_test.cpp then fails each call of the runtime that the scenario makes, one after another.

namespace reprise::graphs::test {

/// What a scenario works with. Made anew for each time that one runs, on devices of the walk's own.
struct Stage {
  /// What both devices hold, by the counts of the allocator, of the driver and of the books.
  struct Level {
    std::uint64_t reserved = 0;
    std::uint64_t allocations = 0;
    std::uint64_t free = 0;
    backend::test::Living living;
    friend bool operator==(const Level&, const Level&) = default;
  };

  explicit Stage(KeepGraph keep);

  /// What each capture ends in.
  void increment() { add(x); }
  /// After unused cached memory was released.
  Level level();
  /// Values that a replay of `graph` leaves, from 1, 2, ... on; the flag is 1.
  std::vector<int> replayed_values();
  /// In private pools of both devices, in bytes.
  std::uint64_t reserved_by_pools() const;

  backend::test::AccountingBackend& runtime;
  Device device;
  std::optional<Device> second;  ///< where there are two devices
  DeviceGuard device_guard;
  Stream stream, side;
  std::optional<Stream> far;  ///< on the second device
  StreamGuard guard;          ///< `stream` is current
  Buffer<int> x = zeros();    ///< a replay of the graph adds one
  Buffer<int> y = zeros();
  static constexpr std::size_t flag = 7;  ///< in `values`: the place of one that no graph changes
  Buffer<int> values = zeros(8);          ///< see Values
  Buffer<int> far_y;
  CUDAGraph graph;
  CUDAGraph helper;
};

/// The states of a graph that can be distinguished from outside.
enum class Left { empty, captured, ready };

/// What an operation does to what a replay leaves in Stage::values. Where that is compared, it is what it was after a
/// failure, and the operation, repeated, has the same effect as without one: all its changes come about together.
enum class Values { not_compared, change, stay };

/// An operation whose every call is to fail once.
struct Scenario {
  const char* name;
  KeepGraph keep;
  void (*prepare)(Stage&);  ///< not walked; may be null
  void (*run)(Stage&);      ///< walked
  Left failed;              ///< what an exception leaves
  Left done;                ///< what there is when the call's failure was no failure of the operation
  bool two_devices = false;
  Values values = Values::not_compared;
};

/// What the body of a scenario throws itself, to see how a capture is left by an exception.
struct BodyFailed : std::runtime_error {
  BodyFailed() : std::runtime_error("the body of the capture failed") {}
};

/// All of them.
std::span<const Scenario> scenarios();

}  // namespace reprise::graphs::test
