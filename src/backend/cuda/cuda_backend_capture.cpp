// SPDX-License-Identifier: Apache-2.0
#include "backend/check.h"
#include "backend/cuda/cuda_backend.h"
#include "backend/cuda/cupti/cupti_watch.h"
#include "backend/cuda/node_params.h"

// Stream capture, and what is observed of it.

namespace reprise::backend::cuda {

static_assert(static_cast<int>(CaptureMode::global) == CU_STREAM_CAPTURE_MODE_GLOBAL);
static_assert(static_cast<int>(CaptureMode::thread) == CU_STREAM_CAPTURE_MODE_THREAD_LOCAL);
static_assert(static_cast<int>(CaptureMode::relaxed) == CU_STREAM_CAPTURE_MODE_RELAXED);
static_assert(static_cast<int>(CaptureStatus::none) == CU_STREAM_CAPTURE_STATUS_NONE);
static_assert(static_cast<int>(CaptureStatus::active) == CU_STREAM_CAPTURE_STATUS_ACTIVE);
static_assert(static_cast<int>(CaptureStatus::invalidated) == CU_STREAM_CAPTURE_STATUS_INVALIDATED);
static_assert(static_cast<unsigned>(UpdateDependencies::add) == CU_STREAM_ADD_CAPTURE_DEPENDENCIES);
static_assert(static_cast<unsigned>(UpdateDependencies::set) == CU_STREAM_SET_CAPTURE_DEPENDENCIES);

Result CudaBackend::stream_begin_capture(StreamHandle stream, CaptureMode mode) {
  return enter({Call::stream_begin_capture, stream}, [&] {
    const CUresult result = driver_.cuStreamBeginCapture(stream, static_cast<CUstreamCaptureMode>(mode));
    if (result == CUDA_SUCCESS) CaptureWatch::instance().began(driver_, stream);
    return result;
  });
}

Result CudaBackend::stream_begin_capture_to_graph(StreamHandle stream, GraphHandle graph,
                                                  const Dependencies& dependencies, CaptureMode mode) {
  return enter({Call::stream_begin_capture_to_graph, stream}, [&] {
    const CUresult result =
        driver_.cuStreamBeginCaptureToGraph(stream, graph, dependencies.nodes.data(), to_driver(dependencies.edges),
                                            dependencies.nodes.size(), static_cast<CUstreamCaptureMode>(mode));
    if (result == CUDA_SUCCESS) CaptureWatch::instance().began(driver_, stream);
    return result;
  });
}

Result CudaBackend::stream_end_capture(StreamHandle stream, GraphHandle* graph) {
  *graph = nullptr;
  return enter({Call::stream_end_capture, stream}, [&] {
    CUgraph captured = nullptr;
    const CUresult result = driver_.cuStreamEndCapture(stream, &captured);
    if (result == CUDA_SUCCESS || !takes_part(driver_, stream)) CaptureWatch::instance().ended(stream);
    *graph = captured;
    return result;
  });
}

[[gnu::hot]] Result CudaBackend::stream_is_capturing(StreamHandle stream, CaptureStatus* status) {
  return enter_stream({Call::stream_is_capturing, stream}, [&] {
    CUstreamCaptureStatus found = CU_STREAM_CAPTURE_STATUS_NONE;
    const CUresult result = driver_.cuStreamIsCapturing(stream, &found);
    if (result == CUDA_SUCCESS) *status = static_cast<CaptureStatus>(found);
    return result;
  });
}

Result CudaBackend::stream_capture_info(StreamHandle stream, CaptureInfo* info) {
  return enter_stream({Call::stream_capture_info, stream}, [&] {
    CUstreamCaptureStatus status = CU_STREAM_CAPTURE_STATUS_NONE;
    cuuint64_t id = 0;
    CUgraph graph = nullptr;
    const CUgraphNode* dependencies = nullptr;
    const CUgraphEdgeData* edges = nullptr;  // without it, the driver refuses the call when an edge is programmatic
    std::size_t count = 0;
    const CUresult result = driver_.cuStreamGetCaptureInfo(stream, &status, &id, &graph, &dependencies, &edges, &count);
    if (result != CUDA_SUCCESS) return result;
    *info = {};
    info->status = static_cast<CaptureStatus>(status);
    // Otherwise the rest is undefined.
    if (status == CU_STREAM_CAPTURE_STATUS_ACTIVE) {
      info->id = id;
      info->graph = graph;
      info->dependencies = {dependencies, count};
      if (edges != nullptr) info->edges = {reinterpret_cast<const EdgeData*>(edges), count};
    }
    return result;
  });
}

Result CudaBackend::stream_update_capture_dependencies(StreamHandle stream, const Dependencies& dependencies,
                                                       UpdateDependencies how) {
  return enter({Call::stream_update_capture_dependencies, stream}, [&] {
    // The driver takes a pointer to nodes that it does not change.
    return driver_.cuStreamUpdateCaptureDependencies(stream, const_cast<CUgraphNode*>(dependencies.nodes.data()),
                                                     to_driver(dependencies.edges), dependencies.nodes.size(),
                                                     static_cast<unsigned>(how));
  });
}

Result CudaBackend::thread_exchange_capture_mode(CaptureMode* mode) {
  // The mode belongs to the thread, not to a context: no context has to be current.
  auto exchanged = static_cast<CUstreamCaptureMode>(*mode);
  const CUresult result = driver_.cuThreadExchangeStreamCaptureMode(&exchanged);
  if (result == CUDA_SUCCESS) *mode = static_cast<CaptureMode>(exchanged);
  return finish(Call::thread_exchange_capture_mode, result);
}

CaptureFindings CudaBackend::describe_capture(StreamHandle stream) const {
  std::optional<CaptureFindings> watched = describe_watched(stream);
  if (watched && watched->broken_by) return *std::move(watched);
  // The watch of all calls knows more, but perhaps not of this capture.
  CaptureFindings known = CaptureWatch::instance().describe(driver_, stream);
  if (!watched) return known;
  watched->watched = true;
  watched->broken_by = std::move(known.broken_by);
  watched->notes.insert(watched->notes.end(), known.notes.begin(), known.notes.end());
  return *std::move(watched);
}

std::shared_ptr<void> CudaBackend::watch_calls(std::string* why) {
  // CUPTI prepares itself at the first subscription; that must not break a capture that is underway.
  const RelaxedCaptureMode relaxed(*this);
  return watch_through_cupti(why);
}

}  // namespace reprise::backend::cuda
