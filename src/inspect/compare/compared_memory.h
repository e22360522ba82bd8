// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <vector>

#include "inspect/compare/written_memory.h"
#include "inspect/diff/compared_graph.h"
#include "inspect/liveness/graph_scan.h"
#include "memory/watches/block_watch.h"

namespace reprise::inspect {

/// One of two graphs.
enum class Side : std::size_t { first = 0, second = 1 };
inline constexpr Side both_sides[] = {Side::first, Side::second};

/// The same memory, as each graph has it.
struct RangePair {
  std::uintptr_t first = 0, second = 0;
  std::size_t bytes = 0;

  std::uintptr_t begin(Side side) const noexcept { return side == Side::first ? first : second; }
  MemoryRange of(Side side) const noexcept { return {begin(side), bytes}; }
};

/// The memory that two graphs use, as the parameters of their nodes and their captures have it.
class ComparedMemory {
 public:
  /// What an address in the parameters of a node is.
  enum class State { unknown, hidden, own, in_use, freed };

  /// \throws BackendError if the runtime fails.
  ComparedMemory(const ComparedGraph& first, const ComparedGraph& second);

  /// Of an address that parameters have; `unknown` is no address, or one of pageable memory of the host.
  State state(std::uintptr_t address) const;
  /// The words of a node's parameters that may be addresses, by place.
  const std::vector<ScannedWord>& words(Side side, std::size_t node) const {
    return words_[static_cast<std::size_t>(side)][node];
  }

  /// True if both addresses correspond: same allocation of the capture, same offset.
  bool corresponds(std::uintptr_t first, std::uintptr_t second) const;
  /// The same number for addresses that correspond, if they lie in memory of the captures; else the address. Rarely,
  /// numbers of addresses that correspond differ.
  std::uint64_t canonical(Side side, std::uint64_t word) const;

  /// Allocations of the captures, each once.
  const std::vector<RangePair>& own() const noexcept { return own_; }
  /// What is compared after nodes of which it is not known what they write.
  const std::vector<RangePair>& whole() const noexcept { return whole_; }
  /// All of it, also where it cannot be compared.
  const std::vector<MemoryRange>& all() const noexcept { return all_; }
  /// Allocations that share memory with others, but not in the same way in both graphs: these are not compared.
  std::size_t incomparable() const noexcept { return incomparable_; }

 private:
  struct Found {
    State state = State::unknown;
    MemoryRange range = {};
  };

  void find_own();
  void find_addresses();
  void find_incomparable(std::vector<bool>& comparable) const;
  Found look_up(std::uintptr_t address) const;
  Found look_up(const memory::UsedAddress& watched, const memory::UsedAddress& owned);

  const ComparedGraph& first_;
  const ComparedGraph& second_;
  std::vector<RangePair> own_, whole_;
  std::vector<MemoryRange> all_;
  std::map<std::uintptr_t, Found> addresses_;
  std::vector<std::vector<ScannedWord>> words_[2];
  MemoryRange own_bounds_[2];
  std::size_t incomparable_ = 0;
};

}  // namespace reprise::inspect
