// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <optional>

namespace benchmarks {

/// For a process that the benchmark `memory` has started, to measure one side: does so, and returns its exit status.
/// Nullopt for any other.
std::optional<int> measure_memory(int argc, char** argv);

}  // namespace benchmarks
