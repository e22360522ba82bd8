// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <optional>
#include <utility>

#include "backend/cuda/cuda_monitor.h"
#include "backend/cuda/cupti/cupti_nodes.h"

// The nodes of a template, to be timed or named.

namespace reprise::backend::cuda {
namespace {

CUresult find_nodes(const DriverApi& driver, GraphHandle graph, std::vector<WatchedNode>& found) {
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

// CUPTI initialises itself at the first use; that must not break a capture of other code.
class InRelaxedMode {
 public:
  explicit InRelaxedMode(const DriverApi& driver)
      : driver_(driver), exchanged_(driver_.cuThreadExchangeStreamCaptureMode(&mode_) == CUDA_SUCCESS) {}
  ~InRelaxedMode() {
    if (exchanged_) (void)driver_.cuThreadExchangeStreamCaptureMode(&mode_);
  }
  InRelaxedMode(const InRelaxedMode&) = delete;
  InRelaxedMode& operator=(const InRelaxedMode&) = delete;

 private:
  const DriverApi& driver_;
  CUstreamCaptureMode mode_ = CU_STREAM_CAPTURE_MODE_RELAXED;
  const bool exchanged_;
};

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

std::unordered_map<std::uint32_t, WatchedNode> nodes_by_number(const std::vector<WatchedNode>& nodes,
                                                               const std::vector<std::uint64_t>& ids) {
  std::unordered_map<std::uint32_t, WatchedNode> found;
  std::uint32_t first_child = UINT32_MAX;
  for (std::size_t i = 0; i < nodes.size(); ++i) {
    const auto number = static_cast<std::uint32_t>(ids[i]);
    found.emplace(number, nodes[i]);
    if (nodes[i].type == NodeType::child_graph || nodes[i].type == NodeType::conditional)
      first_child = std::min(first_child, number);
  }
  std::erase_if(found, [&](const auto& known) { return known.first >= first_child; });
  return found;
}

std::shared_ptr<NodeWatch> CudaMonitor::watch_nodes(GraphHandle template_graph, GraphExecHandle exec,
                                                    std::string* why) {
  const InRelaxedMode relaxed(driver_);
  std::vector<WatchedNode> nodes;
  const CUresult result = find_nodes(driver_, template_graph, nodes);
  if (result == CUDA_SUCCESS) return watch_nodes_through_cupti(nodes, exec, why);
  *why = "Nodes cannot be timed: the driver does not list those of the template (" +
         std::string(result_name(static_cast<ErrorCode>(result))) + ").";
  return nullptr;
}

std::unordered_map<GraphNodeHandle, std::uint64_t> CudaMonitor::profiler_ids(GraphHandle template_graph,
                                                                             GraphExecHandle exec, std::string* why) {
  const InRelaxedMode relaxed(driver_);
  std::vector<WatchedNode> nodes;
  std::unordered_map<GraphNodeHandle, std::uint64_t> found;
  std::optional<NodeIds> ids;
  if (const CUresult result = find_nodes(driver_, template_graph, nodes); result != CUDA_SUCCESS)
    *why = "the driver does not list the nodes of the template (" +
           std::string(result_name(static_cast<ErrorCode>(result))) + ")";
  else if (driver_.cuGraphNodeGetToolsId != nullptr && driver_.cuGraphExecGetId != nullptr)
    ids = node_ids_from_driver(driver_, nodes, exec, why);
  else if (ids = node_ids_from_cupti(nodes, exec, why); !ids)
    *why = "the driver is older than CUDA 13.1, which knows the ids, and " + *why;
  if (!ids) {
    *why = "The ids for profilers are not known: " + *why + ".";
    return found;
  }
  for (const auto& [number, node] : nodes_by_number(nodes, ids->nodes))
    found.emplace(node.node, (std::uint64_t{ids->exec} << 32U) + number);
  if (found.size() < nodes.size())
    *why = "Nodes from the first child graph or conditional node on have other numbers in the executable.";
  return found;
}

}  // namespace reprise::backend::cuda
