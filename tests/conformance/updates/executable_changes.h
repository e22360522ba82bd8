// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <functional>
#include <string>

#include "driver_memory.h"

// One row: an executable of a graph, changed to what another graph does, in every way that there is. For
// measure_updates.cu.

namespace measure_updates {

/// Runs after the change: prepares memory, and says whether the launch left the right values.
struct Check {
  std::function<void()> prepare;
  std::function<bool()> is_right;
};

/// A graph is null where it cannot be made.
struct Row {
  std::string node, how, before, after;
  std::function<CUgraph()> from, to;
  Check check = {};
  std::function<void()> instantiated = [] {};
};

/// update: cuGraphExecUpdate with the other graph. own: the graph's node gets the parameters of the other's, and then
/// the graph updates its executable, as CUDAGraph::update() does. set: cuGraphExec*NodeSetParams. With old types:
/// copies keep the memory types that the node had.
enum class Way { update, own, own_old_types, set, set_old_types };
inline constexpr Way ways[] = {Way::update, Way::own, Way::own_old_types, Way::set, Way::set_old_types};
inline constexpr const char* ways_header = "update,own,own_old_types,set,set_old_types";

/// The node of a graph of one node; null if it has another number.
inline CUgraphNode only_node(CUgraph graph) {
  std::size_t count = 0;
  REQUIRE(cuGraphGetNodes(graph, nullptr, &count));
  if (count != 1) return nullptr;
  CUgraphNode node = nullptr;
  REQUIRE(cuGraphGetNodes(graph, &node, &count));
  return node;
}

inline std::string update(CUgraphExec exec, CUgraph graph) {
  CUgraphExecUpdateResultInfo info{};
  const CUresult result = cuGraphExecUpdate(exec, graph, &info);
  return std::to_string(result) + (result == CUDA_SUCCESS ? "" : "/" + std::to_string(info.result));
}

/// Parameters of a node that another node may get.
struct Params {
  CUgraphNodeType type;
  CUDA_KERNEL_NODE_PARAMS kernel{};
  CUDA_MEMCPY3D copy{};
  CUDA_MEMSET_NODE_PARAMS set{};
  CUDA_HOST_NODE_PARAMS host{};
  CUgraph child = nullptr;
  CUevent event = nullptr;

  explicit Params(CUgraphNode node) {
    REQUIRE(cuGraphNodeGetType(node, &type));
    if (type == CU_GRAPH_NODE_TYPE_KERNEL) REQUIRE(cuGraphKernelNodeGetParams(node, &kernel));
    if (type == CU_GRAPH_NODE_TYPE_MEMCPY) REQUIRE(cuGraphMemcpyNodeGetParams(node, &copy));
    if (type == CU_GRAPH_NODE_TYPE_MEMSET) REQUIRE(cuGraphMemsetNodeGetParams(node, &set));
    if (type == CU_GRAPH_NODE_TYPE_HOST) REQUIRE(cuGraphHostNodeGetParams(node, &host));
    if (type == CU_GRAPH_NODE_TYPE_GRAPH) REQUIRE(cuGraphChildGraphNodeGetGraph(node, &child));
    if (type == CU_GRAPH_NODE_TYPE_EVENT_RECORD) REQUIRE(cuGraphEventRecordNodeGetEvent(node, &event));
    if (type == CU_GRAPH_NODE_TYPE_WAIT_EVENT) REQUIRE(cuGraphEventWaitNodeGetEvent(node, &event));
  }

  bool can_be_set() const {
    return type == CU_GRAPH_NODE_TYPE_KERNEL || type == CU_GRAPH_NODE_TYPE_MEMCPY ||
           type == CU_GRAPH_NODE_TYPE_MEMSET || type == CU_GRAPH_NODE_TYPE_HOST || type == CU_GRAPH_NODE_TYPE_GRAPH ||
           type == CU_GRAPH_NODE_TYPE_EVENT_RECORD || type == CU_GRAPH_NODE_TYPE_WAIT_EVENT;
  }

  void take_memory_types(const Params& from) {
    const auto address = [](CUmemorytype memory, const void* host, CUdeviceptr device) {
      return memory == CU_MEMORYTYPE_HOST ? reinterpret_cast<CUdeviceptr>(host) : device;
    };
    copy.srcDevice = address(copy.srcMemoryType, copy.srcHost, copy.srcDevice);
    copy.dstDevice = address(copy.dstMemoryType, copy.dstHost, copy.dstDevice);
    copy.srcHost = reinterpret_cast<void*>(copy.srcDevice);
    copy.dstHost = reinterpret_cast<void*>(copy.dstDevice);
    copy.srcMemoryType = from.copy.srcMemoryType;
    copy.dstMemoryType = from.copy.dstMemoryType;
  }

