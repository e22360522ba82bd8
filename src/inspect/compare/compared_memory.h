// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <vector>

#include "inspect/compare/framework_memory.h"
#include "inspect/compare/written_memory.h"
#include "inspect/diff/compared_graph.h"
#include "inspect/liveness/graph_scan.h"
#include "memory/watches/block_watch.h"

namespace reprise::inspect {

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
  using State = MemoryState;

  /// Adds what corresponds in memory of a framework to OwnMemory of both graphs.
  /// \param before as of FrameworkMemory.
  /// \throws BackendError if the runtime fails; as FrameworkMemory.
  ComparedMemory(ComparedGraph& first, ComparedGraph& second, const FrameworkMemory::Blocks& before);

  /// State of the memory at an address that parameters have; `unknown`: no address, or pageable memory of the host.
  State state(std::uintptr_t address) const;
  /// The words of a node's parameters that may be addresses, by place.
  const std::vector<ScannedWord>& words(Side side, std::size_t node) const {
    return words_[static_cast<std::size_t>(side)][node];
  }

  /// True if both addresses correspond: same allocation of the capture, same offset. Unpaired addresses count as such.
  bool corresponds(std::uintptr_t first, std::uintptr_t second) const;
  /// The same number for addresses that correspond, if they lie in memory of the captures; else the address. Rarely,
  /// numbers of addresses that correspond differ.
  std::uint64_t canonical(Side side, std::uint64_t word) const;

  /// True for an address in memory of a framework of which it is not known what corresponds to it.
  bool is_unpaired(Side side, std::uintptr_t address) const noexcept {
    return of(side).values.own.is_unpaired(address);
  }

  /// Allocations of the captures, each once, and what corresponds in memory of a framework.
  const std::vector<RangePair>& own() const noexcept { return own_; }
  /// Ranges that are compared after nodes whose writes are not known.
  const std::vector<RangePair>& whole() const noexcept { return whole_; }
  /// All of it, also where it cannot be compared.
  const std::vector<MemoryRange>& all() const noexcept { return all_; }
  /// Allocations that share memory with others, but not in the same way in both graphs: these are not compared.
  std::size_t incomparable() const noexcept { return incomparable_; }
  /// Segments of a framework's memory that are not compared.
  std::size_t unpaired_segments() const noexcept { return framework_.unpaired(); }

 private:
  const ComparedGraph& of(Side side) const noexcept { return side == Side::first ? first_ : second_; }
  void find_own();
  void find_addresses();
  void find_incomparable(std::vector<bool>& comparable) const;
  FoundMemory look_up(std::uintptr_t address) const;
  FoundMemory look_up(const memory::UsedAddress& watched, const memory::UsedAddress& owned);

  const ComparedGraph& first_;
  const ComparedGraph& second_;
  const FrameworkMemory framework_;
  std::vector<RangePair> own_, whole_;
  std::vector<MemoryRange> all_;
  std::map<std::uintptr_t, FoundMemory> addresses_;
  std::vector<std::vector<ScannedWord>> words_[2];
  MemoryRange own_bounds_[2];
  std::size_t incomparable_ = 0;
};

}  // namespace reprise::inspect
