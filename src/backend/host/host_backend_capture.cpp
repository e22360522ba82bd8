// SPDX-License-Identifier: Apache-2.0
#include <algorithm>

#include "backend/host/host_backend.h"
#include "support/room.h"

// Stream capture.

namespace reprise::backend::host {
namespace {

bool is_mode(CaptureMode mode) noexcept {
  return mode == CaptureMode::global || mode == CaptureMode::thread || mode == CaptureMode::relaxed;
}

}  // namespace

Result HostBackend::find_nodes(const Dependencies& handles, const HostGraph* graph,
                               std::vector<Dependency>* nodes) const {
  for (std::size_t i = 0; i < handles.nodes.size(); ++i) {
    HostNode* const node = runtime_.find(handles.nodes[i]);
    if (node == nullptr)
      return fail(ErrorCode::invalid_value, "there is no such node: it was never made, or was destroyed");
    if (graph != nullptr && node->graph != graph) return fail(ErrorCode::invalid_value, "a node is of another graph");
    if (Result bad = check_edge(*node, nullptr, handles.edge(i)); bad.failed()) return bad;
    nodes->push_back({node, handles.edge(i)});
  }
  return ErrorCode::success;
}

Result HostBackend::begin_capture_on(Call call, StreamHandle handle, HostGraph* graph, const Dependencies& dependencies,
                                     CaptureMode mode) {
  HostStream* const stream = find(handle);
  if (stream == nullptr) return bad_handle("stream");
  if (!is_mode(mode)) return fail(ErrorCode::invalid_value, "there is no such capture mode");
  Result rule = check_capture_rules(runtime_, {call, &device_, stream, nullptr, false, graph});
  if (rule.failed()) return rule;
  std::vector<Dependency> nodes;
  if (Result found = find_nodes(dependencies, graph, &nodes); found.failed()) return found;
  const bool owns_graph = graph == nullptr;
  if (owns_graph) {
    auto made = std::make_unique<HostGraph>();
    made->device = stream->device;
    made->id = next_id();
    graph = reinterpret_cast<HostGraph*>(runtime_.adopt(std::move(made)));
  }
  try {
    begin_capture(runtime_, *stream, *graph, owns_graph, mode);
  } catch (...) {
    if (owns_graph) runtime_.destroy(*graph);
    throw;
  }
  stream->capture_dependencies = std::move(nodes);
  return ErrorCode::success;
}

Result HostBackend::stream_begin_capture(StreamHandle handle, CaptureMode mode) {
  return enter(Call::stream_begin_capture,
               [&](Lock&) { return begin_capture_on(Call::stream_begin_capture, handle, nullptr, {}, mode); });
}

Result HostBackend::stream_begin_capture_to_graph(StreamHandle handle, GraphHandle graph_handle,
                                                  const Dependencies& dependencies, CaptureMode mode) {
  return enter(Call::stream_begin_capture_to_graph, [&](Lock&) -> Result {
    HostGraph* const graph = runtime_.find(graph_handle);
    if (graph == nullptr) return no_such("graph");
    return begin_capture_on(Call::stream_begin_capture_to_graph, handle, graph, dependencies, mode);
  });
}

Result HostBackend::stream_end_capture(StreamHandle handle, GraphHandle* graph) {
  return enter(Call::stream_end_capture, [&](Lock&) -> Result {
    *graph = nullptr;
    HostStream* const stream = find(handle);
    if (stream == nullptr) return bad_handle("stream");
    if (Result rule = check(Call::stream_end_capture, stream); rule.failed()) return rule;
    const std::shared_ptr<HostCapture> capture = stream->capture;
    *graph = reinterpret_cast<GraphHandle>(capture->graph);
    finish_capture(runtime_, *capture);
    return ErrorCode::success;
  });
}

Result HostBackend::stream_is_capturing(StreamHandle handle, CaptureStatus* status) {
  return enter(Call::stream_is_capturing, [&](Lock&) -> Result {
    HostStream* const stream = find(handle);
    if (stream == nullptr) return bad_handle("stream");
    if (Result rule = check(Call::stream_is_capturing, stream); rule.failed()) return rule;
    *status = stream->capture == nullptr                             ? CaptureStatus::none
              : stream->capture->state == HostCapture::State::active ? CaptureStatus::active
                                                                     : CaptureStatus::invalidated;
    return ErrorCode::success;
  });
}

Result HostBackend::stream_capture_info(StreamHandle handle, CaptureInfo* info) {
  return enter(Call::stream_capture_info, [&](Lock&) -> Result {
    HostStream* const stream = find(handle);
    if (stream == nullptr) return bad_handle("stream");
    if (Result rule = check(Call::stream_capture_info, stream); rule.failed()) return rule;
    *info = {};
    if (stream->capture == nullptr) return ErrorCode::success;
    if (stream->capture->state != HostCapture::State::active) {
      info->status = CaptureStatus::invalidated;
      return ErrorCode::success;
    }
    stream->reported_dependencies.clear();
    stream->reported_edges.clear();
    for (const Dependency& each : stream->capture_dependencies) {
      stream->reported_dependencies.push_back(handle_of(*each.node));
      stream->reported_edges.push_back(each.data);
    }
    info->status = CaptureStatus::active;
    info->id = stream->capture->id;
    info->graph = reinterpret_cast<GraphHandle>(stream->capture->graph);
    info->dependencies = stream->reported_dependencies;
    info->edges = stream->reported_edges;
    return ErrorCode::success;
  });
}

Result HostBackend::stream_update_capture_dependencies(StreamHandle handle, const Dependencies& dependencies,
                                                       UpdateDependencies how) {
  return enter(Call::stream_update_capture_dependencies, [&](Lock&) -> Result {
    HostStream* const stream = find(handle);
    if (stream == nullptr) return bad_handle("stream");
    if (Result rule = check(Call::stream_update_capture_dependencies, stream); rule.failed()) return rule;
    std::vector<Dependency> nodes;
    if (Result found = find_nodes(dependencies, stream->capture->graph, &nodes); found.failed()) return found;
    support::make_room(stream->capture_dependencies, nodes.size());
    if (how == UpdateDependencies::set) stream->capture_dependencies.clear();
    for (const Dependency& node : nodes)
      if (std::find(stream->capture_dependencies.begin(), stream->capture_dependencies.end(), node) ==
          stream->capture_dependencies.end())
        stream->capture_dependencies.push_back(node);
    return ErrorCode::success;
  });
}

Result HostBackend::thread_exchange_capture_mode(CaptureMode* mode) {
  return enter_unlocked(Call::thread_exchange_capture_mode, [&]() -> Result {
    if (!is_mode(*mode)) return fail(ErrorCode::invalid_value, "there is no such capture mode");
    std::swap(thread_capture_mode(), *mode);
    return ErrorCode::success;
  });
}

}  // namespace reprise::backend::host
