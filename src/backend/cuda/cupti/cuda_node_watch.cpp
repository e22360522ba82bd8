// SPDX-License-Identifier: Apache-2.0
#include <utility>

#include "backend/cuda/cuda_monitor.h"
#include "backend/cuda/cupti/cupti_nodes.h"

// Selects the nodes to be timed.

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

}  // namespace

std::shared_ptr<NodeWatch> CudaMonitor::watch_nodes(GraphHandle template_graph, GraphExecHandle exec,
                                                    std::string* why) {
  // CUPTI initialises itself at the first use; that must not break a capture of other code.
  CUstreamCaptureMode mode = CU_STREAM_CAPTURE_MODE_RELAXED;
  const CUresult exchanged = driver_.cuThreadExchangeStreamCaptureMode(&mode);
  std::vector<WatchedNode> nodes;
  std::shared_ptr<NodeWatch> watch;
  if (const CUresult result = find_nodes(driver_, template_graph, nodes); result == CUDA_SUCCESS)
    watch = watch_nodes_through_cupti(nodes, exec, why);
  else
    *why = "Nodes cannot be timed: the driver does not list those of the template (" +
           std::string(result_name(static_cast<Result>(result))) + ").";
  if (exchanged == CUDA_SUCCESS) (void)driver_.cuThreadExchangeStreamCaptureMode(&mode);
  return watch;
}

}  // namespace reprise::backend::cuda
