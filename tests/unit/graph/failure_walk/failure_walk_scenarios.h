// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <span>

#include "tests/unit/graph/failure_walk/failure_walk.h"

// What scenarios of the failure walk share.

namespace reprise::graphs::test::walk {

constexpr std::size_t segment_size = std::size_t{1} << 20;  ///< values: a segment of its own
constexpr auto kept = KeepGraph::yes;
constexpr auto made = KeepGraph::no;

void capture_plainly(Stage& s);
void capture_with_allocations(Stage& s);
void instantiate(Stage& s);
void replay(Stage& s);
void reset(Stage& s);
void prepare_replayed(Stage& s);

/// A pointer in pinned memory that is never freed, and not of the walk's devices.
void* pinned_memory();

/// Scenarios of captures whose inputs are found, watched or retained.
std::span<const Scenario> scenarios_of_inputs();
/// Scenarios of graphs that are changed, updated, recaptured or compared.
std::span<const Scenario> scenarios_of_changes();
/// Scenarios of child graphs, control flow and allocation nodes, with the values that replays leave.
std::span<const Scenario> scenarios_of_values();

}  // namespace reprise::graphs::test::walk
