// SPDX-License-Identifier: Apache-2.0
#include "backend/rules/cuda_calls.h"

#include <algorithm>
#include <iterator>

namespace reprise::backend {
namespace {

// Calls that a capture forbids or changes; all others were seen to be always allowed, or were not measured. Sorted by
// class, in the order of CallClass, then by the name in the driver; calls of the runtime alone come last. Each was
// measured, by one of its two names: the runtime's calls make the driver's. A test checks that.
constexpr CudaCall calls_table[] = {
    // clang-format off
    {"cuArray3DCreate", "cudaMalloc3DArray", CallClass::potentially_unsafe},
    {"cuArrayCreate", "cudaMallocArray", CallClass::potentially_unsafe},
    {"cuArrayDestroy", "cudaFreeArray", CallClass::potentially_unsafe},
    {"cuCtxSetCacheConfig", "cudaDeviceSetCacheConfig", CallClass::potentially_unsafe},
    {"cuCtxSetLimit", "cudaDeviceSetLimit", CallClass::potentially_unsafe},
    {"cuDeviceSetMemPool", "cudaDeviceSetMemPool", CallClass::potentially_unsafe},
    {"cuGraphExecDestroy", "cudaGraphExecDestroy", CallClass::potentially_unsafe},
    {"cuGraphInstantiate", "cudaGraphInstantiate", CallClass::potentially_unsafe},
    {"cuGraphInstantiateWithParams", "cudaGraphInstantiateWithParams", CallClass::potentially_unsafe},
    {"cuLibraryUnload", "cudaLibraryUnload", CallClass::potentially_unsafe},
    {"cuMemAdvise", "cudaMemAdvise", CallClass::potentially_unsafe},
    {"cuMemAlloc", "cudaMalloc", CallClass::potentially_unsafe},
    {"cuMemAllocHost", "cudaMallocHost", CallClass::potentially_unsafe},
    {"cuMemAllocManaged", "cudaMallocManaged", CallClass::potentially_unsafe},
    {"cuMemAllocPitch", "cudaMallocPitch", CallClass::potentially_unsafe},
    {"cuMemFree", "cudaFree", CallClass::potentially_unsafe},
    {"cuMemFreeHost", "cudaFreeHost", CallClass::potentially_unsafe},
    {"cuMemHostAlloc", "cudaHostAlloc", CallClass::potentially_unsafe},
    {"cuMemHostRegister", "cudaHostRegister", CallClass::potentially_unsafe},
    {"cuMemHostUnregister", "cudaHostUnregister", CallClass::potentially_unsafe},
    {"cuMemPoolCreate", "cudaMemPoolCreate", CallClass::potentially_unsafe},
    {"cuMemPoolDestroy", "cudaMemPoolDestroy", CallClass::potentially_unsafe},
    {"cuMemPoolGetAccess", "cudaMemPoolGetAccess", CallClass::potentially_unsafe},
    {"cuMemPoolGetAttribute", "cudaMemPoolGetAttribute", CallClass::potentially_unsafe},
    {"cuMemPoolSetAccess", "cudaMemPoolSetAccess", CallClass::potentially_unsafe},
    {"cuMemPoolSetAttribute", "cudaMemPoolSetAttribute", CallClass::potentially_unsafe},
    {"cuMemPoolTrimTo", "cudaMemPoolTrimTo", CallClass::potentially_unsafe},
    {"cuMipmappedArrayCreate", "cudaMallocMipmappedArray", CallClass::potentially_unsafe},
    {"cuMipmappedArrayDestroy", "cudaFreeMipmappedArray", CallClass::potentially_unsafe},
    {"cuModuleUnload", "", CallClass::potentially_unsafe},
    {"cuPointerSetAttribute", "", CallClass::potentially_unsafe},
    {"cuProfilerStart", "cudaProfilerStart", CallClass::potentially_unsafe},
    {"cuProfilerStop", "cudaProfilerStop", CallClass::potentially_unsafe},
    {"cuSurfObjectCreate", "cudaCreateSurfaceObject", CallClass::potentially_unsafe},
    {"cuSurfObjectDestroy", "cudaDestroySurfaceObject", CallClass::potentially_unsafe},
    {"cuTexObjectCreate", "cudaCreateTextureObject", CallClass::potentially_unsafe},
    {"cuTexObjectDestroy", "cudaDestroyTextureObject", CallClass::potentially_unsafe},

    {"cuEventRecord", "cudaEventRecord", CallClass::stream_work},
    {"cuEventRecordWithFlags", "cudaEventRecordWithFlags", CallClass::stream_work},
    {"cuLaunchCooperativeKernel", "cudaLaunchCooperativeKernel", CallClass::stream_work},
    {"cuLaunchHostFunc", "cudaLaunchHostFunc", CallClass::stream_work},
    {"cuLaunchKernel", "cudaLaunchKernel", CallClass::stream_work},
    {"cuLaunchKernelEx", "cudaLaunchKernelExC", CallClass::stream_work},
    {"cuMemcpy", "cudaMemcpy", CallClass::stream_work},
    {"cuMemcpy2D", "", CallClass::stream_work},
    {"cuMemcpy2DAsync", "cudaMemcpy2DAsync", CallClass::stream_work},
    {"cuMemcpy2DUnaligned", "cudaMemcpy2D", CallClass::stream_work},
    {"cuMemcpy3D", "cudaMemcpy3D", CallClass::stream_work},
    {"cuMemcpy3DAsync", "cudaMemcpy3DAsync", CallClass::stream_work},
    {"cuMemcpyAsync", "cudaMemcpyAsync", CallClass::stream_work},
    {"cuMemcpyAtoA", "", CallClass::stream_work},
    {"cuMemcpyAtoD", "", CallClass::stream_work},
    {"cuMemcpyAtoH", "", CallClass::stream_work},
    {"cuMemcpyAtoHAsync", "", CallClass::stream_work},
    {"cuMemcpyDtoA", "", CallClass::stream_work},
    {"cuMemcpyDtoD", "", CallClass::stream_work},
    {"cuMemcpyDtoDAsync", "", CallClass::stream_work},
    {"cuMemcpyDtoH", "", CallClass::stream_work},
    {"cuMemcpyDtoHAsync", "", CallClass::stream_work},
    {"cuMemcpyHtoA", "", CallClass::stream_work},
    {"cuMemcpyHtoAAsync", "", CallClass::stream_work},
    {"cuMemcpyHtoD", "", CallClass::stream_work},
    {"cuMemcpyHtoDAsync", "", CallClass::stream_work},
    {"cuMemcpyPeer", "cudaMemcpyPeer", CallClass::stream_work},
    {"cuMemsetD16", "", CallClass::stream_work},
    {"cuMemsetD16Async", "", CallClass::stream_work},
    {"cuMemsetD2D16", "", CallClass::stream_work},
    {"cuMemsetD2D16Async", "", CallClass::stream_work},
    {"cuMemsetD2D32", "", CallClass::stream_work},
    {"cuMemsetD2D32Async", "", CallClass::stream_work},
    {"cuMemsetD2D8", "cudaMemset2D", CallClass::stream_work},
    {"cuMemsetD2D8Async", "cudaMemset2DAsync", CallClass::stream_work},
    {"cuMemsetD32", "", CallClass::stream_work},
    {"cuMemsetD32Async", "", CallClass::stream_work},
    {"cuMemsetD8", "cudaMemset", CallClass::stream_work},
    {"cuMemsetD8Async", "cudaMemsetAsync", CallClass::stream_work},
    {"cuStreamBatchMemOp", "", CallClass::stream_work},
    {"cuStreamCopyAttributes", "cudaStreamCopyAttributes", CallClass::stream_work},
    {"cuStreamGetAttribute", "cudaStreamGetAttribute", CallClass::stream_work},
    {"cuStreamGetCtx", "", CallClass::stream_work},
    {"cuStreamGetGreenCtx", "", CallClass::stream_work},
    {"cuStreamGetPriority", "cudaStreamGetPriority", CallClass::stream_work},
    {"cuStreamSetAttribute", "cudaStreamSetAttribute", CallClass::stream_work},
    {"cuStreamWaitValue32", "", CallClass::stream_work},
    {"cuStreamWaitValue64", "", CallClass::stream_work},
    {"cuStreamWriteValue32", "", CallClass::stream_work},
    {"cuStreamWriteValue64", "", CallClass::stream_work},
    {"", "cudaMemcpy2DFromArray", CallClass::stream_work},
    {"", "cudaMemcpy2DFromArrayAsync", CallClass::stream_work},
    {"", "cudaMemcpy2DToArray", CallClass::stream_work},
    {"", "cudaMemcpy2DToArrayAsync", CallClass::stream_work},
    {"", "cudaMemcpyFromSymbol", CallClass::stream_work},
    {"", "cudaMemcpyFromSymbolAsync", CallClass::stream_work},
    {"", "cudaMemcpyToSymbol", CallClass::stream_work},
    {"", "cudaMemcpyToSymbolAsync", CallClass::stream_work},
    {"", "cudaMemset3D", CallClass::stream_work},
    {"", "cudaMemset3DAsync", CallClass::stream_work},

    {"cuGraphLaunch", "cudaGraphLaunch", CallClass::stream_launch_only},
    {"cuGraphUpload", "cudaGraphUpload", CallClass::stream_launch_only},
    {"cuMemPrefetchAsync", "cudaMemPrefetchAsync", CallClass::stream_launch_only},
    {"cuMemcpyPeerAsync", "cudaMemcpyPeerAsync", CallClass::stream_launch_only},
    {"cuStreamAddCallback", "cudaStreamAddCallback", CallClass::stream_launch_only},

    {"cuStreamAttachMemAsync", "cudaStreamAttachMemAsync", CallClass::stream_unsafe},

    {"cuMemcpy3DBatchAsync", "cudaMemcpy3DBatchAsync", CallClass::stream_batch},
    {"cuMemcpyBatchAsync", "cudaMemcpyBatchAsync", CallClass::stream_batch},

    {"cuMemAllocAsync", "cudaMallocAsync", CallClass::stream_allocation},
    {"cuMemAllocFromPoolAsync", "cudaMallocFromPoolAsync", CallClass::stream_allocation},
    {"cuMemFreeAsync", "cudaFreeAsync", CallClass::stream_allocation},

    {"cuStreamGetDevice", "cudaStreamGetDevice", CallClass::stream_property},
    {"cuStreamGetFlags", "cudaStreamGetFlags", CallClass::stream_property},
    {"cuStreamGetId", "cudaStreamGetId", CallClass::stream_property},

    {"cuStreamQuery", "cudaStreamQuery", CallClass::stream_wait},
    {"cuStreamSynchronize", "cudaStreamSynchronize", CallClass::stream_wait},

    {"cuEventQuery", "cudaEventQuery", CallClass::event_wait},
    {"cuEventSynchronize", "cudaEventSynchronize", CallClass::event_wait},

    {"cuStreamWaitEvent", "cudaStreamWaitEvent", CallClass::join},

    {"cuCtxRecordEvent", "", CallClass::device_wait},
    {"cuCtxSynchronize", "cudaDeviceSynchronize", CallClass::device_wait},
    {"cuCtxWaitEvent", "", CallClass::device_wait},

    {"cuStreamGetCaptureInfo", "cudaStreamGetCaptureInfo", CallClass::capture_query},
    {"cuStreamIsCapturing", "cudaStreamIsCapturing", CallClass::capture_query},

    {"cuStreamBeginCapture", "cudaStreamBeginCapture", CallClass::capture_begin},
    {"cuStreamBeginCaptureToGraph", "cudaStreamBeginCaptureToGraph", CallClass::capture_begin},

    {"cuStreamUpdateCaptureDependencies", "cudaStreamUpdateCaptureDependencies", CallClass::capture_update},

    {"cuStreamEndCapture", "cudaStreamEndCapture", CallClass::capture_end},
    // clang-format on
};

// Read at each call on the host device.
constexpr CallClass class_of_driver_call(std::string_view name) {
  const auto* const found =
      std::find_if(std::begin(calls_table), std::end(calls_table), [&](const CudaCall& c) { return c.driver == name; });
  return found != std::end(calls_table) ? found->call_class : CallClass::always_allowed;
}
constexpr CallClass class_of_call[] = {
#define REPRISE_CALL(name, cuda, parameters, arguments) class_of_driver_call(cuda),
#include "backend/calls.def"
};

bool is_digit(char c) {
  return c >= '0' && c <= '9';
}

// Strips suffixes for the version or the default stream: `cuMemcpyAsync_v2_ptsz`, `cudaMalloc_v3020`.
std::string_view plain_name(std::string_view name) {
  for (bool shorter = true; shorter;) {
    shorter = false;
    for (const std::string_view end : {"_ptsz", "_ptds"})
      if (name.ends_with(end)) {
        name.remove_suffix(end.size());
        shorter = true;
      }
    const std::size_t version = name.rfind("_v");
    if (version != std::string_view::npos && version + 2 < name.size() &&
        std::all_of(name.begin() + static_cast<std::ptrdiff_t>(version) + 2, name.end(), is_digit)) {
      name = name.substr(0, version);
      shorter = true;
    }
  }
  return name;
}

}  // namespace

CallClass class_of(Call call) noexcept {
  return class_of_call[static_cast<std::size_t>(call)];
}

std::optional<CallClass> class_of(std::string_view cuda_name) noexcept {
  const CudaCall* const call = find_cuda_call(cuda_name);
  return call != nullptr ? std::optional(call->call_class) : std::nullopt;
}

std::span<const CudaCall> cuda_calls() noexcept {
  return calls_table;
}

const CudaCall* find_cuda_call(std::string_view name) noexcept {
  name = plain_name(name);
  if (name.empty()) return nullptr;
  const auto* const found = std::find_if(std::begin(calls_table), std::end(calls_table), [&](const CudaCall& call) {
    return call.driver == name || call.runtime == name;
  });
  return found != std::end(calls_table) ? found : nullptr;
}

}  // namespace reprise::backend
