// SPDX-License-Identifier: Apache-2.0
#include "inspect/diff/graph_differences.h"

#include <algorithm>
#include <set>
#include <string>
#include <utility>

#include "backend/check.h"
#include "graph/graph_names.h"
#include "inspect/diff/node_pairs.h"
#include "inspect/frozen/frozen_text.h"
#include "inspect/nodes/node_text.h"
#include "inspect/nodes/node_values.h"
#include "text/format.h"

namespace reprise::inspect {
namespace {

using Impl = graphs::GraphAccess::Impl;
using Dependencies = ComparedGraph::Dependencies;

std::string field_text(const NodeValue& value) {
  const std::string member = member_text(value);
  if (value.parameter < 0 || value.parameter == NodeValue::all_arguments) return member;
  std::string text = text::format("argument {}", value.parameter);
  if (value.offset != 0 || value.part) text += text::format(", offset {}", value.offset);
  return member.empty() ? text : text + ", " + member;
}

std::string dependency_text(const ComparedGraph& graph, std::size_t from, const backend::EdgeData* data) {
  if (data == nullptr) return "none";
  std::string text = "on the " + graph.describe(from).str();
  if (*data != backend::EdgeData{})
    text += text::format(", type {} from port {} to port {}", static_cast<int>(data->type),
                         static_cast<int>(data->from_port), static_cast<int>(data->to_port));
  return text;
}

const backend::EdgeData* find(const Dependencies& dependencies, std::size_t from) {
  const auto found = dependencies.find(from);
  return found != dependencies.end() ? &found->second : nullptr;
}

/// Finds the differences between two graphs whose nodes are paired.
class Differences {
 public:
  Differences(const ComparedGraph& first, const ComparedGraph& second)
      : first_(first),
        second_(second),
        pairs_(pair_nodes(first.values, second.values)),
        found_(pairs_.size()),
        pair_of_first_(first.values.nodes.size()),
        pair_of_second_(second.values.nodes.size()) {
    for (std::size_t i = 0; i < pairs_.size(); ++i) {
      if (pairs_[i].first != NodePair::none) pair_of_first_[pairs_[i].first] = i;
      if (pairs_[i].second != NodePair::none) pair_of_second_[pairs_[i].second] = i;
    }
  }

  /// Leaves out words that are addresses in both graphs, or may be.
  void leave_out_addresses() noexcept { with_addresses_ = false; }

  std::vector<GraphDifference> run() {
    for (std::size_t i = 0; i < pairs_.size(); ++i) {
      compare_work(i);
      if (is_whole(i)) compare_enabled(i);
    }
    compare_values();
    compare_dependencies();
    std::vector<GraphDifference> all;
    for (std::vector<GraphDifference>& of_pair : found_) std::ranges::move(of_pair, std::back_inserter(all));
    return all;
  }

 private:
  GraphDifference& add(DifferenceKind kind, std::size_t pair) {
    GraphDifference& difference = found_[pair].emplace_back();
    difference.kind = kind;
    if (pairs_[pair].first != NodePair::none) difference.first = first_.describe(pairs_[pair].first);
    if (pairs_[pair].second != NodePair::none) difference.second = second_.describe(pairs_[pair].second);
    return difference;
  }
  bool is_whole(std::size_t pair) const {
    return pairs_[pair].first != NodePair::none && pairs_[pair].second != NodePair::none;
  }

  void compare_work(std::size_t pair) {
    if (pairs_[pair].first == NodePair::none) return void(add(DifferenceKind::node_added, pair));
    if (pairs_[pair].second == NodePair::none) return void(add(DifferenceKind::node_removed, pair));
    const ScannedNode& first = first_.values.nodes[pairs_[pair].first];
    const ScannedNode& second = second_.values.nodes[pairs_[pair].second];
    const bool other_type = first.type != second.type || first.conditional != second.conditional;
    if (!other_type && first.function == second.function) return;
    GraphDifference& difference = add(other_type ? DifferenceKind::node_type : DifferenceKind::function, pair);
    difference.field = other_type ? "type" : "kernel";
    difference.first_value = other_type ? type_text(first) : difference.first->name;
    difference.second_value = other_type ? type_text(second) : difference.second->name;
  }

  void compare_enabled(std::size_t pair) {
    const auto is_enabled = [](const ComparedGraph& graph, std::size_t index) {
      return graph.graph().changes.enabled(graph.values.nodes[index].handle);
    };
    const bool first = is_enabled(first_, pairs_[pair].first), second = is_enabled(second_, pairs_[pair].second);
    if (first == second) return;
    GraphDifference& difference = add(DifferenceKind::enabled, pair);
    difference.field = "enabled";
    difference.first_value = first ? "yes" : "no";
    difference.second_value = second ? "yes" : "no";
  }

