// SPDX-License-Identifier: Apache-2.0
#include <algorithm>

#include "backend/host/host_backend.h"

// Stream capture.

namespace reprise::backend::host {

Result HostBackend::find_nodes(std::span<const GraphNodeHandle> handles, const HostGraph* graph,
                               std::vector<HostNode*>* nodes) const {
  for (const GraphNodeHandle handle : handles) {
    HostNode* const node = runtime_.find(handle);
    if (node == nullptr)
      return fail(Result::invalid_value, "there is no such node: it was never made, or was destroyed");
    if (graph != nullptr && node->graph != graph) return fail(Result::invalid_value, "a node is of another graph");
    nodes->push_back(node);
  }
  return Result::success;
}

Result HostBackend::begin_capture_on(Call call, StreamHandle handle, HostGraph* graph,
                                     std::span<const GraphNodeHandle> dependencies, CaptureErrorMode mode) {
  HostStream* const stream = find(handle);
  if (stream == nullptr) return bad_handle("stream");
  if (mode != CaptureErrorMode::global && mode != CaptureErrorMode::thread_local_ && mode != CaptureErrorMode::relaxed)
    return fail(Result::invalid_value, "there is no such capture mode");
  const Result rule = check_capture_rules(runtime_, {call, &device_, stream, nullptr, false, graph});
  if (rule != Result::success) return rule;
  std::vector<HostNode*> nodes;
  const Result found = find_nodes(dependencies, graph, &nodes);
  if (found != Result::success) return found;
  const bool owns_graph = graph == nullptr;
  if (owns_graph) {
    auto made = std::make_unique<HostGraph>();
    made->device = stream->device;
    made->id = next_id();
    graph = reinterpret_cast<HostGraph*>(runtime_.adopt(std::move(made)));
  }
  begin_capture(runtime_, *stream, *graph, owns_graph, mode);
  stream->capture_dependencies = std::move(nodes);
  return Result::success;
}

Result HostBackend::stream_begin_capture(StreamHandle handle, CaptureErrorMode mode) {
  return enter(Call::stream_begin_capture,
               [&](Lock&) { return begin_capture_on(Call::stream_begin_capture, handle, nullptr, {}, mode); });
}

Result HostBackend::stream_begin_capture_to_graph(StreamHandle handle, GraphHandle graph_handle,
                                                  std::span<const GraphNodeHandle> dependencies,
                                                  CaptureErrorMode mode) {
  return enter(Call::stream_begin_capture_to_graph, [&](Lock&) {
    HostGraph* const graph = runtime_.find(graph_handle);
    if (graph == nullptr) return no_such("graph");
    return begin_capture_on(Call::stream_begin_capture_to_graph, handle, graph, dependencies, mode);
  });
}

Result HostBackend::stream_end_capture(StreamHandle handle, GraphHandle* graph) {
  return enter(Call::stream_end_capture, [&](Lock&) {
    *graph = nullptr;
    HostStream* const stream = find(handle);
    if (stream == nullptr) return bad_handle("stream");
    const Result rule = check_capture_rules(runtime_, {Call::stream_end_capture, &device_, stream});
    if (rule != Result::success) return rule;
    const std::shared_ptr<Capture> capture = stream->capture;
    *graph = reinterpret_cast<GraphHandle>(capture->graph);
    finish_capture(runtime_, *capture);
    return Result::success;
  });
}

Result HostBackend::stream_is_capturing(StreamHandle handle, CaptureStatus* status) {
  return enter(Call::stream_is_capturing, [&](Lock&) {
    HostStream* const stream = find(handle);
    if (stream == nullptr) return bad_handle("stream");
    const Result rule = check_capture_rules(runtime_, {Call::stream_is_capturing, &device_, stream});
    if (rule != Result::success) return rule;
    *status = stream->capture == nullptr                         ? CaptureStatus::none
              : stream->capture->state == Capture::State::active ? CaptureStatus::active
                                                                 : CaptureStatus::invalidated;
    return Result::success;
  });
}

Result HostBackend::stream_capture_info(StreamHandle handle, CaptureInfo* info) {
  return enter(Call::stream_capture_info, [&](Lock&) {
    HostStream* const stream = find(handle);
    if (stream == nullptr) return bad_handle("stream");
    const Result rule = check_capture_rules(runtime_, {Call::stream_capture_info, &device_, stream});
    if (rule != Result::success) return rule;
    *info = {};
    if (stream->capture == nullptr) return Result::success;
    if (stream->capture->state != Capture::State::active) {
      info->status = CaptureStatus::invalidated;
      return Result::success;
    }
    stream->reported_dependencies.clear();
    for (HostNode* node : stream->capture_dependencies)
      stream->reported_dependencies.push_back(reinterpret_cast<GraphNodeHandle>(node));
    info->status = CaptureStatus::active;
    info->id = stream->capture->id;
    info->graph = reinterpret_cast<GraphHandle>(stream->capture->graph);
    info->dependencies = stream->reported_dependencies;
    return Result::success;
  });
}

Result HostBackend::stream_update_capture_dependencies(StreamHandle handle,
                                                       std::span<const GraphNodeHandle> dependencies,
                                                       UpdateDependencies how) {
  return enter(Call::stream_update_capture_dependencies, [&](Lock&) {
    HostStream* const stream = find(handle);
    if (stream == nullptr) return bad_handle("stream");
    const Result rule = check_capture_rules(runtime_, {Call::stream_update_capture_dependencies, &device_, stream});
    if (rule != Result::success) return rule;
    std::vector<HostNode*> nodes;
    const Result found = find_nodes(dependencies, stream->capture->graph, &nodes);
    if (found != Result::success) return found;
    if (how == UpdateDependencies::set) stream->capture_dependencies.clear();
    for (HostNode* node : nodes)
      if (std::find(stream->capture_dependencies.begin(), stream->capture_dependencies.end(), node) ==
          stream->capture_dependencies.end())
        stream->capture_dependencies.push_back(node);
    return Result::success;
  });
}

Result HostBackend::thread_exchange_capture_mode(CaptureErrorMode* mode) {
  if (const Result failed = injected(Call::thread_exchange_capture_mode); failed != Result::success) return failed;
  std::swap(thread_capture_mode(), *mode);
  return Result::success;
}

}  // namespace reprise::backend::host
