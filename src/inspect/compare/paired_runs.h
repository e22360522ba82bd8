// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "graph/capture/internal_streams.h"
#include "inspect/compare/compared_memory.h"
#include "inspect/compare/memory_image.h"
#include "inspect/compare/node_order.h"
#include "inspect/compare/single_nodes.h"
#include "inspect/compare/written_memory.h"

namespace reprise::inspect {

/// A graph whose nodes are executed one by one.
struct SteppedGraph {
  explicit SteppedGraph(graphs::GraphAccess::Impl& impl) : graph(impl), steps(graph), work(read_work(graph)) {}

  /// The work of a step; that of the end of a child graph is none.
  const NodeWork& work_of(std::size_t step) const { return work[steps.node[step]]; }
  bool runs(std::size_t step) const {
    return work_of(step).runs && graph.values.nodes[steps.node[step]].type != backend::NodeType::child_graph;
  }

  ComparedGraph graph;
  const GraphSteps steps;
  const std::vector<NodeWork> work;
};

/// The executions of two graphs, step by step, each from the same memory. Saves that memory, and restores it when it is
/// destroyed, after all work that was launched.
///
///     begin(side) -> launch(side, step) ... -> wait() -> memory is read
class PairedRuns {
 public:
  struct Options {
    std::vector<MemoryRange> saved;  ///< disjoint
    std::vector<RangePair> words;    ///< seeds and offsets of random numbers
  };

  /// Makes the executables. Nothing is executed. \throws as SingleNodes::make.
  PairedRuns(const SteppedGraph& first, const SteppedGraph& second, const ComparedMemory& memory);
  ~PairedRuns();
  PairedRuns(const PairedRuns&) = delete;
  PairedRuns& operator=(const PairedRuns&) = delete;

  /// Saves the memory, which no work may be writing.
  void save(Options options);
  /// Restores it for the last time.
  void restore();
  std::size_t saved_bytes() const noexcept { return saved_.bytes(); }

  /// Memory of the captures begins in the second graph as in the first one.
  void begin(Side side);
  void launch(Side side, std::size_t step);
  void wait() const;
  backend::Backend& backend() const noexcept { return backend_; }
  StreamHandle stream() const noexcept { return stream_.ref().native(); }

 private:
  void make(Side side, const SteppedGraph& graph);

  const ComparedMemory& memory_;
  backend::Backend& backend_;
  const graphs::InternalStream stream_;
  SingleNodes nodes_;
  std::vector<GraphExecHandle> execs_[2];  // of each step; null if it does nothing
  Options options_;
  MemoryImage saved_, words_;
  bool has_saved_ = false;
};

/// Continues a hash, in which addresses that correspond to each other count as equal, with further bytes, which begin a
/// multiple of 8 bytes behind the begin of a range.
std::uint64_t digest(const ComparedMemory& memory, Side side, std::uint64_t before, std::uintptr_t address,
                     std::span<const std::byte> bytes);

}  // namespace reprise::inspect
