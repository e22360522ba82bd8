// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <set>
#include <utility>
#include <vector>

#include "reprise/device.h"

// Programs of a few operations, small enough that all their legal orders can be written down.

namespace reprise::backend::host::test {

enum class StreamKind { non_blocking, blocking, legacy };

/// One call of a program.
struct Step {
  enum class Kind { work, record, wait, launch };
  Kind kind;
  int stream;
  int other = 0;  ///< the event of a record or a wait, the graph of a launch
};

/// A graph of operations that can be distinguished; the edges go from the lower to the higher number.
struct SmallGraph {
  int nodes;
  std::vector<std::pair<int, int>> edges;
};

/// Operations are numbered as they are submitted: one for each `work`, and one for each node of a graph that is
/// launched.
struct SmallProgram {
  std::vector<StreamKind> streams;
  std::vector<SmallGraph> graphs;
  std::vector<Step> steps;
};

using Order = std::vector<int>;

/// How many operations it has.
int operation_count(const SmallProgram& program);

/// All orders in which CUDA allows the operations to run, one after the other. From the rules alone: streams are in
/// order, events, the legacy default stream, edges, and launches of one executable.
std::set<Order> legal_orders(const SmallProgram& program);

/// Runs the program, waits for the device, and returns the order in which its operations ran.
Order run(const SmallProgram& program, Device device);

/// A program for a seed, of 6 operations at most.
SmallProgram random_program(std::uint64_t seed);

}  // namespace reprise::backend::host::test
