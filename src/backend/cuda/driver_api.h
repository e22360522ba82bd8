// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cuda.h>
#include <cudaTypedefs.h>

#include <string>
#include <type_traits>

static_assert(CUDA_VERSION >= 12040 && CUDA_VERSION < 14000,
              "the CUDA backend is written for the headers of CUDA 12.4 to 13");

// Every entry point of the driver in use, with the version of CUDA that introduced the form in use, as 1000 * major +
// 10 * minor: exactly that one is looked up, even if there are newer ones. None is newer than 12.4, so that every
// driver from then on has all. The types have the versions in their names, and are the same in the headers of CUDA 12
// and 13.
#define REPRISE_CUDA_DRIVER_CALLS(X)          \
  X(cuDriverGetVersion, 2020)                 \
  X(cuInit, 2000)                             \
  X(cuDeviceGetCount, 2000)                   \
  X(cuDeviceGet, 2000)                        \
  X(cuDeviceGetName, 2000)                    \
  X(cuDeviceGetAttribute, 2000)               \
  X(cuDevicePrimaryCtxRetain, 7000)           \
  X(cuDeviceGetDefaultMemPool, 11020)         \
  X(cuDeviceGraphMemTrim, 11040)              \
  X(cuCtxGetCurrent, 4000)                    \
  X(cuCtxSetCurrent, 4000)                    \
  X(cuCtxPushCurrent, 4000)                   \
  X(cuCtxPopCurrent, 4000)                    \
  X(cuCtxSynchronize, 2000)                   \
  X(cuCtxGetStreamPriorityRange, 5050)        \
  X(cuMemGetInfo, 3020)                       \
  X(cuMemAlloc, 3020)                         \
  X(cuMemFree, 3020)                          \
  X(cuMemAllocAsync, 11020)                   \
  X(cuMemFreeAsync, 11020)                    \
  X(cuMemPoolTrimTo, 11020)                   \
  X(cuMemHostAlloc, 2020)                     \
  X(cuMemFreeHost, 2000)                      \
  X(cuPointerGetAttributes, 7000)             \
  X(cuMemGetAddressRange, 3020)               \
  X(cuMemcpy, 4000)                           \
  X(cuMemcpyAsync, 4000)                      \
  X(cuMemsetD8, 3020)                         \
  X(cuMemsetD16, 3020)                        \
  X(cuMemsetD32, 3020)                        \
  X(cuMemsetD8Async, 3020)                    \
  X(cuMemsetD16Async, 3020)                   \
  X(cuMemsetD32Async, 3020)                   \
  X(cuStreamCreateWithPriority, 5050)         \
  X(cuStreamDestroy, 4000)                    \
  X(cuStreamGetFlags, 5050)                   \
  X(cuStreamGetPriority, 5050)                \
  X(cuStreamGetId, 12000)                     \
  X(cuStreamSynchronize, 2000)                \
  X(cuStreamQuery, 2000)                      \
  X(cuStreamWaitEvent, 3020)                  \
  X(cuEventCreate, 2000)                      \
  X(cuEventDestroy, 4000)                     \
  X(cuEventRecordWithFlags, 11010)            \
  X(cuEventQuery, 2000)                       \
  X(cuEventSynchronize, 2000)                 \
  X(cuStreamBeginCapture, 10010)              \
  X(cuStreamBeginCaptureToGraph, 12030)       \
  X(cuStreamEndCapture, 10000)                \
  X(cuStreamIsCapturing, 10000)               \
  X(cuStreamGetCaptureInfo, 12030)            \
  X(cuStreamUpdateCaptureDependencies, 12030) \
  X(cuThreadExchangeStreamCaptureMode, 10010) \
  X(cuLibraryLoadData, 12000)                 \
  X(cuLibraryGetKernel, 12000)                \
  X(cuKernelGetFunction, 12000)               \
  X(cuFuncGetName, 12030)                     \
  X(cuFuncGetParamInfo, 12040)                \
  X(cuFuncSetAttribute, 9000)                 \
  X(cuLaunchKernelEx, 11060)                  \
  X(cuLaunchHostFunc, 10000)                  \
  X(cuGraphCreate, 10000)                     \
  X(cuGraphDestroy, 10000)                    \
  X(cuGraphClone, 10000)                      \
  X(cuGraphNodeFindInClone, 10000)            \
  X(cuGraphAddNode, 12030)                    \
  X(cuGraphDestroyNode, 10000)                \
  X(cuGraphGetNodes, 10000)                   \
  X(cuGraphGetEdges, 12030)                   \
  X(cuGraphAddDependencies, 12030)            \
  X(cuGraphRemoveDependencies, 12030)         \
  X(cuGraphNodeGetType, 10000)                \
  X(cuGraphKernelNodeGetParams, 12000)        \
  X(cuGraphKernelNodeGetAttribute, 11000)     \
  X(cuGraphKernelNodeSetAttribute, 11000)     \
  X(cuGraphMemcpyNodeGetParams, 10000)        \
  X(cuGraphMemsetNodeGetParams, 10000)        \
  X(cuGraphHostNodeGetParams, 10000)          \
  X(cuGraphChildGraphNodeGetGraph, 10000)     \
  X(cuGraphEventRecordNodeGetEvent, 11010)    \
  X(cuGraphEventWaitNodeGetEvent, 11010)      \
  X(cuGraphMemAllocNodeGetParams, 11040)      \
  X(cuGraphMemFreeNodeGetParams, 11040)       \
  X(cuGraphNodeSetParams, 12020)              \
  X(cuGraphConditionalHandleCreate, 12030)    \
  X(cuGraphDebugDotPrint, 11030)              \
  X(cuGraphInstantiateWithParams, 12000)      \
  X(cuGraphExecDestroy, 10000)                \
  X(cuGraphUpload, 11010)                     \
  X(cuGraphLaunch, 10000)                     \
  X(cuGraphExecUpdate, 12000)                 \
  X(cuGraphExecNodeSetParams, 12020)          \
  X(cuGraphNodeSetEnabled, 11060)             \
  X(cuGraphNodeGetEnabled, 11060)             \
  X(cuUserObjectCreate, 11030)                \
  X(cuUserObjectRetain, 11030)                \
  X(cuUserObjectRelease, 11030)               \
  X(cuGraphRetainUserObject, 11030)           \
  X(cuGraphReleaseUserObject, 11030)

