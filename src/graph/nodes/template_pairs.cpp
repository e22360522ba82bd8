// SPDX-License-Identifier: Apache-2.0
#include "graph/nodes/template_pairs.h"

#include <algorithm>
#include <functional>
#include <tuple>
#include <utility>

#include "backend/check.h"
#include "text/format.h"

namespace reprise::graphs {

using backend::Checked;
using backend::NodeType;

namespace {

// By node and dependency, in the order in which the nodes were created.
using Edges = std::vector<std::tuple<std::size_t, std::size_t, backend::EdgeData>>;

Edges sorted(const std::vector<backend::Edge>& edges, const std::vector<GraphNodeHandle>& nodes) {
  std::unordered_map<GraphNodeHandle, std::size_t> index;
  for (std::size_t i = 0; i < nodes.size(); ++i) index.emplace(nodes[i], i);
  Edges found;
  found.reserve(edges.size());
  for (const backend::Edge& edge : edges) found.emplace_back(index.at(edge.to), index.at(edge.from), edge.data);
  const auto key = [](const auto& edge) {
    const backend::EdgeData& data = std::get<2>(edge);
    return std::tuple(std::get<0>(edge), std::get<1>(edge), data.type, data.from_port, data.to_port);
  };
  std::ranges::sort(found, std::less<>{}, key);
  return found;
}

}  // namespace

std::optional<UpdateRefusal> TemplatePairs::pair_graphs(GraphHandle own, GraphHandle other,
                                                        GraphNodeHandle other_node) {
  const Checked runtime(backend_);
  const std::vector<GraphNodeHandle> ours = runtime.nodes_of(own), theirs = runtime.nodes_of(other);
  if (ours.size() != theirs.size())
    return UpdateRefusal{UpdateResult::topology_changed, other_node,
                         text::format("the {}graph has {} node{}, and {} {}", other_node != nullptr ? "child " : "",
                                      theirs.size(), theirs.size() == 1 ? "" : "s",
                                      other_node != nullptr ? "the one in its place" : "this one", ours.size())};
  own_nodes_.reserve(own_nodes_.size() + ours.size());
  std::vector<std::pair<const NodeImage*, const NodeImage*>> images;
  images.reserve(ours.size());
  for (std::size_t i = 0; i < ours.size(); ++i) {
    const auto& pair = images.emplace_back(&own_.values(backend_, ours[i]), &other_.values(backend_, theirs[i]));
    const NodeType our_type = pair.first->type();
    const NodeType their_type = pair.second->type();
    if (our_type != their_type)
      return UpdateRefusal{UpdateResult::node_type_changed, theirs[i],
                           text::format("the node is a {} node, and the one in its place a {} node",
                                        backend::node_type_name(their_type), backend::node_type_name(our_type))};
    own_nodes_.emplace(theirs[i], ours[i]);
  }
  const std::vector<backend::Edge> mine_listed = runtime.edges_of(own), theirs_listed = runtime.edges_of(other);
  // The same work is mostly captured in the same order: then sorted numbers of nodes are not needed.
  const bool listed_alike =
      std::ranges::equal(mine_listed, theirs_listed, [&](const backend::Edge& one, const backend::Edge& another) {
        return one.data == another.data && own_nodes_.at(another.from) == one.from &&
               own_nodes_.at(another.to) == one.to;
      });
  if (!listed_alike) {
    const Edges our_edges = sorted(mine_listed, ours), their_edges = sorted(theirs_listed, theirs);
    if (our_edges != their_edges) {
      const auto [mine, yours] = std::ranges::mismatch(our_edges, their_edges);
      const std::size_t at = std::min(mine != our_edges.end() ? std::get<0>(*mine) : ours.size(),
                                      yours != their_edges.end() ? std::get<0>(*yours) : ours.size());
      return UpdateRefusal{UpdateResult::topology_changed, theirs[at], "the node has other dependencies"};
    }
  }
  for (std::size_t i = 0; i < ours.size(); ++i)
    if (auto refusal = pair_values(ours[i], *images[i].first, theirs[i], *images[i].second)) return refusal;
  return std::nullopt;
}

std::optional<UpdateRefusal> TemplatePairs::pair_values(GraphNodeHandle own, const NodeImage& from,
                                                        GraphNodeHandle other, const NodeImage& to) {
  if (to.type() == NodeType::conditional)
    return UpdateRefusal{UpdateResult::not_supported, other,
                         "the kernels that set the condition of a conditional node are bound to their own one"};
  if (to.type() == NodeType::child_graph) return pair_inner_graphs(from, other, to);
  if (to.type() == NodeType::memory_allocate || to.type() == NodeType::memory_free)
    return UpdateRefusal{UpdateResult::not_supported, other,
                         "allocation nodes keep the addresses that they were made with"};
  if (!to.has_params())
    return UpdateRefusal{UpdateResult::not_supported, other, "its parameters are not known: " + to.unknown()};
  if (!from.has_params())
    return UpdateRefusal{UpdateResult::not_supported, other,
                         "the parameters of the node in its place are not known: " + from.unknown()};
  if (to.own_kernel() != nullptr && !own_.enabled(own))
    return UpdateRefusal{UpdateResult::not_supported, other,
                         "this kernel is the library's own, which each replay needs, and the node in its place is "
                         "disabled: enable that one before"};
  if (has_executable_ && to.type() == NodeType::kernel &&
      (from.config().cluster != to.config().cluster || from.config().cooperative != to.config().cooperative))
    return UpdateRefusal{UpdateResult::attributes_changed, other,
                         "its cluster, or whether it is cooperative, differs; an executable keeps both"};
  if (has_executable_ && to.type() == NodeType::memcpy && own_.leaves_device(backend_, own, from, to))
    return UpdateRefusal{UpdateResult::parameters_changed, other,
                         "an end of the copy, which was in memory of a device when the executable was made, is in "
                         "pageable memory"};
  if (!from.same_values(to)) changes_.push_back({own, to});
  return std::nullopt;
}

// Child graphs, and the bodies of conditional nodes, belong to their nodes, and are changed there.
std::optional<UpdateRefusal> TemplatePairs::pair_inner_graphs(const NodeImage& own, GraphNodeHandle other,
                                                              const NodeImage& with) {
  if (!own.has_params() || !with.has_params())
    return UpdateRefusal{UpdateResult::not_supported, other, "the driver does not describe the graphs in it"};
  const std::vector<GraphHandle> our_graphs = own.inner_graphs(), their_graphs = with.inner_graphs();
  if (our_graphs.size() != their_graphs.size())
    return UpdateRefusal{UpdateResult::topology_changed, other, "the node has another number of bodies"};
  for (std::size_t i = 0; i < our_graphs.size(); ++i)
    if (auto refusal = pair_graphs(our_graphs[i], their_graphs[i], other)) return refusal;
  return std::nullopt;
}

}  // namespace reprise::graphs
