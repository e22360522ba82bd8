// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <compare>
#include <cstddef>
#include <cstdint>
#include <set>
#include <vector>

#include "backend/framework.h"
#include "inspect/compare/written_memory.h"
#include "inspect/diff/compared_graph.h"

namespace reprise::inspect {

/// One of two graphs.
enum class Side : std::size_t { first = 0, second = 1 };
inline constexpr Side both_sides[] = {Side::first, Side::second};

/// State of the memory at an address in the parameters of a node.
enum class MemoryState { unknown, hidden, own, in_use, freed };

/// The memory at such an address.
struct FoundMemory {
  MemoryState state = MemoryState::unknown;
  MemoryRange range = {};
};

/// The pools of a graph: its own, and those of its child graphs.
std::vector<MempoolId> pools_of(const ComparedGraph& graph);

/// The memory of a framework's allocator that two graphs use.
///
/// Each of the two captures got segments of its own from it, and the allocator does not say which correspond. Their
/// nodes do: where paired nodes have, in the same place of their parameters, an address in a segment of the one and in
/// a segment of the other, the segments are a pair, with that difference of the addresses. If the nodes contradict each
/// other, the segments are a pair where some node has the same offset in both, and both captures filled their pools
/// alone; other segments are no pair: in a pool that other graphs share, captures lie in different ways.
///
/// Blocks that were in use before the second capture, and that it uses, are inputs, also in a pool of one of the
/// graphs; and so are those that the first graph uses in their place, which may have been freed.
class FrameworkMemory {
 public:
  using Blocks = std::vector<backend::Framework::Block>;

  /// The memory of a framework on a device, by address; empty without a framework.
  /// \throws UsageError if the framework has an allocator that does not report its blocks.
  static Blocks blocks_now(const Device& device);

  /// Adds the memory to OwnMemory of both graphs. None, without a framework.
  /// \param before blocks_now() before the capture of the second graph.
  /// \throws as blocks_now().
  FrameworkMemory(ComparedGraph& first, ComparedGraph& second, const Blocks& before);

  /// `unknown` outside of the framework's memory.
  FoundMemory find(std::uintptr_t address) const;
  /// Segments of the first graph that nodes use and that have no partner.
  std::size_t unpaired() const noexcept { return unpaired_; }

 private:
  using Block = backend::Framework::Block;
  struct Segment {
    MemoryRange range = {};
    bool of[2] = {false, false};  // in a pool of the graph
    bool filled_alone = false;    // the pool was empty when the capture of the graph began
    /// True if it belongs to this graph alone.
    bool is_of(Side side) const noexcept {
      const auto number = static_cast<std::size_t>(side);
      return of[number] && !of[1 - number];
    }
  };
  /// Two segments, and what addresses differ by.
  struct Pair {
    std::size_t first = 0, second = 0;
    std::uintptr_t difference = 0;
    friend auto operator<=>(const Pair&, const Pair&) = default;
  };

  void find_segments(const ComparedGraph& first, const ComparedGraph& second);
  void find_pairs(const NodeValues& first, const NodeValues& second, const Blocks& before);
  void settle_pairs();
  void add_to_graphs(OwnMemory& first, OwnMemory& second) const;
  std::vector<MemoryRange> common_parts(const Pair& pair) const;
  std::size_t segment_of(std::size_t block) const;

  Blocks blocks_;                  // by address
  std::vector<bool> is_input_;     // of each block
  std::vector<Segment> segments_;  // by address
  std::set<Pair> pairs_;
  std::size_t unpaired_ = 0;
};

}  // namespace reprise::inspect
