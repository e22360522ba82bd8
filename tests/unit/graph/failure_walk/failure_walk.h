// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <optional>
#include <span>
#include <vector>

#include "reprise/reprise.h"
#include "tests/unit/graph/failure_walk/call_walk.h"
#include "tests/unit/graph/graph_fixture.h"

// What is done with graphs, as scenarios of the walk of failures (call_walk.h). A listener or an operation that is new
// adds a line to the table in failure_walk_scenarios.cpp.

namespace reprise::graphs::test {

using reprise::test::BodyFailed;

/// What a scenario works with. Made anew for each time that one runs, on devices of the walk's own.
struct Stage {
  explicit Stage(KeepGraph keep);

  /// What each capture ends in.
  void increment() { add(x); }
  /// Values that a replay of `graph` leaves, from 1, 2, ... on; the flag is 1.
  std::vector<int> replayed_values();

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

/// All of them.
std::span<const Scenario> scenarios();

}  // namespace reprise::graphs::test
