// SPDX-License-Identifier: Apache-2.0
#include "inspect/compare/framework_memory.h"

#include <algorithm>
#include <functional>
#include <iterator>
#include <span>
#include <tuple>
#include <utility>

#include "graph/listeners/child_listener.h"
#include "inspect/diff/node_pairs.h"

namespace reprise::inspect {
namespace {

constexpr std::size_t no_block = static_cast<std::size_t>(-1);

bool contains(const std::vector<MempoolId>& pools, MempoolId pool) {
  return pool && std::ranges::find(pools, pool) != pools.end();
}

// The index of the block that has the address; no_block if there is no such block.
std::size_t index_at(const FrameworkMemory::Blocks& blocks, std::uintptr_t address) {
  const auto after = std::ranges::upper_bound(blocks, address, {}, &backend::Framework::Block::address);
  if (after == blocks.begin()) return no_block;
  const auto block = std::prev(after);
  return address - block->address < block->bytes ? static_cast<std::size_t>(block - blocks.begin()) : no_block;
}

std::span<const NodeValue> values_of(const NodeValues& graph, std::size_t node) {
  return {std::ranges::lower_bound(graph.values, node, {}, &NodeValue::node),
          std::ranges::upper_bound(graph.values, node, {}, &NodeValue::node)};
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

}  // namespace

std::vector<MempoolId> pools_of(const ComparedGraph& graph) {
  std::vector<MempoolId> pools = graph.graph().listeners.children().pools();
  pools.push_back(graph.graph().pool);
  return pools;
}

FrameworkMemory::Blocks FrameworkMemory::blocks_now(const Device& device) {
  const backend::Framework* const framework = backend::installed_framework();
  return framework != nullptr ? framework->blocks(device) : Blocks{};
}

FrameworkMemory::FrameworkMemory(ComparedGraph& first, ComparedGraph& second, const Blocks& before)
    : blocks_(blocks_now(*first.graph().device)) {
  is_input_.assign(blocks_.size(), false);
  find_segments(first, second);
  find_pairs(first.values, second.values, before);
  add_to_graphs(first.values.own, second.values.own);
}

void FrameworkMemory::find_segments(const ComparedGraph& first, const ComparedGraph& second) {
  const std::vector<MempoolId> pools[2] = {pools_of(first), pools_of(second)};
  for (const Block& block : blocks_) {
    if (segments_.empty() || segments_.back().range.begin != block.segment) {
      Segment& segment = segments_.emplace_back();
      segment.range.begin = block.segment;
      for (std::size_t i = 0; i < 2; ++i) {
        const ComparedGraph::Impl& graph = (i == 0 ? first : second).graph();
        segment.of[i] = contains(pools[i], block.pool);
        // After update() the pool is that of another graph.
        const bool own_capture = !graph.options.pool && graph.values_of == nullptr;
        if (block.pool == graph.pool && own_capture) segment.filled_alone = true;
      }
    }
    segments_.back().range.bytes += block.bytes;
  }
}

void FrameworkMemory::find_pairs(const NodeValues& first, const NodeValues& second, const Blocks& before) {
  const auto was_in_use = [&before](std::uintptr_t address) {
    const std::size_t block = index_at(before, address);
    return block != no_block && before[block].in_use;
  };
  std::set<std::size_t> used;  // blocks, by the first graph
  for_each_word_pair(first, second, [&](std::uintptr_t one, std::uintptr_t other) {
    const std::size_t block = index_at(blocks_, one), other_block = index_at(blocks_, other);
    if (block == no_block || other_block == no_block) return;
    if (was_in_use(other)) {
      is_input_[other_block] = true;
      // In a pool of its own, the first graph has nothing but what its capture allocated.
      const bool own = segments_[segment_of(block)].filled_alone;
      if (!own && (!blocks_[block].in_use || was_in_use(one))) is_input_[block] = true;
      return;
    }
    used.insert(block);
    const Pair pair{segment_of(block), segment_of(other_block), other - one};
    if (segments_[pair.first].is_of(Side::first) && segments_[pair.second].is_of(Side::second)) pairs_.insert(pair);
  });
  settle_pairs();
  std::set<std::size_t> without_partner;
  for (const std::size_t block : used)
    if (!is_input_[block] && segments_[segment_of(block)].is_of(Side::first)) without_partner.insert(segment_of(block));
  for (const Pair& pair : pairs_) without_partner.erase(pair.first);
  unpaired_ = without_partner.size();
}

void FrameworkMemory::settle_pairs() {
  // Other words lead to another place, or are no addresses.
  const auto in_same_place = [this](const Pair& pair) {
    const Segment &one = segments_[pair.first], &other = segments_[pair.second];
    return one.filled_alone && other.filled_alone && other.range.begin - one.range.begin == pair.difference;
  };
  std::vector<bool> settled(segments_.size(), false);
  for (const Pair& pair : pairs_)
    if (in_same_place(pair)) settled[pair.first] = settled[pair.second] = true;
  std::erase_if(
      pairs_, [&](const Pair& pair) { return (settled[pair.first] || settled[pair.second]) && !in_same_place(pair); });
  std::vector<std::size_t> count(segments_.size(), 0);
  for (const Pair& pair : pairs_) ++count[pair.first], ++count[pair.second];
  std::erase_if(pairs_, [&](const Pair& pair) { return count[pair.first] > 1 || count[pair.second] > 1; });
}

void FrameworkMemory::add_to_graphs(OwnMemory& first, OwnMemory& second) const {
  OwnMemory::Allocations paired[2], unpaired[2];
  std::vector<bool> has_partner(segments_.size(), false);
  for (const Pair& pair : pairs_) {
    has_partner[pair.first] = has_partner[pair.second] = true;
    for (const MemoryRange& range : common_parts(pair)) {
      paired[0].push_back({range.begin, range.bytes});
      paired[1].push_back({range.begin + pair.difference, range.bytes});
    }
  }
  for (std::size_t i = 0; i < segments_.size(); ++i)
    for (const Side side : both_sides)
      if (segments_[i].is_of(side) && !has_partner[i])
        unpaired[static_cast<std::size_t>(side)].push_back({segments_[i].range.begin, segments_[i].range.bytes});
  const auto is_framework = [this](std::uintptr_t address) { return index_at(blocks_, address) != no_block; };
  first.add_framework(std::move(paired[0]), std::move(unpaired[0]), is_framework);
  second.add_framework(std::move(paired[1]), std::move(unpaired[1]), is_framework);
}

// Parts that both segments have, without inputs: another graph may have made one of them larger.
std::vector<MemoryRange> FrameworkMemory::common_parts(const Pair& pair) const {
  const MemoryRange &mine = segments_[pair.first].range, &theirs = segments_[pair.second].range;
  const std::uintptr_t end = std::min(mine.end(), theirs.end() - pair.difference);
  std::uintptr_t begin = std::max(mine.begin, theirs.begin - pair.difference);
  std::vector<MemoryRange> parts;
  for (std::size_t i = index_at(blocks_, begin); i < blocks_.size() && blocks_[i].address < end; ++i) {
    if (!is_input_[i]) continue;
    if (begin < blocks_[i].address) parts.push_back({begin, blocks_[i].address - begin});
    begin = blocks_[i].address + blocks_[i].bytes;
  }
  if (begin < end) parts.push_back({begin, end - begin});
  return parts;
}

FoundMemory FrameworkMemory::find(std::uintptr_t address) const {
  const std::size_t block = index_at(blocks_, address);
  if (block == no_block) return {};
  const MemoryRange range{blocks_[block].address, blocks_[block].bytes};
  const Segment& segment = segments_[segment_of(block)];
  if (is_input_[block] || !(segment.of[0] || segment.of[1]))
    return {blocks_[block].in_use ? MemoryState::in_use : MemoryState::freed, range};
  const bool of_both = segment.of[0] && segment.of[1];  // of a child graph, which has it at the same address in both
  return {of_both ? MemoryState::in_use : MemoryState::own, segment.range};
}

std::size_t FrameworkMemory::segment_of(std::size_t block) const {
  const auto found = std::ranges::lower_bound(segments_, blocks_[block].segment, {},
                                              [](const Segment& segment) { return segment.range.begin; });
  return static_cast<std::size_t>(found - segments_.begin());
}

}  // namespace reprise::inspect
