// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <deque>
#include <memory>

#include "memory/lifetime/last_launch.h"
#include "reprise/eager_function.h"
#include "reprise/graph.h"
#include "reprise/stream.h"

namespace reprise::breakables {

/// A segment, and the eager part behind it.
struct Break {
  CUDAGraph segment;       ///< also if it has no nodes: memory of the pool is the graph's, too
  bool has_nodes = false;  ///< else it is not launched
  std::unique_ptr<eager_detail::Function> function;

  /// Launches the segment on a stream. \throws as CUDAGraph::replay().
  void launch(const StreamRef& stream, memory::LastLaunch& last);
  /// Runs the function, with the stream as the current one, outside of the capture that the thread may be in.
  /// \throws what the function throws.
  void run_function(const StreamRef& stream, memory::LastLaunch& last);
};

/// All segments but the last one, each with the eager part behind it. One thread at a time.
using Breaks = std::deque<Break>;

/// Runs all of it on a stream, after the last launch. \throws what Break throws; UsageError if an eager part returns
/// other shapes than in the capture.
void run(Breaks& breaks, const StreamRef& stream, memory::LastLaunch& last);

}  // namespace reprise::breakables