  CUresult set_in_template(CUgraphNode node) const {
    switch (type) {
      case CU_GRAPH_NODE_TYPE_KERNEL:
        return cuGraphKernelNodeSetParams(node, &kernel);
      case CU_GRAPH_NODE_TYPE_MEMCPY:
        return cuGraphMemcpyNodeSetParams(node, &copy);
      case CU_GRAPH_NODE_TYPE_MEMSET:
        return cuGraphMemsetNodeSetParams(node, &set);
      case CU_GRAPH_NODE_TYPE_HOST:
        return cuGraphHostNodeSetParams(node, &host);
      case CU_GRAPH_NODE_TYPE_EVENT_RECORD:
        return cuGraphEventRecordNodeSetEvent(node, event);
      case CU_GRAPH_NODE_TYPE_WAIT_EVENT:
        return cuGraphEventWaitNodeSetEvent(node, event);
      default:
        return CUDA_ERROR_NOT_SUPPORTED;
    }
  }

  CUresult set_in_executable(CUgraphExec exec, CUgraphNode node) const {
    switch (type) {
      case CU_GRAPH_NODE_TYPE_KERNEL:
        return cuGraphExecKernelNodeSetParams(exec, node, &kernel);
      case CU_GRAPH_NODE_TYPE_MEMCPY:
        return cuGraphExecMemcpyNodeSetParams(exec, node, &copy, contexts[0]);
      case CU_GRAPH_NODE_TYPE_MEMSET:
        return cuGraphExecMemsetNodeSetParams(exec, node, &set, contexts[0]);
      case CU_GRAPH_NODE_TYPE_HOST:
        return cuGraphExecHostNodeSetParams(exec, node, &host);
      case CU_GRAPH_NODE_TYPE_GRAPH:
        return cuGraphExecChildGraphNodeSetParams(exec, node, child);
      case CU_GRAPH_NODE_TYPE_EVENT_RECORD:
        return cuGraphExecEventRecordNodeSetEvent(exec, node, event);
      case CU_GRAPH_NODE_TYPE_WAIT_EVENT:
        return cuGraphExecEventWaitNodeSetEvent(exec, node, event);
      default:
        return CUDA_ERROR_NOT_SUPPORTED;
    }
  }
};

// Launches, and says how that went.
inline std::string launch(CUgraphExec exec, const Check& check) {
  if (check.prepare) check.prepare();
  CUresult result = cuGraphLaunch(exec, streams[0]);
  if (result == CUDA_SUCCESS) result = cuStreamSynchronize(streams[0]);
  if (result != CUDA_SUCCESS) return "E" + std::to_string(result);
  if (!check.is_right) return "=";
  return check.is_right() ? "+" : "!";
}

// What the change gave, without the launch after it.
inline std::string change(Way way, CUgraphExec exec, CUgraph own, CUgraph other) {
  if (way == Way::update) return update(exec, other);
  CUgraphNode const ours = only_node(own), theirs = only_node(other);
  if (ours == nullptr || theirs == nullptr) return "-";
  Params params(theirs);
  if (way == Way::own_old_types || way == Way::set_old_types) {
    const Params had(ours);
    if (params.type != CU_GRAPH_NODE_TYPE_MEMCPY || had.type != params.type) return "-";
    params.take_memory_types(had);
  }
  if (!params.can_be_set()) return "-";
  if (way == Way::set || way == Way::set_old_types) return std::to_string(params.set_in_executable(exec, ours));
  if (params.type == CU_GRAPH_NODE_TYPE_GRAPH) return "-";
  const CUresult taken = params.set_in_template(ours);
  return taken == CUDA_SUCCESS ? update(exec, own) : "t" + std::to_string(taken);
}

inline std::string cell(Way way, const Row& row) {
  CUgraph const own = row.from(), other = row.to();
  CUgraphExec exec = nullptr;
  std::string text = own == nullptr || other == nullptr ? "none" : "";
  if (text.empty()) {
    const CUresult made = cuGraphInstantiate(&exec, own, 0);
    row.instantiated();
    text = made != CUDA_SUCCESS ? "i" + std::to_string(made) : change(way, exec, own, other);
    if (text == "0") text += launch(exec, row.check);
  }
  if (cuCtxSynchronize() != CUDA_SUCCESS) return text;  // nothing works any more
  if (exec != nullptr) (void)cuGraphExecDestroy(exec);
  if (own != nullptr) (void)cuGraphDestroy(own);
  if (other != nullptr) (void)cuGraphDestroy(other);
  (void)cudaGetLastError();
  return text;
}

}  // namespace measure_updates
