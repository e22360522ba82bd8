// SPDX-License-Identifier: Apache-2.0
#include "inspect/compare/node_order.h"

#include <algorithm>
#include <queue>

#include "inspect/compare/written_memory.h"

namespace reprise::inspect {

std::vector<std::size_t> ordered(const StepsBefore& before) {
  std::vector<std::size_t> missing(before.size());
  std::vector<std::vector<std::size_t>> after(before.size());
  std::priority_queue<std::size_t, std::vector<std::size_t>, std::greater<>> ready;
  for (std::size_t i = 0; i < before.size(); ++i) {
    missing[i] = before[i].size();
    for (const std::size_t from : before[i]) after[from].push_back(i);
    if (missing[i] == 0) ready.push(i);
  }
  std::vector<std::size_t> order;
  while (!ready.empty()) {
    const std::size_t next = ready.top();
    ready.pop();
    order.push_back(next);
    for (const std::size_t to : after[next])
      if (--missing[to] == 0) ready.push(to);
  }
  return order;
}

GraphSteps::GraphSteps(const ComparedGraph& graph) {
  const std::vector<ScannedNode>& nodes = graph.values.nodes;
  const std::vector<std::size_t> conditional = conditional_around(nodes);
  of_node.assign(nodes.size(), none);
  end_of.assign(nodes.size(), none);
  const auto add = [&](std::size_t of) {
    node.push_back(of);
    before.emplace_back();
    return node.size() - 1;
  };
  for (std::size_t i = 0; i < nodes.size(); ++i) {
    if (conditional[i] != in_no_body) continue;
    of_node[i] = end_of[i] = add(i);
    if (nodes[i].type == backend::NodeType::child_graph) end_of[i] = add(i);
  }
  const std::vector<ComparedGraph::Dependencies> dependencies = graph.dependencies();
  for (std::size_t i = 0; i < nodes.size(); ++i) {
    if (of_node[i] == none) continue;
    for (const auto& [from, data] : dependencies[i]) before[of_node[i]].push_back(end_of[from]);
    if (end_of[i] != of_node[i]) before[end_of[i]].push_back(of_node[i]);
    const std::size_t parent = nodes[i].parent;
    if (parent == ScannedNode::no_parent) continue;
    before[of_node[i]].push_back(of_node[parent]);
    before[end_of[parent]].push_back(end_of[i]);
  }
}

namespace {

/// Pairs the steps of two graphs.
class StepPairing {
 public:
  StepPairing(const ComparedGraph& first, const GraphSteps& of_first, const ComparedGraph& second,
              const GraphSteps& of_second)
      : first_(first),
        second_(second),
        of_first_(of_first),
        of_second_(of_second),
        first_conditional_(conditional_around(first.values.nodes)),
        second_conditional_(conditional_around(second.values.nodes)),
        in_first_(of_first.node.size(), GraphSteps::none),
        in_second_(of_second.node.size(), GraphSteps::none) {}

  std::vector<PairedStep> run(const std::vector<NodePair>& pairs) {
    for (const NodePair& pair : pairs) add(pair);
    for (const NodePair& pair : pairs) mark_conditionals(pair);
    StepsBefore before(steps_.size());
    add_edges(of_first_, in_first_, before);
    add_edges(of_second_, in_second_, before);
    for (auto& each : before) {
      std::ranges::sort(each);
      each.erase(std::unique(each.begin(), each.end()), each.end());
    }
    const std::vector<std::size_t> order = ordered(before);
    std::vector<PairedStep> sorted;
    std::vector<bool> is_sorted(steps_.size());
    for (const std::size_t step : order) {
      sorted.push_back(steps_[step]);
      is_sorted[step] = true;
    }
    for (std::size_t step = 0; step < steps_.size(); ++step) {
      if (is_sorted[step]) continue;
      sorted.push_back(steps_[step]);
      sorted.back().differs = true;
    }
    return sorted;
  }

 private:
  void add_step(std::size_t first, std::size_t second) {
    if (first == GraphSteps::none && second == GraphSteps::none) return;
    if (first != GraphSteps::none) in_first_[first] = steps_.size();
    if (second != GraphSteps::none) in_second_[second] = steps_.size();
    steps_.push_back({first, second, first == GraphSteps::none || second == GraphSteps::none});
  }
  void add(const NodePair& pair) {
    const std::size_t none = GraphSteps::none;
    const bool has_first = pair.first != NodePair::none, has_second = pair.second != NodePair::none;
    const std::size_t first = has_first ? of_first_.of_node[pair.first] : none;
    const std::size_t second = has_second ? of_second_.of_node[pair.second] : none;
    add_step(first, second);
    if (first != none && second != none)
      steps_.back().differs = first_.values.nodes[pair.first].type != second_.values.nodes[pair.second].type;
    const std::size_t first_end = has_first ? of_first_.end_of[pair.first] : none;
    const std::size_t second_end = has_second ? of_second_.end_of[pair.second] : none;
    if (first_end != first || second_end != second)
      add_step(first_end != first ? first_end : none, second_end != second ? second_end : none);
  }
  // Nodes in bodies without a partner make the conditional nodes different ones.
  void mark_conditionals(const NodePair& pair) {
    const std::size_t first = pair.first != NodePair::none ? first_conditional_[pair.first] : in_no_body;
    const std::size_t second = pair.second != NodePair::none ? second_conditional_[pair.second] : in_no_body;
    const std::size_t of_first = first != in_no_body ? in_first_[of_first_.of_node[first]] : GraphSteps::none;
    const std::size_t of_second = second != in_no_body ? in_second_[of_second_.of_node[second]] : GraphSteps::none;
    if (of_first == of_second) return;
    for (const std::size_t step : {of_first, of_second})
      if (step != GraphSteps::none) steps_[step].differs = true;
  }
  static void add_edges(const GraphSteps& steps, const std::vector<std::size_t>& paired, StepsBefore& before) {
    for (std::size_t i = 0; i < steps.before.size(); ++i)
      for (const std::size_t from : steps.before[i])
        if (paired[from] != paired[i]) before[paired[i]].push_back(paired[from]);
  }

  const ComparedGraph& first_;
  const ComparedGraph& second_;
  const GraphSteps& of_first_;
  const GraphSteps& of_second_;
  const std::vector<std::size_t> first_conditional_, second_conditional_;
  std::vector<std::size_t> in_first_, in_second_;  // the paired step of each step
  std::vector<PairedStep> steps_;
};

}  // namespace

std::vector<PairedStep> paired_steps(const ComparedGraph& first, const GraphSteps& of_first,
                                     const ComparedGraph& second, const GraphSteps& of_second,
                                     const std::vector<NodePair>& pairs) {
  return StepPairing(first, of_first, second, of_second).run(pairs);
}

}  // namespace reprise::inspect
