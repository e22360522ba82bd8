// SPDX-License-Identifier: Apache-2.0
#include "backend/types.h"

namespace reprise::backend {
namespace {

struct TypeOf {
  NodeType operator()(const KernelNodeParams&) const noexcept { return NodeType::kernel; }
  NodeType operator()(const MemcpyNodeParams&) const noexcept { return NodeType::memcpy; }
  NodeType operator()(const MemsetNodeParams&) const noexcept { return NodeType::memset; }
  NodeType operator()(const HostNodeParams&) const noexcept { return NodeType::host; }
  NodeType operator()(const ChildGraphNodeParams&) const noexcept { return NodeType::child_graph; }
  NodeType operator()(const EmptyNodeParams&) const noexcept { return NodeType::empty; }
  NodeType operator()(const EventWaitNodeParams&) const noexcept { return NodeType::event_wait; }
  NodeType operator()(const EventRecordNodeParams&) const noexcept { return NodeType::event_record; }
  NodeType operator()(const MemoryAllocateNodeParams&) const noexcept { return NodeType::memory_allocate; }
  NodeType operator()(const MemoryFreeNodeParams&) const noexcept { return NodeType::memory_free; }
  NodeType operator()(const ConditionalNodeParams&) const noexcept { return NodeType::conditional; }
};

}  // namespace

NodeType node_type(const NodeParams& params) noexcept {
  return std::visit(TypeOf{}, params);
}

const char* node_type_name(NodeType type) noexcept {
  switch (type) {
    case NodeType::kernel:
      return "kernel";
    case NodeType::memcpy:
      return "memcpy";
    case NodeType::memset:
      return "memset";
    case NodeType::host:
      return "host";
    case NodeType::child_graph:
      return "child graph";
    case NodeType::empty:
      return "empty";
    case NodeType::event_wait:
      return "event wait";
    case NodeType::event_record:
      return "event record";
    case NodeType::memory_allocate:
      return "memory allocate";
    case NodeType::memory_free:
      return "memory free";
    case NodeType::conditional:
      return "conditional";
  }
  return "unknown";
}

}  // namespace reprise::backend
