// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <optional>
#include <utility>
#include <variant>

#include "backend/check.h"
#include "backend/cuda/conditional_nodes.h"
#include "backend/cuda/cuda_backend.h"
#include "backend/cuda/cupti/cupti_nodes.h"

// The nodes of a template, to be timed or named.

namespace reprise::backend::cuda {
namespace {

CUresult add_nodes(const DriverApi& driver, GraphHandle graph, std::vector<WatchedNode>& found) {
  std::size_t count = 0;
  CUresult result = driver.cuGraphGetNodes(graph, nullptr, &count);
  std::vector<CUgraphNode> nodes(count);
  if (result == CUDA_SUCCESS && count != 0) result = driver.cuGraphGetNodes(graph, nodes.data(), &count);
  for (std::size_t i = 0; i < nodes.size() && result == CUDA_SUCCESS; ++i) {
    CUgraphNodeType type{};
    result = driver.cuGraphNodeGetType(nodes[i], &type);
    found.push_back({nodes[i], static_cast<NodeType>(type)});
  }
  return result;
}

// The graphs in a node; nullopt if they are not known.
std::optional<std::vector<GraphHandle>> graphs_in(const DriverApi& driver, const WatchedNode& node) {
  if (node.type == NodeType::child_graph) {
    CUgraph child = nullptr;
    if (driver.cuGraphChildGraphNodeGetGraph(node.node, &child) != CUDA_SUCCESS) return std::nullopt;
    return std::vector<GraphHandle>{child};
  }
  if (node.type != NodeType::conditional) return std::vector<GraphHandle>{};
  NodeParams params;
  if (!ConditionalNodes::instance().find(node.node, &params)) return std::nullopt;
  return std::get<ConditionalNodeParams>(params).bodies;
}

// Adds the nodes in `outer`, at any depth; false if some are not known.
bool add_inner_nodes(const DriverApi& driver, const std::vector<WatchedNode>& outer, std::vector<WatchedNode>& found) {
  for (const WatchedNode& node : outer) {
    const std::optional<std::vector<GraphHandle>> graphs = graphs_in(driver, node);
    if (!graphs) return false;
    for (GraphHandle const graph : *graphs) {
      std::vector<WatchedNode> nodes;
      if (add_nodes(driver, graph, nodes) != CUDA_SUCCESS) return false;
      found.insert(found.end(), nodes.begin(), nodes.end());
      if (!add_inner_nodes(driver, nodes, found)) return false;
    }
  }
  return true;
}

/// \param all_known set to false if there are nodes in graphs that are not known.
CUresult find_nodes(const DriverApi& driver, GraphHandle graph, WatchedNodes& found, bool* all_known) {
  const CUresult result = add_nodes(driver, graph, found.top);
  if (result == CUDA_SUCCESS) *all_known = add_inner_nodes(driver, found.top, found.inner);
  return result;
}

std::optional<NodeIds> node_ids_from_driver(const DriverApi& driver, const std::vector<WatchedNode>& nodes,
                                            GraphExecHandle exec, std::string* why) {
  NodeIds ids;
  CUresult result = driver.cuGraphExecGetId(exec, &ids.exec);
  for (std::size_t i = 0; i < nodes.size() && result == CUDA_SUCCESS; ++i) {
    unsigned long long id = 0;
    result = driver.cuGraphNodeGetToolsId(nodes[i].node, &id);
    ids.nodes.push_back(id);
  }
  if (result == CUDA_SUCCESS) return ids;
  *why = "the driver returned " + std::string(result_name(static_cast<ErrorCode>(result)));
  return std::nullopt;
}

}  // namespace

std::unordered_map<std::uint32_t, WatchedNode> nodes_by_number(const WatchedNodes& nodes,
                                                               const std::vector<std::uint64_t>& ids) {
  std::unordered_map<std::uint32_t, WatchedNode> found;
  std::uint32_t next = 0;
  for (std::size_t i = 0; i < nodes.top.size(); ++i) {
    const auto number = static_cast<std::uint32_t>(ids[i]);
    found.emplace(number, nodes.top[i]);
    next = std::max(next, number + 1);
  }
  if (next != nodes.top.size()) return found;
  for (const WatchedNode& node : nodes.inner) found.emplace(next++, node);
  return found;
}

std::shared_ptr<NodeWatch> CudaBackend::watch_nodes(GraphHandle template_graph, GraphExecHandle exec,
                                                    std::string* why) {
  const RelaxedCaptureMode relaxed(*this);  // CUPTI initialises itself, which must not break a capture of other code
  WatchedNodes nodes;
  bool all_known = true;
  const CUresult result = find_nodes(driver_, template_graph, nodes, &all_known);
  if (result == CUDA_SUCCESS) return watch_nodes_through_cupti(nodes, exec, why);
  *why = "Nodes cannot be timed: the driver does not list those of the template (" +
         std::string(result_name(static_cast<ErrorCode>(result))) + ").";
  return nullptr;
}

std::unordered_map<GraphNodeHandle, std::uint64_t> CudaBackend::profiler_ids(GraphHandle template_graph,
                                                                             GraphExecHandle exec, std::string* why) {
  const RelaxedCaptureMode relaxed(*this);  // CUPTI initialises itself, which must not break a capture of other code
  WatchedNodes nodes;
  bool all_known = true;
  std::unordered_map<GraphNodeHandle, std::uint64_t> found;
  std::optional<NodeIds> ids;
  if (const CUresult result = find_nodes(driver_, template_graph, nodes, &all_known); result != CUDA_SUCCESS)
    *why = "the driver does not list the nodes of the template (" +
           std::string(result_name(static_cast<ErrorCode>(result))) + ")";
  else if (driver_.cuGraphNodeGetToolsId != nullptr && driver_.cuGraphExecGetId != nullptr)
    ids = node_ids_from_driver(driver_, nodes.top, exec, why);
  else if (ids = node_ids_from_cupti(nodes.top, exec, why); !ids)
    *why = "the driver is older than CUDA 13.1, which knows the ids, and " + *why;
  if (!ids) {
    *why = "The ids for profilers are not known: " + *why + ".";
    return found;
  }
  for (const auto& [number, node] : nodes_by_number(nodes, ids->nodes))
    found.emplace(node.node, (std::uint64_t{ids->exec} << 32U) + number);
  if (!all_known)
    *why = "Nodes from the first conditional node on whose bodies are not known have other numbers in the executable.";
  else if (found.size() < nodes.top.size() + nodes.inner.size())
    *why = "Nodes of the template were removed, so that the numbers of those in child graphs and bodies are not known.";
  return found;
}

}  // namespace reprise::backend::cuda
