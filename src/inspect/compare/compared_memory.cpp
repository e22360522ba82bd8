// SPDX-License-Identifier: Apache-2.0
#include "inspect/compare/compared_memory.h"

#include <algorithm>
#include <iterator>
#include <set>
#include <span>
#include <tuple>
#include <utility>

#include "backend/check.h"
#include "inspect/annotations/progress_marks.h"

namespace reprise::inspect {
namespace {

std::vector<memory::UsedAddress> looked_up(const ComparedGraph& graph, const std::set<std::uintptr_t>& words,
                                           std::span<const MempoolId> own) {
  std::vector<memory::UsedAddress> addresses;
  for (const std::uintptr_t word : words) addresses.push_back({word});
  memory::watch_addresses(*graph.graph().device, addresses, own);
  return addresses;
}

}  // namespace

ComparedMemory::ComparedMemory(ComparedGraph& first, ComparedGraph& second, const FrameworkMemory::Blocks& before)
    : first_(first), second_(second), framework_(first, second, before) {
  find_own();
  find_addresses();
  std::vector<MemoryRange> inputs;
  for (const auto& [address, found] : addresses_) {
    if (found.state == State::in_use) inputs.push_back(found.range);
    if (found.state == State::own && found.range.bytes != 0) all_.push_back(found.range);
  }
  for (const MemoryRange& input : merged(std::move(inputs))) {
    whole_.push_back({input.begin, input.begin, input.bytes});
    all_.push_back(input);
  }
  std::vector<bool> comparable(own_.size(), true);
  find_incomparable(comparable);
  for (std::size_t i = 0; i < own_.size(); ++i) {
    for (const Side side : both_sides) all_.push_back(own_[i].of(side));
    if (comparable[i])
      whole_.push_back(own_[i]);
    else
      ++incomparable_;
  }
  all_ = merged(std::move(all_));
}

void ComparedMemory::find_own() {
  const OwnMemory &of_first = first_.values.own, &of_second = second_.values.own;
  std::set<std::tuple<std::uintptr_t, std::uintptr_t, std::size_t>> known;
  const auto add = [&](const OwnMemory::Allocations& ones, const OwnMemory::Allocations& others) {
    for (std::size_t i = 0; i < std::min(ones.size(), others.size()); ++i) {
      const auto &one = ones[i], &other = others[i];
      if (one.is_value || other.is_value) continue;  // each graph has its own, which stays
      if (one.bytes == other.bytes && one.bytes != 0 && known.emplace(one.address, other.address, one.bytes).second)
        own_.push_back({one.address, other.address, one.bytes});
    }
  };
  add(of_first.logged(), of_second.logged());
  add(of_first.of_framework(), of_second.of_framework());
  for (const Side side : both_sides) {
    std::vector<MemoryRange> ranges;
    for (const RangePair& pair : own_) ranges.push_back(pair.of(side));
    ranges = merged(std::move(ranges));
    if (!ranges.empty())
      own_bounds_[static_cast<std::size_t>(side)] = {ranges.front().begin, ranges.back().end() - ranges.front().begin};
  }
}

void ComparedMemory::find_addresses() {
  std::set<std::uintptr_t> words;
  for (const ComparedGraph* const graph : {&first_, &second_}) {
    ComparedGraph::Impl& impl = graph->graph();
    const GraphScan scan = scan_graph(impl.backend(), impl.template_graph, ScannedNodes::all, &impl.changes);
    auto& of_nodes = words_[graph == &first_ ? 0 : 1];
    of_nodes.resize(scan.nodes.size());
    for (const ScannedWord& word : scan.words) {
      words.insert(word.value);
      of_nodes[word.node].push_back(word);
    }
  }
  // Twice: blocks in pools of the graphs have no watch if those are named, and no owner if they are not.
  std::vector<MempoolId> pools = pools_of(first_);
  std::ranges::copy(pools_of(second_), std::back_inserter(pools));
  const std::vector<memory::UsedAddress> watched = looked_up(first_, words, {}),
                                         owned = looked_up(first_, words, pools);
  for (std::size_t i = 0; i < watched.size(); ++i) {
    const std::uintptr_t address = watched[i].value;
    FoundMemory found = look_up(address);
    if (found.state == State::unknown) found = framework_.find(address);
    if (found.state == State::unknown) found = look_up(watched[i], owned[i]);
    addresses_.emplace(address, found);
  }
}

// Outside of the allocations of the captures.
FoundMemory ComparedMemory::look_up(const memory::UsedAddress& watched, const memory::UsedAddress& owned) {
  if (owned.hidden || is_progress_word(reinterpret_cast<const void*>(owned.value))) return {State::hidden, {}};
  if (watched.watch != nullptr) {
    const memory::BlockWatch& block = *watched.watch;
    return {State::in_use, {reinterpret_cast<std::uintptr_t>(block.address), block.bytes}};
  }
  if (owned.in_allocator && !owned.own) return {State::freed, {}};
  backend::PointerInfo info;
  const auto* const pointer = reinterpret_cast<const void*>(watched.value);
  backend::Checked(first_.graph().backend()).pointer_info(pointer, &info);
  if (info.kind == backend::MemoryKind::unregistered) return {};
  return {owned.own ? State::own : State::in_use, {reinterpret_cast<std::uintptr_t>(info.base), info.bytes}};
}

// Finds an address in memory of the captures. Memory of a child that was captured in between is another in each graph.
FoundMemory ComparedMemory::look_up(std::uintptr_t address) const {
  for (const Side side : both_sides)
    for (const auto& allocation : of(side).values.own.logged())
      if (address - allocation.address < allocation.bytes)
        return allocation.is_value ? FoundMemory{State::hidden, {}}
                                   : FoundMemory{State::own, {allocation.address, allocation.bytes}};
  const auto &of_first = first_.values.own.of_children(), &of_second = second_.values.own.of_children();
  for (std::size_t i = 0; i < std::min(of_first.size(), of_second.size()); ++i)
    if (of_first[i].address != of_second[i].address)
      for (const auto& each : {of_first[i], of_second[i]})
        if (address - each.address < each.bytes) return {State::own, {each.address, each.bytes}};
  return {};
}

void ComparedMemory::find_incomparable(std::vector<bool>& comparable) const {
  for (const Side side : both_sides) {
    std::vector<std::size_t> order(own_.size());
    for (std::size_t i = 0; i < order.size(); ++i) order[i] = i;
    std::ranges::sort(order, {}, [&](std::size_t i) { return own_[i].begin(side); });
    for (std::size_t a = 0; a < order.size(); ++a) {
      const RangePair& one = own_[order[a]];
      for (std::size_t b = a + 1; b < order.size(); ++b) {
        const RangePair& other = own_[order[b]];
        if (other.begin(side) >= one.of(side).end()) break;
        if (other.first - one.first == other.second - one.second) continue;
        comparable[order[a]] = comparable[order[b]] = false;
      }
    }
  }
}

ComparedMemory::State ComparedMemory::state(std::uintptr_t address) const {
  const auto found = addresses_.find(address);
  return found != addresses_.end() ? found->second.state : State::unknown;
}

bool ComparedMemory::corresponds(std::uintptr_t first, std::uintptr_t second) const {
  return first == second || first_.values.own.corresponds(first, second_.values.own, second) ||
         (state(first) == State::hidden && state(second) == State::hidden);
}

std::uint64_t ComparedMemory::canonical(Side side, std::uint64_t word) const {
  const MemoryRange& bounds = own_bounds_[static_cast<std::size_t>(side)];
  if (word - bounds.begin >= bounds.bytes) return word;
  for (std::size_t i = 0; i < own_.size(); ++i) {
    const std::uint64_t offset = word - own_[i].begin(side);
    if (offset < own_[i].bytes) return ((std::uint64_t{i} + 1) << 48U) + offset;
  }
  return word;
}

}  // namespace reprise::inspect
