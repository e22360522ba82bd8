// SPDX-License-Identifier: Apache-2.0
#include "inspect/compare/step_comparison.h"

#include <algorithm>
#include <utility>

#include "backend/check.h"

namespace reprise::inspect {

using State = ComparedMemory::State;

StepComparison::StepComparison(const SteppedGraph& one, const SteppedGraph& other, const ComparedMemory& of_both,
                               const std::vector<GraphDifference>& differences)
    : first(one),
      second(other),
      memory(of_both),
      parameters(differences),
      pairs_(pair_nodes(one.graph.values, other.graph.values)) {
  partners_.assign(first.work.size(), NodePair::none);
  for (const NodePair& pair : pairs_)
    if (pair.first != NodePair::none) partners_[pair.first] = pair.second;
  for (const PairedStep& step : paired_steps(first.graph, first.steps, second.graph, second.steps, pairs_))
    if (!add(step)) return;
}

// False at the end.
bool StepComparison::add(const PairedStep& step) {
  const std::size_t none = GraphSteps::none;
  const std::size_t first_node = step.first != none ? first.steps.node[step.first] : none;
  const std::size_t second_node = step.second != none ? second.steps.node[step.second] : none;
  if (step.differs) {
    end = difference(FirstDifferenceKind::node, first_node, second_node);
    return false;
  }
  ComparedStep compared{step.first, step.second};
  const NodeWork &one = first.work_of(step.first), &other = second.work_of(step.second);
  if (first.runs(step.first)) end = stale_pointer(first_node);
  if (!end) end = stale_write(Side::first, compared);
  if (!end) end = stale_write(Side::second, compared);
  compared.whole = !one.known || !other.known;
  if (!end && !compared.whole) end = other_destination(compared);
  if (end) return false;
  for (std::size_t i = 0; !compared.whole && i < one.writes.size(); ++i)
    if (!memory.is_unpaired(Side::first, one.writes[i].begin) && memory.state(one.writes[i].begin) != State::hidden)
      compared.writes.push_back({one.writes[i].begin, other.writes[i].begin, one.writes[i].bytes});
  steps.push_back(std::move(compared));
  return true;
}

// Finds the first stale pointer in the parameters of a node and of the nodes in its bodies; nullopt if there is none.
std::optional<FirstDifference> StepComparison::stale_pointer(std::size_t node) {
  const std::vector<ScannedNode>& nodes = first.graph.values.nodes;
  auto stale_one = stale_pointer_of(node);
  if (nodes[node].type != backend::NodeType::conditional) return stale_one;
  for (std::size_t i = node + 1; i < nodes.size() && nodes[i].number.starts_with(nodes[node].number + "."); ++i)
    if (!stale_one) stale_one = stale_pointer_of(i);
  return stale_one;
}

// True if the runtime has allocated or registered the memory.
bool StepComparison::is_known(std::uintptr_t address) const {
  backend::PointerInfo info;
  return backend::Checked(first.graph.graph().backend())
             .allowing(ErrorCode::invalid_value)
             .pointer_info(reinterpret_cast<const void*>(address), &info) &&
         info.kind != backend::MemoryKind::unregistered;
}

// An address of the graph in freed memory where the new capture has one in memory that is in use.
std::optional<FirstDifference> StepComparison::stale_pointer_of(std::size_t node) {
  const std::size_t partner = partners_[node];
  if (partner == NodePair::none) return std::nullopt;
  const bool copies = first.graph.values.nodes[node].type == backend::NodeType::memcpy;
  const auto& of_second = memory.words(Side::second, partner);
  for (const ScannedWord& word : memory.words(Side::first, node)) {
    const auto other = std::ranges::find(of_second, word.place, &ScannedWord::place);
    if (other == of_second.end() || other->value == word.value) continue;
    const State found = memory.state(word.value), expected = memory.state(other->value);
    const bool was_known = expected == State::in_use || expected == State::own;
    // Copies may use memory of the host, which no allocator knows; pageable memory no runtime does, either.
    const bool is_gone = copies ? found == State::unknown && is_known(word.value) < is_known(other->value)
                                : was_known && found == State::unknown;
    if (!is_gone && !(was_known && found == State::freed)) continue;
    FirstDifference pointer = difference(FirstDifferenceKind::stale_pointer, node, partner);
    pointer.address = reinterpret_cast<const void*>(word.value);
    pointer.second_address = reinterpret_cast<const void*>(other->value);
    return pointer;
  }
  return std::nullopt;
}

std::optional<FirstDifference> StepComparison::stale_write(Side side, const ComparedStep& step) {
  const NodeWork& work = of(side).work_of(side == Side::first ? step.first : step.second);
  for (const MemoryRange& range : work.writes) {
    const State found = memory.state(range.begin);
    if (found != State::freed && (found != State::unknown || work.copies)) continue;
    FirstDifference written = difference(FirstDifferenceKind::stale_pointer, step);
    (side == Side::first ? written.address : written.second_address) = reinterpret_cast<const void*>(range.begin);
    written.bytes = range.bytes;
    return written;
  }
  return std::nullopt;
}

std::optional<FirstDifference> StepComparison::other_destination(const ComparedStep& step) const {
  const auto &one = first.work_of(step.first).writes, &other = second.work_of(step.second).writes;
  for (std::size_t i = 0; i < std::max(one.size(), other.size()); ++i) {
    const bool same = i < one.size() && i < other.size() && one[i].bytes == other[i].bytes &&
                      memory.corresponds(one[i].begin, other[i].begin);
    if (same) continue;
    FirstDifference found = difference(FirstDifferenceKind::destination, step);
    if (i < one.size()) found.address = reinterpret_cast<const void*>(one[i].begin);
    if (i < other.size()) found.second_address = reinterpret_cast<const void*>(other[i].begin);
    found.bytes = i < one.size() ? one[i].bytes : other[i].bytes;
    return found;
  }
  return std::nullopt;
}

std::vector<MemoryRange> StepComparison::compared(const ComparedStep& step, Side side) const {
  std::vector<MemoryRange> ranges;
  for (const RangePair& pair : compared(step)) ranges.push_back(pair.of(side));
  return ranges;
}

FirstDifference StepComparison::difference(FirstDifferenceKind kind, std::size_t first_node,
                                           std::size_t second_node) const {
  FirstDifference found;
  found.kind = kind;
  if (first_node != GraphSteps::none) found.first = first.graph.describe(first_node);
  if (second_node != GraphSteps::none) found.second = second.graph.describe(second_node);
  const auto is_of = [](const std::optional<ComparedNode>& node, const std::optional<ComparedNode>& of) {
    return node && of && (node->number == of->number || node->number.starts_with(of->number + "."));
  };
  for (const GraphDifference& each : parameters)
    if (is_of(each.first, found.first) || is_of(each.second, found.second)) found.parameters.push_back(each);
  return found;
}

FirstDifference StepComparison::difference(FirstDifferenceKind kind, const ComparedStep& step) const {
  return difference(kind, first.steps.node[step.first], second.steps.node[step.second]);
}

std::vector<MemoryRange> StepComparison::written() const {
  std::vector<MemoryRange> ranges;
  for (const Side side : both_sides)
    for (const NodeWork& work : of(side).work)
      for (const MemoryRange& range : work.writes) {
        const State found = memory.state(range.begin);
        if (found != State::freed && (found != State::unknown || work.copies)) ranges.push_back(range);
      }
  return ranges;
}

bool StepComparison::any_whole() const noexcept {
  for (const Side side : both_sides)
    if (std::ranges::any_of(of(side).work, [](const NodeWork& work) { return !work.known; })) return true;
  return false;
}

}  // namespace reprise::inspect
