// SPDX-License-Identifier: Apache-2.0
#include <algorithm>

#include "backend/host/host_backend.h"
#include "support/room.h"

// Stream capture, and what is observed of it.

namespace reprise::backend::host {
namespace {

bool is_mode(CaptureMode mode) noexcept {
  return mode == CaptureMode::global || mode == CaptureMode::thread || mode == CaptureMode::relaxed;
}

CaptureStatus status_of(const HostStream& stream) noexcept {
  if (stream.capture == nullptr) return CaptureStatus::none;
  return stream.capture->state == HostCapture::State::active ? CaptureStatus::active : CaptureStatus::invalidated;
}

}  // namespace

Result HostBackend::find_nodes(const Dependencies& handles, const HostGraph* graph,
                               std::vector<Dependency>* nodes) const {
  for (std::size_t i = 0; i < handles.nodes.size(); ++i) {
    HostNode* const node = runtime_.find(handles.nodes[i]);
    if (node == nullptr) return no_such("node");
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
    graph = reinterpret_cast<HostGraph*>(runtime_.adopt(std::make_unique<HostGraph>()));
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
  return enter_on(Call::stream_begin_capture_to_graph, graph_handle, "graph", [&](HostGraph& graph) {
    return begin_capture_on(Call::stream_begin_capture_to_graph, handle, &graph, dependencies, mode);
  });
}

Result HostBackend::stream_end_capture(StreamHandle handle, GraphHandle* graph) {
  *graph = nullptr;
  return enter_stream(Call::stream_end_capture, handle, [&](Lock&, HostStream& stream) {
    const std::shared_ptr<HostCapture> capture = stream.capture;
    *graph = reinterpret_cast<GraphHandle>(capture->graph);
    finish_capture(runtime_, *capture);
    return ErrorCode::success;
  });
}

Result HostBackend::stream_is_capturing(StreamHandle handle, CaptureStatus* status) {
  return enter_stream(Call::stream_is_capturing, handle, [&](Lock&, HostStream& stream) {
    *status = status_of(stream);
    return ErrorCode::success;
  });
}

Result HostBackend::stream_capture_info(StreamHandle handle, CaptureInfo* info) {
  return enter_stream(Call::stream_capture_info, handle, [&](Lock&, HostStream& stream) {
    *info = {};
    info->status = status_of(stream);
    if (info->status != CaptureStatus::active) return ErrorCode::success;
    stream.reported_dependencies.clear();
    stream.reported_edges.clear();
    for (const Dependency& each : stream.capture_dependencies) {
      stream.reported_dependencies.push_back(handle_of(*each.node));
      stream.reported_edges.push_back(each.data);
    }
    info->id = stream.capture->id;
    info->graph = reinterpret_cast<GraphHandle>(stream.capture->graph);
    info->dependencies = stream.reported_dependencies;
    info->edges = stream.reported_edges;
    return ErrorCode::success;
  });
}

Result HostBackend::stream_update_capture_dependencies(StreamHandle handle, const Dependencies& dependencies,
                                                       UpdateDependencies how) {
  return enter_stream(Call::stream_update_capture_dependencies, handle, [&](Lock&, HostStream& stream) -> Result {
    std::vector<Dependency> nodes;
    if (Result found = find_nodes(dependencies, stream.capture->graph, &nodes); found.failed()) return found;
    support::make_room(stream.capture_dependencies, nodes.size());
    if (how == UpdateDependencies::set) stream.capture_dependencies.clear();
    add_dependencies(stream, nodes);
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

CaptureFindings HostBackend::describe_capture(StreamHandle handle) const {
  const std::lock_guard lock(runtime_.mutex);
  const HostStream* const stream = runtime_.find(handle, device_);
  if (stream == nullptr || stream->capture == nullptr) return {};
  CaptureFindings findings;
  // Nearly every capture is: the copy of nothing would cost as much as the rest.
  if (!stream->capture->findings.is_clean()) findings = stream->capture->findings;
  findings.watched = runtime_.watchers > 0;
  findings.may_copy = stream->capture->graph != nullptr && stream->capture->graph->copies;
  findings.thread = stream->capture->findings.thread;
  if (!findings.broken_by) findings.nodes = stream->capture->graph->nodes.size();
  return findings;
}

std::shared_ptr<void> HostBackend::watch_calls(std::string*) {
  // Every call is seen anyway; what costs something is noted only while calls are watched.
  {
    const std::lock_guard lock(runtime_.mutex);
    ++runtime_.watchers;
  }
  // Without the mutex: for lack of memory the result calls its deleter at once.
  return {this, [this](void*) {
            const std::lock_guard lock(runtime_.mutex);
            --runtime_.watchers;
          }};
}

}  // namespace reprise::backend::host
