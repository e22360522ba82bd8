// SPDX-License-Identifier: Apache-2.0
#include "backend/cuda/cupti/driver_calls.h"

#include <cupti.h>

#include <array>
#include <cstddef>
#include <cstring>

namespace reprise::backend::cuda {
namespace {

// Work on a stream parameter. Each has a variant in which a null stream is the calling thread's (_ptsz).
#define REPRISE_STREAM_WORK(X)               \
  X(cuMemcpyAsync, hStream)                  \
  X(cuMemcpyPeerAsync, hStream)              \
  X(cuMemcpyHtoDAsync_v2, hStream)           \
  X(cuMemcpyDtoHAsync_v2, hStream)           \
  X(cuMemcpyDtoDAsync_v2, hStream)           \
  X(cuMemcpyHtoAAsync_v2, hStream)           \
  X(cuMemcpyAtoHAsync_v2, hStream)           \
  X(cuMemcpy2DAsync_v2, hStream)             \
  X(cuMemcpy3DAsync_v2, hStream)             \
  X(cuMemcpy3DPeerAsync, hStream)            \
  X(cuMemsetD8Async, hStream)                \
  X(cuMemsetD16Async, hStream)               \
  X(cuMemsetD32Async, hStream)               \
  X(cuMemsetD2D8Async, hStream)              \
  X(cuMemsetD2D16Async, hStream)             \
  X(cuMemsetD2D32Async, hStream)             \
  X(cuMemMapArrayAsync, hStream)             \
  X(cuMemAllocAsync, hStream)                \
  X(cuMemAllocFromPoolAsync, hStream)        \
  X(cuMemFreeAsync, hStream)                 \
  X(cuMemPrefetchAsync, hStream)             \
  X(cuMemPrefetchAsync_v2, hStream)          \
  X(cuStreamAddCallback, hStream)            \
  X(cuStreamAttachMemAsync, hStream)         \
  X(cuSignalExternalSemaphoresAsync, stream) \
  X(cuWaitExternalSemaphoresAsync, stream)   \
  X(cuStreamWaitValue32, stream)             \
  X(cuStreamWaitValue32_v2, stream)          \
  X(cuStreamWaitValue64, stream)             \
  X(cuStreamWaitValue64_v2, stream)          \
  X(cuStreamWriteValue32, stream)            \
  X(cuStreamWriteValue32_v2, stream)         \
  X(cuStreamWriteValue64, stream)            \
  X(cuStreamWriteValue64_v2, stream)         \
  X(cuStreamBatchMemOp, stream)              \
  X(cuStreamBatchMemOp_v2, stream)           \
  X(cuLaunchKernel, hStream)                 \
  X(cuLaunchCooperativeKernel, hStream)      \
  X(cuLaunchHostFunc, hStream)               \
  X(cuGraphLaunch, hStream)

// The same of newer headers.
#if CUDA_VERSION >= 12080
#define REPRISE_STREAM_WORK_OF_12_8(X) \
  X(cuMemcpyBatchAsync, hStream)       \
  X(cuMemcpy3DBatchAsync, hStream)     \
  X(cuMemBatchDecompressAsync, stream)
#else
#define REPRISE_STREAM_WORK_OF_12_8(X)
#endif
#if CUDA_VERSION >= 13000
#define REPRISE_STREAM_WORK_OF_13_0(X) \
  X(cuMemcpyBatchAsync_v2, hStream)    \
  X(cuMemcpy3DBatchAsync_v2, hStream)  \
  X(cuMemPrefetchBatchAsync, hStream)  \
  X(cuMemDiscardBatchAsync, hStream)   \
  X(cuMemDiscardAndPrefetchBatchAsync, hStream)
#else
#define REPRISE_STREAM_WORK_OF_13_0(X)
#endif

// Work on the default stream: the legacy one, or the calling thread's (_ptds).
#define REPRISE_DEFAULT_STREAM_WORK(X) \
  X(cuMemcpy)                          \
  X(cuMemcpyPeer)                      \
  X(cuMemcpyHtoD_v2)                   \
  X(cuMemcpyDtoH_v2)                   \
  X(cuMemcpyDtoD_v2)                   \
  X(cuMemcpyDtoA_v2)                   \
  X(cuMemcpyAtoD_v2)                   \
  X(cuMemcpyHtoA_v2)                   \
  X(cuMemcpyAtoH_v2)                   \
  X(cuMemcpyAtoA_v2)                   \
  X(cuMemcpy2D_v2)                     \
  X(cuMemcpy2DUnaligned_v2)            \
  X(cuMemcpy3D_v2)                     \
  X(cuMemcpy3DPeer)                    \
  X(cuMemsetD8_v2)                     \
  X(cuMemsetD16_v2)                    \
  X(cuMemsetD32_v2)                    \
  X(cuMemsetD2D8_v2)                   \
  X(cuMemsetD2D16_v2)                  \
  X(cuMemsetD2D32_v2)

// Takes a stream, but is no work: nothing is missing in a graph.
#define REPRISE_STREAM_USE(X)             \
  X(cuStreamGetPriority)                  \
  X(cuStreamGetFlags)                     \
  X(cuStreamGetId)                        \
  X(cuStreamGetCtx)                       \
  X(cuStreamGetAttribute)                 \
  X(cuStreamSetAttribute)                 \
  X(cuStreamUpdateCaptureDependencies)    \
  X(cuStreamUpdateCaptureDependencies_v2) \
  X(cuStreamWaitEvent)                    \
  X(cuStreamQuery)                        \
  X(cuStreamSynchronize)                  \
  X(cuEventRecord)                        \
  X(cuEventRecordWithFlags)               \
  X(cuGraphUpload)

#if CUDA_VERSION >= 12080
#define REPRISE_STREAM_USE_OF_12_8(X) \
  X(cuStreamGetCtx_v2)                \
  X(cuStreamGetDevice)
#else
#define REPRISE_STREAM_USE_OF_12_8(X)
#endif

#define REPRISE_CAPTURE_QUERIES(X) \
  X(cuStreamIsCapturing)           \
  X(cuStreamGetCaptureInfo)        \
  X(cuStreamGetCaptureInfo_v2)     \
  X(cuStreamGetCaptureInfo_v3)

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
  table[CUPTI_DRIVER_TRACE_CBID_##name] = {kind, Place::parameter, false, offsetof(name##_params, member)};
#define REPRISE_BOTH(kind, name, member) \
  REPRISE_ENTRY(kind, name, member)      \
  table[CUPTI_DRIVER_TRACE_CBID_##name##_ptsz] = {kind, Place::parameter, true, offsetof(name##_ptsz_params, member)};
#define REPRISE_WORK(name, member) REPRISE_BOTH(Kind::work, name, member)
#define REPRISE_USE(name) REPRISE_BOTH(Kind::other, name, hStream)
#define REPRISE_QUERY(name) REPRISE_BOTH(Kind::query, name, hStream)
#define REPRISE_DEFAULT(name)                                                            \
  table[CUPTI_DRIVER_TRACE_CBID_##name] = {Kind::work, Place::default_stream, false, 0}; \
  table[CUPTI_DRIVER_TRACE_CBID_##name##_ptds] = {Kind::work, Place::default_stream, true, 0};

constexpr Table make_table() {
  Table table{};
  REPRISE_STREAM_WORK(REPRISE_WORK)
  REPRISE_STREAM_WORK_OF_12_8(REPRISE_WORK)
  REPRISE_STREAM_WORK_OF_13_0(REPRISE_WORK)
  REPRISE_DEFAULT_STREAM_WORK(REPRISE_DEFAULT)
  REPRISE_STREAM_USE(REPRISE_USE)
  REPRISE_STREAM_USE_OF_12_8(REPRISE_USE)
  REPRISE_CAPTURE_QUERIES(REPRISE_QUERY)
  REPRISE_BOTH(Kind::capture, cuStreamBeginCapture, hStream)
  REPRISE_BOTH(Kind::capture, cuStreamBeginCapture_v2, hStream)
  REPRISE_BOTH(Kind::capture, cuStreamBeginCaptureToGraph, hStream)
  REPRISE_BOTH(Kind::end_capture, cuStreamEndCapture, hStream)
  REPRISE_ENTRY(Kind::end_stream, cuStreamDestroy, hStream)
  REPRISE_ENTRY(Kind::end_stream, cuStreamDestroy_v2, hStream)
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
