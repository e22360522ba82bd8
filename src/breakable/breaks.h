// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <memory>
#include <vector>

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
class Breaks {
 public:
  bool empty() const noexcept { return breaks_.empty(); }
  std::size_t size() const noexcept { return breaks_.size(); }
  Break& operator[](std::size_t number) const { return *breaks_[number]; }
  Break& back() const { return *breaks_.back(); }
  Break& add(Break made) { return *breaks_.emplace_back(std::make_unique<Break>(std::move(made))); }
  void clear() noexcept;

  /// Runs all of it on a stream, after the last launch. \throws what Break throws; UsageError if an eager part
  /// returns other shapes than in the capture.
  void run(const StreamRef& stream, memory::LastLaunch& last);

 private:
  std::vector<std::unique_ptr<Break>> breaks_;
};

}  // namespace reprise::breakables
