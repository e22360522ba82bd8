// SPDX-License-Identifier: Apache-2.0
#include "graph/control_flow/body_nodes.h"

#include <algorithm>
#include <string>
#include <variant>
#include <vector>

#include "backend/capture_query.h"
#include "backend/check.h"
#include "backend/error_context.h"
#include "backend/rules/kernel_text.h"
#include "text/format.h"

namespace reprise::graphs {

using backend::Backend;
using backend::Checked;
using backend::NodeType;

namespace {

// "kernel Scale (node 3 of the body) in forward".
std::string node_text(Backend& backend, NodeType type, const backend::NodeParams& params, const std::string& place) {
  std::string name = backend::node_type_name(type);
  const auto* const kernel = std::get_if<backend::KernelNodeParams>(&params);
  const char* symbol = nullptr;
  if (kernel != nullptr && backend::WarnOnError(backend).function_name(kernel->function, &symbol) && symbol != nullptr)
    name.append(" ").append(backend::kernel_text(symbol));
  const std::string within = backend::error_context();
  return text::format("{} ({}){}", name, place, within.empty() ? "" : " in " + within);
}

bool is_pageable(Backend& backend, const void* address) {
  return Checked(backend).allowing(ErrorCode::invalid_value).info_of(address).kind == backend::MemoryKind::unregistered;
}

// Why CUDA refuses the node in a body; null if it does not.
const char* refusal_of(Backend& backend, NodeType type, const backend::NodeParams& params) {
  switch (type) {
    case NodeType::kernel:
    case NodeType::memset:
    case NodeType::child_graph:
    case NodeType::empty:
    case NodeType::conditional:
      return nullptr;
    case NodeType::memcpy: {
      const auto* const copy = std::get_if<backend::MemcpyNodeParams>(&params);
      if (copy == nullptr || (!is_pageable(backend, copy->source) && !is_pageable(backend, copy->destination)))
        return nullptr;
      return "copies pageable memory of the host; use pinned memory (HostBuffer)";
    }
    case NodeType::host:
      return "calls a function of the host; call it before or after the node";
    case NodeType::memory_allocate:
    case NodeType::memory_free:
      return "allocates or frees memory in the order of a stream; take memory of CachingAllocator, or allocate before";
    case NodeType::event_wait:
    case NodeType::event_record:
      return "records, or waits for, an external event; do it before or after the node";
  }
  return "is of a type that no body can have";
}

void require_nodes(Backend& backend, const char* call, GraphHandle graph, const std::string& prefix) {
  const Checked runtime(backend);
  const std::vector<GraphNodeHandle> nodes = runtime.nodes_of(graph);
  for (std::size_t i = 0; i < nodes.size(); ++i) {
    const NodeType type = runtime.type_of(nodes[i]);
    if (type == NodeType::conditional) continue;  // its bodies were looked at
    const std::string number = prefix + std::to_string(i);
    backend::NodeParams params = backend::EmptyNodeParams{};
    runtime.allowing(ErrorCode::not_supported).graph_node_params(nodes[i], &params);
    if (const char* const why = refusal_of(backend, type, params))
      throw UsageError(
          text::format("{}: {} {}. CUDA takes no such node in the body of a conditional node. The whole "
                       "capture will fail at its end.",
                       call, node_text(backend, type, params, "node " + number + " of the body"), why));
    if (const auto* const child = std::get_if<backend::ChildGraphNodeParams>(&params))
      require_nodes(backend, call, child->graph, number + ".");
  }
}

}  // namespace

void require_body_nodes(Backend& backend, const char* call, GraphHandle body, std::size_t fewest) {
  require_nodes(backend, call, body, "");
  if (fewest == 0) return;
  if (Checked(backend).nodes_of(body).size() >= fewest) return;
  throw UsageError(
      text::format("{}: nothing was captured in its body: it submitted no work, or only to a stream outside of the "
                   "capture, which executed it at once. Submit work to the stream that the body is passed, or to "
                   "current_stream(); if an empty body is meant, set GraphOptions::allow_empty. The whole capture will "
                   "fail at its end.",
                   call));
}

void require_nothing_beside(const char* call, const StreamRef& stream, GraphNodeHandle node) {
  Backend& backend = stream.device().backend();
  const Checked runtime(backend);
  const backend::CaptureInfo info = backend::capture_info(stream);
  if (info.status != CaptureStatus::active || (info.dependencies.size() == 1 && info.dependencies.front() == node))
    return;
  const std::vector<GraphNodeHandle> nodes = runtime.nodes_of(info.graph);
  const std::vector<backend::Edge> edges = runtime.edges_of(info.graph);
  const auto first = std::ranges::find_if(nodes, [&](GraphNodeHandle each) {
    return std::ranges::any_of(edges, [&](const backend::Edge& edge) { return edge.from == node && edge.to == each; });
  });
  std::string what = "a wait for an event";
  if (first != nodes.end()) {
    const NodeType type = runtime.type_of(*first);
    backend::NodeParams params = backend::EmptyNodeParams{};
    runtime.allowing(ErrorCode::not_supported).graph_node_params(*first, &params);
    what = node_text(backend, type, params, "node " + std::to_string(first - nodes.begin()));
  }
  throw UsageError(text::format(
      "{}: while its body was captured, work was submitted to the enclosing stream and is not part of the body: {}. "
      "Submit it to the stream that the body is passed, or to current_stream(). The whole capture fails in the "
      "end.",
      call, what));
}

}  // namespace reprise::graphs