// Entry points that a driver may lack, and the headers too: their type comes third.
#define REPRISE_CUDA_OPTIONAL_DRIVER_CALLS(X)                                         \
  X(cuEventElapsedTime, 12080, CUresult(float*, CUevent, CUevent))                    \
  X(cuStreamGetDevice, 12080, CUresult(CUstream, CUdevice*))                          \
  X(cuLogsCurrent, 12090, CUresult(LogIterator*, unsigned))                           \
  X(cuLogsDumpToMemory, 12090, CUresult(LogIterator*, char*, std::size_t*, unsigned)) \
  X(cuGraphNodeGetToolsId, 13010, CUresult(CUgraphNode, unsigned long long*))         \
  X(cuGraphExecGetId, 13010, CUresult(CUgraphExec, unsigned*))

namespace reprise::backend::cuda {

/// The oldest driver that can be used, and the oldest that has conditional nodes of type `switch`, and of type `if`
/// with two bodies.
inline constexpr int oldest_driver = 12040, first_driver_with_switch = 12080;

/// "12.4" for 12040.
std::string version_text(int version);

/// Why a driver of this version (0: there is none) lacks conditional nodes that came with CUDA 12.8, and what to do;
/// empty if it has them.
std::string branches_unavailable(int version);

/// A position in the driver's log: CUlogIterator, which headers before CUDA 12.9 lack.
using LogIterator = unsigned;
#if CUDA_VERSION >= 12090
static_assert(std::is_same_v<LogIterator, CUlogIterator>);
#endif

/// CUDA's driver, opened at run time, so that CUDA is not linked and programs run without it.
///
/// Opened once in a process and never closed: the driver may have its own threads. Constant afterwards: read by any
/// thread.
struct DriverApi {
  // cuda.h makes macros of many names (cuMemAlloc is cuMemAlloc_v2): a member is declared, and used, through the same
  // macro.
#define REPRISE_CUDA_MEMBER(name, version) PFN_##name##_v##version name = nullptr;
  REPRISE_CUDA_DRIVER_CALLS(REPRISE_CUDA_MEMBER)
#undef REPRISE_CUDA_MEMBER

  // Null if the driver lacks them, except for cuEventElapsedTime, whose older form is found then.
#define REPRISE_CUDA_OPTIONAL_MEMBER(name, version, type) std::add_pointer_t<type> name = nullptr;
  REPRISE_CUDA_OPTIONAL_DRIVER_CALLS(REPRISE_CUDA_OPTIONAL_MEMBER)
#undef REPRISE_CUDA_OPTIONAL_MEMBER

  int version = 0;  ///< of CUDA, that the driver reports; 0 if it is not known
};

/// The result of opening the driver.
struct OpenedDriver {
  DriverApi api;
  int device_count = 0;
  std::string unavailable;   ///< why there are no devices, without a full stop; empty if there are
  bool passes_over = false;  ///< the driver has devices, and cannot be used
};

/// Opens and initialises the driver at the first call.
const OpenedDriver& opened_driver();

}  // namespace reprise::backend::cuda