  static std::string type_text(const ScannedNode& node) {
    if (!node.conditional) return backend::node_type_name(node.type);
    switch (*node.conditional) {
      case backend::ConditionalType::if_:
        return "conditional (if)";
      case backend::ConditionalType::while_:
        return "conditional (while)";
      case backend::ConditionalType::switch_:
        return "conditional (switch)";
    }
    return "conditional";
  }

  /// The values of the first graph at the places where the second graph would have them. Arguments of different kernels
  /// have nothing to do with each other.
  NodeValues first_in_places_of_second() const {
    NodeValues moved;
    moved.own = first_.values.own;
    moved.addresses = first_.values.addresses;
    for (NodeValue value : first_.values.values) {
      const NodePair& pair = pairs_[pair_of_first_[value.node]];
      if (pair.second == NodePair::none) continue;
      const ScannedNode& first = first_.values.nodes[pair.first];
      const ScannedNode& second = second_.values.nodes[pair.second];
      if (first.type != second.type || (first.function != second.function && value.parameter >= 0)) continue;
      value.node = static_cast<std::uint32_t>(pair.second);
      moved.values.push_back(value);
    }
    return moved;
  }

  void compare_values() {
    for (const ChangedValue& changed : changed_values(first_in_places_of_second(), second_.values)) {
      const NodeValue& value = changed.value;
      if (!with_addresses_ && may_be_address(value, changed.first) && may_be_address(value, value.value)) continue;
      const ScannedNode& node = second_.values.nodes[value.node];
      const bool kernel = node.type == backend::NodeType::kernel;
      const DifferenceKind kind = kernel && value.parameter < 0          ? DifferenceKind::launch_shape
                                  : node.type == backend::NodeType::host ? DifferenceKind::function
                                                                         : DifferenceKind::parameter;
      GraphDifference& difference = add(kind, pair_of_second_[value.node]);
      difference.field = field_text(value);
      if (value.parameter >= 0 && value.parameter != NodeValue::all_arguments)
        difference.parameter = static_cast<std::size_t>(value.parameter);
      if (value.parameter >= 0) difference.offset = value.offset;
      difference.first_value = text_of(value, changed.first, changed.first_memory);
      difference.second_value = text_of(value, value.value, changed.second_memory);
      difference.perhaps = value.perhaps || may_differ_in_padding(changed);
    }
  }
  // In the lower half of 48 bits, above the first 4 GiB; nearly no floating-point number and no size lies there.
  static bool may_be_address(const NodeValue& value, std::uint64_t bits) {
    return value.bytes == sizeof bits && bits >> 32 != 0 && bits >> 47 == 0;
  }
  // Shapes, sizes and counts are numbers; what else lies in 8 bytes may be anything.
  static std::string text_of(const NodeValue& value, std::uint64_t bits, const std::string& memory) {
    const bool address = value.member == "destination" || value.member == "source" || value.member == "address" ||
                         value.member == "condition";
    if (value.parameter >= 0 || address || value.member == "function" || value.member == "value" ||
        value.member == NodeValue::copied_value)
      return address && memory.empty() ? text::format("{:#x}", bits) : value_text(bits, value.bytes, memory);
    return std::to_string(bits);
  }

  void compare_dependencies() {
    const std::vector<Dependencies> first = first_.dependencies(), second = second_.dependencies();
    for (std::size_t i = 0; i < pairs_.size(); ++i) {
      if (!is_whole(i)) continue;
      const Dependencies& of_first = first[pairs_[i].first];
      const Dependencies& of_second = second[pairs_[i].second];
      std::set<std::size_t> before;  // pairs; what only one graph has is a difference itself
      for (const auto& [from, data] : of_first)
        if (is_whole(pair_of_first_[from])) before.insert(pair_of_first_[from]);
      for (const auto& [from, data] : of_second)
        if (is_whole(pair_of_second_[from])) before.insert(pair_of_second_[from]);
      for (const std::size_t from : before) {
        const auto* const in_first = find(of_first, pairs_[from].first);
        const auto* const in_second = find(of_second, pairs_[from].second);
        if (in_first != nullptr && in_second != nullptr && *in_first == *in_second) continue;
        GraphDifference& difference = add(DifferenceKind::dependency, i);
        difference.field = "dependency";
        difference.first_value = dependency_text(first_, pairs_[from].first, in_first);
        difference.second_value = dependency_text(second_, pairs_[from].second, in_second);
      }
    }
  }

