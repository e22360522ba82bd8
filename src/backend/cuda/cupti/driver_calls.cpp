// SPDX-License-Identifier: Apache-2.0
#include "backend/cuda/cupti/driver_calls.h"

#include <cupti.h>

#include <array>
#include <cstddef>
#include <cstring>

namespace reprise::backend::cuda {
namespace {

using Kind = DriverCall::Kind;

// The stream parameter of a call.
enum class Place : unsigned char { nowhere, parameter, launch_config, default_stream };

struct Entry {
  Kind kind = Kind::other;
  Place place = Place::nowhere;
  bool per_thread = false;  // a null stream is the calling thread's
  std::size_t offset = 0;   // of the stream among the parameters
};
using Table = std::array<Entry, CUPTI_DRIVER_TRACE_CBID_SIZE>;

// The names are pasted, because cuda.h makes macros of many of them.
#define REPRISE_ENTRY(kind, name, member) \
  table[CUPTI_DRIVER_TRACE_CBID_##name] = {kind, Place::parameter, false, offsetof(name##_params, member)}
#define REPRISE_BOTH(kind, name, member) \
  REPRISE_ENTRY(kind, name, member);     \
  table[CUPTI_DRIVER_TRACE_CBID_##name##_ptsz] = {kind, Place::parameter, true, offsetof(name##_ptsz_params, member)}
#define REPRISE_WORK(name, member) REPRISE_BOTH(Kind::work, name, member)
#define REPRISE_USE(name) REPRISE_BOTH(Kind::other, name, hStream)
#define REPRISE_QUERY(name) REPRISE_BOTH(Kind::query, name, hStream)
#define REPRISE_DEFAULT(name)                                                            \
  table[CUPTI_DRIVER_TRACE_CBID_##name] = {Kind::work, Place::default_stream, false, 0}; \
  table[CUPTI_DRIVER_TRACE_CBID_##name##_ptds] = {Kind::work, Place::default_stream, true, 0}

constexpr Table make_table() {
  Table table{};
  // Work on a stream parameter. Each has a variant in which a null stream is the calling thread's (_ptsz).
  REPRISE_WORK(cuMemcpyAsync, hStream);
  REPRISE_WORK(cuMemcpyPeerAsync, hStream);
  REPRISE_WORK(cuMemcpyHtoDAsync_v2, hStream);
  REPRISE_WORK(cuMemcpyDtoHAsync_v2, hStream);
  REPRISE_WORK(cuMemcpyDtoDAsync_v2, hStream);
  REPRISE_WORK(cuMemcpyHtoAAsync_v2, hStream);
  REPRISE_WORK(cuMemcpyAtoHAsync_v2, hStream);
  REPRISE_WORK(cuMemcpy2DAsync_v2, hStream);
  REPRISE_WORK(cuMemcpy3DAsync_v2, hStream);
  REPRISE_WORK(cuMemcpy3DPeerAsync, hStream);
  REPRISE_WORK(cuMemsetD8Async, hStream);
  REPRISE_WORK(cuMemsetD16Async, hStream);
  REPRISE_WORK(cuMemsetD32Async, hStream);
  REPRISE_WORK(cuMemsetD2D8Async, hStream);
  REPRISE_WORK(cuMemsetD2D16Async, hStream);
  REPRISE_WORK(cuMemsetD2D32Async, hStream);
  REPRISE_WORK(cuMemMapArrayAsync, hStream);
  REPRISE_WORK(cuMemAllocAsync, hStream);
  REPRISE_WORK(cuMemAllocFromPoolAsync, hStream);
  REPRISE_WORK(cuMemFreeAsync, hStream);
  REPRISE_WORK(cuMemPrefetchAsync, hStream);
  REPRISE_WORK(cuMemPrefetchAsync_v2, hStream);
  REPRISE_WORK(cuStreamAddCallback, hStream);
  REPRISE_WORK(cuStreamAttachMemAsync, hStream);
  REPRISE_WORK(cuSignalExternalSemaphoresAsync, stream);
  REPRISE_WORK(cuWaitExternalSemaphoresAsync, stream);
  REPRISE_WORK(cuStreamWaitValue32, stream);
  REPRISE_WORK(cuStreamWaitValue32_v2, stream);
  REPRISE_WORK(cuStreamWaitValue64, stream);
  REPRISE_WORK(cuStreamWaitValue64_v2, stream);
  REPRISE_WORK(cuStreamWriteValue32, stream);
  REPRISE_WORK(cuStreamWriteValue32_v2, stream);
  REPRISE_WORK(cuStreamWriteValue64, stream);
  REPRISE_WORK(cuStreamWriteValue64_v2, stream);
  REPRISE_WORK(cuStreamBatchMemOp, stream);
  REPRISE_WORK(cuStreamBatchMemOp_v2, stream);
  REPRISE_WORK(cuLaunchKernel, hStream);
  REPRISE_WORK(cuLaunchCooperativeKernel, hStream);
  REPRISE_WORK(cuLaunchHostFunc, hStream);
  REPRISE_WORK(cuGraphLaunch, hStream);
#if CUDA_VERSION >= 12080
  REPRISE_WORK(cuMemcpyBatchAsync, hStream);
  REPRISE_WORK(cuMemcpy3DBatchAsync, hStream);
  REPRISE_WORK(cuMemBatchDecompressAsync, stream);
  REPRISE_USE(cuStreamGetCtx_v2);
  REPRISE_USE(cuStreamGetDevice);
#endif
#if CUDA_VERSION >= 13000
  REPRISE_WORK(cuMemcpyBatchAsync_v2, hStream);
  REPRISE_WORK(cuMemcpy3DBatchAsync_v2, hStream);
  REPRISE_WORK(cuMemPrefetchBatchAsync, hStream);
  REPRISE_WORK(cuMemDiscardBatchAsync, hStream);
  REPRISE_WORK(cuMemDiscardAndPrefetchBatchAsync, hStream);
#endif
  // Work on the default stream: the legacy one, or the calling thread's (_ptds).
  REPRISE_DEFAULT(cuMemcpy);
  REPRISE_DEFAULT(cuMemcpyPeer);
  REPRISE_DEFAULT(cuMemcpyHtoD_v2);
  REPRISE_DEFAULT(cuMemcpyDtoH_v2);
  REPRISE_DEFAULT(cuMemcpyDtoD_v2);
  REPRISE_DEFAULT(cuMemcpyDtoA_v2);
  REPRISE_DEFAULT(cuMemcpyAtoD_v2);
  REPRISE_DEFAULT(cuMemcpyHtoA_v2);
  REPRISE_DEFAULT(cuMemcpyAtoH_v2);
  REPRISE_DEFAULT(cuMemcpyAtoA_v2);
  REPRISE_DEFAULT(cuMemcpy2D_v2);
  REPRISE_DEFAULT(cuMemcpy2DUnaligned_v2);
  REPRISE_DEFAULT(cuMemcpy3D_v2);
  REPRISE_DEFAULT(cuMemcpy3DPeer);
  REPRISE_DEFAULT(cuMemsetD8_v2);
  REPRISE_DEFAULT(cuMemsetD16_v2);
  REPRISE_DEFAULT(cuMemsetD32_v2);
  REPRISE_DEFAULT(cuMemsetD2D8_v2);
  REPRISE_DEFAULT(cuMemsetD2D16_v2);
  REPRISE_DEFAULT(cuMemsetD2D32_v2);
  // Takes a stream, but is no work: nothing is missing in a graph.
  REPRISE_USE(cuStreamGetPriority);
  REPRISE_USE(cuStreamGetFlags);
  REPRISE_USE(cuStreamGetId);
  REPRISE_USE(cuStreamGetCtx);
  REPRISE_USE(cuStreamGetAttribute);
  REPRISE_USE(cuStreamSetAttribute);
  REPRISE_USE(cuStreamUpdateCaptureDependencies);
  REPRISE_USE(cuStreamUpdateCaptureDependencies_v2);
  REPRISE_USE(cuStreamWaitEvent);
  REPRISE_USE(cuStreamQuery);
  REPRISE_USE(cuStreamSynchronize);
  REPRISE_USE(cuEventRecord);
  REPRISE_USE(cuEventRecordWithFlags);
  REPRISE_USE(cuGraphUpload);
  REPRISE_QUERY(cuStreamIsCapturing);
  REPRISE_QUERY(cuStreamGetCaptureInfo);
  REPRISE_QUERY(cuStreamGetCaptureInfo_v2);
  REPRISE_QUERY(cuStreamGetCaptureInfo_v3);
  REPRISE_BOTH(Kind::capture, cuStreamBeginCapture, hStream);
  REPRISE_BOTH(Kind::capture, cuStreamBeginCapture_v2, hStream);
  REPRISE_BOTH(Kind::capture, cuStreamBeginCaptureToGraph, hStream);
  REPRISE_BOTH(Kind::end_capture, cuStreamEndCapture, hStream);
  REPRISE_ENTRY(Kind::end_stream, cuStreamDestroy, hStream);
  REPRISE_ENTRY(Kind::end_stream, cuStreamDestroy_v2, hStream);
  table[CUPTI_DRIVER_TRACE_CBID_cuLaunchKernelEx] = {Kind::work, Place::launch_config, false, 0};
  table[CUPTI_DRIVER_TRACE_CBID_cuLaunchKernelEx_ptsz] = {Kind::work, Place::launch_config, true, 0};
  table[CUPTI_DRIVER_TRACE_CBID_cuCtxDestroy].kind = Kind::end_context;
  table[CUPTI_DRIVER_TRACE_CBID_cuCtxDestroy_v2].kind = Kind::end_context;
  table[CUPTI_DRIVER_TRACE_CBID_cuDevicePrimaryCtxReset].kind = Kind::end_context;
  table[CUPTI_DRIVER_TRACE_CBID_cuDevicePrimaryCtxReset_v2].kind = Kind::end_context;
  table[CUPTI_DRIVER_TRACE_CBID_cuGetErrorName].kind = Kind::query;
  table[CUPTI_DRIVER_TRACE_CBID_cuGetErrorString].kind = Kind::query;
  return table;
}

constexpr Table table = make_table();

CUstream given_stream(const Entry& entry, const void* parameters) noexcept {
  if (parameters == nullptr) return nullptr;
  if (entry.place == Place::launch_config) {
    const CUlaunchConfig* const config = static_cast<const cuLaunchKernelEx_params*>(parameters)->config;
    return config != nullptr ? config->hStream : nullptr;
  }
  CUstream stream = nullptr;
  if (entry.place == Place::parameter)
    std::memcpy(&stream, static_cast<const char*>(parameters) + entry.offset, sizeof stream);
  return stream;
}

CaptureMode mode_of(CUpti_CallbackId id, const void* parameters) noexcept {
  const auto given = [&] {
    switch (id) {
      case CUPTI_DRIVER_TRACE_CBID_cuStreamBeginCapture_v2:
      case CUPTI_DRIVER_TRACE_CBID_cuStreamBeginCapture_v2_ptsz:
        return static_cast<const cuStreamBeginCapture_v2_params*>(parameters)->mode;
      case CUPTI_DRIVER_TRACE_CBID_cuStreamBeginCaptureToGraph:
      case CUPTI_DRIVER_TRACE_CBID_cuStreamBeginCaptureToGraph_ptsz:
        return static_cast<const cuStreamBeginCaptureToGraph_params*>(parameters)->mode;
      default:
        return CU_STREAM_CAPTURE_MODE_GLOBAL;  // the first version of the call takes none
    }
  };
  return static_cast<CaptureMode>(given());
}

}  // namespace

DriverCall driver_call(CUpti_CallbackId id, const CUpti_CallbackData& data) noexcept {
  DriverCall call;
  call.name = data.functionName != nullptr ? data.functionName : "a call of the driver";
  call.context = data.context;
  if (id >= table.size()) return call;  // of a later version of CUPTI
  const Entry& entry = table[id];
  call.kind = entry.kind;
  if (entry.place != Place::nowhere) {
    CUstream stream = given_stream(entry, data.functionParams);
    if (stream == nullptr && entry.per_thread) stream = CU_STREAM_PER_THREAD;
    call.stream = stream == CU_STREAM_LEGACY ? nullptr : stream;
  }
  if (entry.kind == Kind::capture) call.mode = mode_of(id, data.functionParams);
  return call;
}

}  // namespace reprise::backend::cuda
