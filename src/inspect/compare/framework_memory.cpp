// SPDX-License-Identifier: Apache-2.0
#include "inspect/compare/framework_memory.h"

#include <algorithm>
#include <functional>
#include <iterator>
#include <map>
#include <set>
#include <span>
#include <tuple>
#include <utility>

#include "graph/listeners/child_listener.h"
#include "inspect/diff/node_pairs.h"

namespace reprise::inspect {
namespace {

constexpr std::size_t none = static_cast<std::size_t>(-1);

bool contains(const std::vector<MempoolId>& pools, MempoolId pool) {
  return pool && std::ranges::find(pools, pool) != pools.end();
}

std::span<const NodeValue> values_of(const NodeValues& graph, std::size_t node) {
  const auto of_node = std::ranges::equal_range(graph.values, node, {}, &NodeValue::node);
  return {of_node.begin(), of_node.end()};
}

/// Calls `visit` with the words of 8 bytes in the same place of paired nodes that do the same work.
void for_each_word_pair(const NodeValues& first, const NodeValues& second,
                        const std::function<void(std::uintptr_t first, std::uintptr_t second)>& visit) {
  const auto place = [](const NodeValue& value) { return std::tuple(value.parameter, value.offset, value.bytes); };
  for (const NodePair& pair : pair_nodes(first, second)) {
    if (pair.first == NodePair::none || pair.second == NodePair::none) continue;
    const ScannedNode &one = first.nodes[pair.first], &other = second.nodes[pair.second];
    if (one.type != other.type || one.function != other.function) continue;
    const auto of_second = values_of(second, pair.second);
    auto at = of_second.begin();
    for (const NodeValue& value : values_of(first, pair.first)) {
      while (at != of_second.end() && place(*at) < place(value)) ++at;
      if (at == of_second.end()) break;
      if (value.bytes == 8 && place(*at) == place(value)) visit(value.value, at->value);
    }
  }
}

// What is known of one segment: its partner, if it has one and is the only one of that; else null.
template <class Partners>
const typename Partners::mapped_type::value_type* partner_of(std::size_t segment, const Partners& mine,
                                                             const Partners& theirs) {
  const auto found = mine.find(segment);
  if (found == mine.end() || found->second.size() != 1) return nullptr;
  const auto& partner = *found->second.begin();
  return theirs.at(partner.first).size() == 1 ? &partner : nullptr;
}

}  // namespace

std::vector<MempoolId> pools_of(const ComparedGraph& graph) {
  std::vector<MempoolId> pools = graph.graph().listeners.children().pools();
  pools.push_back(graph.graph().pool);
  return pools;
}

FrameworkMemory::FrameworkMemory(ComparedGraph& first, ComparedGraph& second) {
  const backend::Framework* const framework = backend::installed_framework();
  if (framework == nullptr) return;
  blocks_ = framework->blocks(*first.graph().device);
  std::ranges::sort(blocks_, {}, &Block::address);
  is_input_.assign(blocks_.size(), false);
  find_segments(first, second);
  pair_segments(first, second);
}

void FrameworkMemory::find_segments(const ComparedGraph& first, const ComparedGraph& second) {
  const std::vector<MempoolId> of_first = pools_of(first), of_second = pools_of(second);
  for (const Block& block : blocks_) {
    if (segments_.empty() || segments_.back().range.begin != block.segment)
      segments_.push_back({{block.segment, 0}, {contains(of_first, block.pool), contains(of_second, block.pool)}});
    segments_.back().range.bytes += block.bytes;
  }
}

void FrameworkMemory::pair_segments(ComparedGraph& first, ComparedGraph& second) {
  std::map<std::size_t, std::set<Partner>> of_first, of_second;
  for_each_word_pair(first.values, second.values, [&](std::uintptr_t one, std::uintptr_t other) {
    const std::size_t block = block_at(one), other_block = block_at(other);
    if (block == none || other_block == none) return;
    if (one == other && blocks_[block].in_use) is_input_[block] = true;
    const std::size_t a = segment_of(block), b = segment_of(other_block);
    if (!segments_[a].is_of(Side::first) || !segments_[b].is_of(Side::second)) return;
    of_first[a].emplace(b, other - one);
    of_second[b].emplace(a, one - other);
  });
  OwnMemory::Allocations paired[2], unpaired[2];
  for (std::size_t i = 0; i < segments_.size(); ++i) {
    const Segment& segment = segments_[i];
    const Partner* const partner = partner_of(i, segment.is_of(Side::first) ? of_first : of_second,
                                              segment.is_of(Side::first) ? of_second : of_first);
    if (segment.is_of(Side::first) && of_first.contains(i) && partner == nullptr) ++contradictory_;
    for (const Side side : both_sides)
      if (segment.is_of(side) && partner == nullptr)
        unpaired[static_cast<std::size_t>(side)].push_back({segment.range.begin, segment.range.bytes});
    if (!segment.is_of(Side::first) || partner == nullptr) continue;
    for (const MemoryRange& range : common_parts(segment, *partner)) {
      paired[0].push_back({range.begin, range.bytes});
      paired[1].push_back({range.begin + partner->second, range.bytes});
    }
  }
  const auto is_framework = [this](std::uintptr_t address) { return block_at(address) != none; };
  first.values.own.add_framework(std::move(paired[0]), std::move(unpaired[0]), is_framework);
  second.values.own.add_framework(std::move(paired[1]), std::move(unpaired[1]), is_framework);
}

// What a segment has that its partner has, too, without inputs: another graph may have made one of them larger.
std::vector<MemoryRange> FrameworkMemory::common_parts(const Segment& segment, const Partner& partner) const {
  const MemoryRange& theirs = segments_[partner.first].range;
  const std::uintptr_t end = std::min(segment.range.end(), theirs.end() - partner.second);
  std::uintptr_t begin = std::max(segment.range.begin, theirs.begin - partner.second);
  std::vector<MemoryRange> parts;
  for (std::size_t i = block_at(begin); i < blocks_.size() && blocks_[i].address < end; ++i) {
    if (!is_input_[i]) continue;
    if (begin < blocks_[i].address) parts.push_back({begin, blocks_[i].address - begin});
    begin = blocks_[i].address + blocks_[i].bytes;
  }
  if (begin < end) parts.push_back({begin, end - begin});
  return parts;
}

FoundMemory FrameworkMemory::find(std::uintptr_t address) const {
  const std::size_t block = block_at(address);
  if (block == none) return {};
  const MemoryRange range{blocks_[block].address, blocks_[block].bytes};
  const Segment& segment = segments_[segment_of(block)];
  if (is_input_[block] || !(segment.of[0] || segment.of[1]))
    return {blocks_[block].in_use ? MemoryState::in_use : MemoryState::freed, range};
  const bool of_both = segment.of[0] && segment.of[1];  // of a child graph, which has it at the same address in both
  return {of_both ? MemoryState::in_use : MemoryState::own, segment.range};
}

std::size_t FrameworkMemory::block_at(std::uintptr_t address) const {
  const auto after = std::ranges::upper_bound(blocks_, address, {}, &Block::address);
  if (after == blocks_.begin()) return none;
  const Block& block = *std::prev(after);
  if (address - block.address >= block.bytes) return none;
  return static_cast<std::size_t>(std::prev(after) - blocks_.begin());
}

std::size_t FrameworkMemory::segment_of(std::size_t block) const {
  const auto found = std::ranges::lower_bound(segments_, blocks_[block].segment, {},
                                              [](const Segment& segment) { return segment.range.begin; });
  return static_cast<std::size_t>(found - segments_.begin());
}

}  // namespace reprise::inspect
