// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "inspect/compare/paired_runs.h"
#include "inspect/diff/node_pairs.h"
#include "reprise/compare.h"

namespace reprise::inspect {

/// A step that two graphs are to execute side by side, and what it writes, as far as their parameters show it.
struct ComparedStep {
  std::size_t first = GraphSteps::none;
  std::size_t second = GraphSteps::none;
  bool whole = false;                  ///< it is not known what one of the two nodes writes
  std::vector<RangePair> writes = {};  ///< else what both write
};

/// Two graphs whose nodes are paired, up to the first step that need not be executed to be known as different.
struct StepComparison {
  /// \param parameters all differences of the two graphs.
  StepComparison(const SteppedGraph& first, const SteppedGraph& second, const ComparedMemory& memory,
                 const std::vector<GraphDifference>& parameters);

  const SteppedGraph& of(Side side) const noexcept { return side == Side::first ? first : second; }
  /// Ranges that are compared after a step.
  const std::vector<RangePair>& compared(const ComparedStep& step) const noexcept {
    return step.whole ? memory.whole() : step.writes;
  }
  std::vector<MemoryRange> compared(const ComparedStep& step, Side side) const;
  /// A difference of these nodes, with what is known of them.
  FirstDifference difference(FirstDifferenceKind kind, std::size_t first_node, std::size_t second_node) const;
  FirstDifference difference(FirstDifferenceKind kind, const ComparedStep& step) const;
  /// Memory that nodes of the two graphs may write.
  std::vector<MemoryRange> written() const;
  bool any_whole() const noexcept;

  const SteppedGraph& first;
  const SteppedGraph& second;
  const ComparedMemory& memory;
  const std::vector<GraphDifference>& parameters;
  std::vector<ComparedStep> steps;
  std::optional<FirstDifference> end;  ///< what differs at the step after them, if one does

 private:
  bool add(const PairedStep& step);
  std::optional<FirstDifference> stale_pointer(std::size_t node);
  std::optional<FirstDifference> stale_pointer_of(std::size_t node);
  bool is_known(std::uintptr_t address) const;
  std::optional<FirstDifference> stale_write(Side side, const ComparedStep& step);
  std::optional<FirstDifference> other_destination(const ComparedStep& step) const;

  const std::vector<NodePair> pairs_;
  std::vector<std::size_t> partners_;  // of the first graph's nodes
};

/// The first four bytes, aligned in their range, that differ.
struct DifferingBytes {
  MemoryRange range = {};     ///< from the first to the last one
  std::uintptr_t second = 0;  ///< its beginning in the second memory
  std::string first_value, second_value;
};

/// Compares the bytes of one range.
std::optional<DifferingBytes> differing_bytes(const RangePair& range, std::span<const std::byte> first,
                                              std::span<const std::byte> second, const ComparedMemory& memory);

/// Executes both graphs, and finds the first step after which they differ.
class FirstDifferenceSearch {
 public:
  FirstDifferenceSearch(const StepComparison& steps, PairedRuns& runs) : steps_(steps), runs_(runs) {}

  void run();

  std::optional<FirstDifference> difference;
  std::size_t compared = 0;  ///< steps without a difference

 private:
  std::vector<std::uint64_t> execute(Side side);
  std::optional<FirstDifference> look_again(std::size_t step, const std::vector<std::uint64_t> (&digests)[2]);

  const StepComparison& steps_;
  PairedRuns& runs_;
};

}  // namespace reprise::inspect