  const ComparedGraph& first_;
  const ComparedGraph& second_;
  const std::vector<NodePair> pairs_;
  std::vector<std::vector<GraphDifference>> found_;          // of each pair
  std::vector<std::size_t> pair_of_first_, pair_of_second_;  // of each node
  bool with_addresses_ = true;
};

}  // namespace

std::vector<GraphDifference> graph_differences(const ComparedGraph& first, const ComparedGraph& second) {
  return Differences(first, second).run();
}

std::vector<GraphDifference> graph_differences(Impl& first, Impl& second) {
  return graph_differences(ComparedGraph(first), ComparedGraph(second));
}

std::vector<ComparedNode> disabled_nodes(Impl& graph, Impl& other) {
  std::vector<GraphNodeHandle> ours, theirs;
  backend::Checked(graph.backend()).graph_nodes(graph.template_graph, &ours);
  std::vector<ComparedNode> disabled;
  KernelNames names;
  for (std::size_t i = 0; i < ours.size(); ++i) {
    if (graph.changes.enabled(ours[i])) continue;
    if (theirs.empty()) backend::Checked(other.backend()).graph_nodes(other.template_graph, &theirs);
    if (i < theirs.size())
      disabled.push_back(described(other, scan_node(other.backend(), theirs[i], theirs[i], std::to_string(i)), names));
  }
  return disabled;
}

std::string differences_text(std::span<const GraphDifference> differences) {
  constexpr std::size_t most = 20;
  std::string text;
  for (const GraphDifference& difference : differences.first(std::min(differences.size(), most)))
    text += text::format("  {}\n", difference.str());
  if (differences.size() > most) text += text::format("  and {} more\n", differences.size() - most);
  return text;
}

}  // namespace reprise::inspect

namespace reprise {

std::string ComparedNode::str() const {
  return inspect::node_text(name, number, annotation.empty() ? nullptr : &annotation);
}

std::string GraphDifference::str() const {
  if (!second) return text::format("{}: only in the first graph", first.value_or(ComparedNode{}).str());
  if (!first) return text::format("{}: only in the second graph", second->str());
  std::string node = second->str();
  if (first->number != second->number) node += text::format(", node {} in the first graph", first->number);
  return text::format("{}: {}: {}, then {}{}", node, field, first_value, second_value,
                      perhaps ? " (perhaps bytes that no code wrote)" : "");
}

namespace {

template <class Compare>
auto compare_graphs(const CUDAGraph& first, const CUDAGraph& second, const Compare& compare) {
  constexpr const char* call = "diff";
  auto& one = graphs::GraphAccess::of(first, call);
  auto& other = graphs::GraphAccess::of(second, call);
  for (const auto* const each : {&one, &other})
    if (each->in_own_hook())
      throw UsageError(
          text::format("diff{} was called within a hook of one of the two graphs. Compare them after the call that ran "
                       "the hook, where both can be locked. A hook can read nodes().",
                       graphs::of_graph(each->options.name)));
  const graphs::GraphAccess::Impl::LockBoth lock(one, other);
  one.require_template(call);
  other.require_template(call);
  one.forget_editable();
  other.forget_editable();
  if (*one.device != *other.device)
    throw UsageError(
        text::format("diff expected two graphs of one device; found one of {} and one of {}: compare graphs that were "
                     "captured on the same device.",
                     one.device->str(), other.device->str()));
  return compare(one, other);
}

}  // namespace

std::vector<GraphDifference> diff(const CUDAGraph& first, const CUDAGraph& second) {
  return compare_graphs(first, second, [](auto& one, auto& other) { return inspect::graph_differences(one, other); });
}

std::vector<bool> inspect::corresponding(const CUDAGraph& first, const CUDAGraph& second,
                                         std::span<const AddressPair> pairs) {
  return compare_graphs(first, second, [&](auto& one, auto& other) {
    const ComparedGraph before(one), after(other);
    std::vector<bool> same;
    for (const AddressPair& pair : pairs)
      same.push_back(pair.first == pair.second ||
                     before.values.own.corresponds(reinterpret_cast<std::uintptr_t>(pair.first), after.values.own,
                                                   reinterpret_cast<std::uintptr_t>(pair.second)));
    return same;
  });
}

std::vector<GraphDifference> inspect::differences_but_for_addresses(const CUDAGraph& first, const CUDAGraph& second) {
  return compare_graphs(first, second, [](auto& one, auto& other) {
    const ComparedGraph before(one), after(other);
    Differences differences(before, after);
    differences.leave_out_addresses();
    return differences.run();
  });
}

}  // namespace reprise
