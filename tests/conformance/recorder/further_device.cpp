// SPDX-License-Identifier: Apache-2.0
#if defined(__CUDACC__)

#include "tests/conformance/recorder/further_calls.h"

// Further calls of the recorder: devices and contexts.

namespace reprise::backend::test {

namespace {

void add_devices(std::vector<RecordedCall>& calls) {
  add(calls, "cuInit", [](State&) { return CU(cuInit)(0); });
  add(calls, "cuDriverGetVersion", [](State&) {
    int version = 0;
    return CU(cuDriverGetVersion)(&version);
  });
  add(calls, "cuDeviceGet", [](State& x) {
    CUdevice device = 0;
    return CU(cuDeviceGet)(&device, x.backend.index());
  });
  add(calls, "cuDeviceGetCount", [](State&) {
    int count = 0;
    return CU(cuDeviceGetCount)(&count);
  });
  add(calls, "cuDeviceGetName", [](State& x) {
    char name[64];
    return CU(cuDeviceGetName)(name, sizeof(name), things(x).device);
  });
  add(calls, "cuDeviceGetUuid", [](State& x) {
    CUuuid uuid;
    return CU(cuDeviceGetUuid)(&uuid, things(x).device);
  });
  add(calls, "cuDeviceGetAttribute", [](State& x) {
    int value = 0;
    return CU(cuDeviceGetAttribute)(&value, CU_DEVICE_ATTRIBUTE_WARP_SIZE, things(x).device);
  });
  add(calls, "cuDeviceTotalMem", [](State& x) {
    std::size_t bytes = 0;
    return CU(cuDeviceTotalMem)(&bytes, things(x).device);
  });
  add(calls, "cuDeviceGetPCIBusId", [](State& x) {
    char id[32];
    return CU(cuDeviceGetPCIBusId)(id, sizeof(id), things(x).device);
  });
  add(calls, "cuDeviceCanAccessPeer", [](State& x) {
    int count = 0, can = 0;
    (void)CU(cuDeviceGetCount)(&count);
    return CU(cuDeviceCanAccessPeer)(&can, things(x).device, (things(x).device + 1) % count);  // itself if it is alone
  });
}

void add_primary_contexts(std::vector<RecordedCall>& calls) {
  add(calls, "cuDevicePrimaryCtxGetState", [](State& x) {
    unsigned flags = 0;
    int active = 0;
    return CU(cuDevicePrimaryCtxGetState)(things(x).device, &flags, &active);
  });
  add(calls, "cuDevicePrimaryCtxRetain", [](State& x) {
    CUcontext context = nullptr;
    return then(CU(cuDevicePrimaryCtxRetain)(&context, things(x).device), x,
                [&] { (void)CU(cuDevicePrimaryCtxRelease)(things(x).device); });
  });
  add(
      calls, "cuDevicePrimaryCtxRelease", [](State& x) { return CU(cuDevicePrimaryCtxRelease)(things(x).device); },
      [](State& x) {
        CUcontext context = nullptr;
        require_cuda(CU(cuDevicePrimaryCtxRetain)(&context, things(x).device), "cuDevicePrimaryCtxRetain");
      });
  add(calls, "cuDeviceGetDevResource", [](State& x) {
    CUdevResource resource{};
    return CU(cuDeviceGetDevResource)(things(x).device, &resource, CU_DEV_RESOURCE_TYPE_SM);
  });
  add(calls, "cuGetErrorName", [](State&) {
    const char* name = nullptr;
    return CU(cuGetErrorName)(CUDA_ERROR_INVALID_VALUE, &name);
  });
  add(calls, "cuGetErrorString", [](State&) {
    const char* text = nullptr;
    return CU(cuGetErrorString)(CUDA_ERROR_INVALID_VALUE, &text);
  });
  add(calls, "cuGetProcAddress", [](State&) {
    void* found = nullptr;
    CUdriverProcAddressQueryResult status{};
    return CU(cuGetProcAddress)("cuMemAlloc", &found, 13000, CU_GET_PROC_ADDRESS_DEFAULT, &status);
  });
}

void add_context_questions(std::vector<RecordedCall>& calls) {
  add(calls, "cuCtxGetCurrent", [](State&) {
    CUcontext context = nullptr;
    return CU(cuCtxGetCurrent)(&context);
  });
  add(calls, "cuCtxGetDevice", [](State&) {
    CUdevice device = 0;
    return CU(cuCtxGetDevice)(&device);
  });
  add(calls, "cuCtxGetFlags", [](State&) {
    unsigned flags = 0;
    return CU(cuCtxGetFlags)(&flags);
  });
  add(calls, "cuCtxGetId", [](State& x) {
    unsigned long long id = 0;
    return CU(cuCtxGetId)(things(x).context, &id);
  });
  add(calls, "cuCtxGetApiVersion", [](State& x) {
    unsigned version = 0;
    return CU(cuCtxGetApiVersion)(things(x).context, &version);
  });
  add(calls, "cuCtxGetLimit", [](State&) {
    std::size_t value = 0;
    return CU(cuCtxGetLimit)(&value, CU_LIMIT_STACK_SIZE);
  });
  add(calls, "cuCtxGetCacheConfig", [](State&) {
    CUfunc_cache config{};
    return CU(cuCtxGetCacheConfig)(&config);
  });
  add(calls, "cuCtxGetDevResource", [](State& x) {
    CUdevResource resource{};
    return CU(cuCtxGetDevResource)(things(x).context, &resource, CU_DEV_RESOURCE_TYPE_SM);
  });
}

void add_context_changes(std::vector<RecordedCall>& calls) {
  add(calls, "cuCtxSetCurrent", [](State& x) { return CU(cuCtxSetCurrent)(things(x).context); });
  add(calls, "cuCtxPushCurrent", [](State& x) {
    return then(CU(cuCtxPushCurrent)(things(x).context), x, [&] {
      CUcontext popped = nullptr;
      (void)CU(cuCtxPopCurrent)(&popped);
    });
  });
  add(calls, "cuCtxPopCurrent", [](State& x) {
    CUcontext popped = nullptr;
    return then(CU(cuCtxPopCurrent)(&popped), x, [&] { (void)CU(cuCtxPushCurrent)(popped); });
  });
  // To what it is.
  add(calls, "cuCtxSetLimit", [](State&) {
    std::size_t value = 0;
    (void)CU(cuCtxGetLimit)(&value, CU_LIMIT_STACK_SIZE);
    return CU(cuCtxSetLimit)(CU_LIMIT_STACK_SIZE, value);
  });
  add(calls, "cuCtxSetLimit of printf", [](State&) {
    std::size_t value = 0;
    (void)CU(cuCtxGetLimit)(&value, CU_LIMIT_PRINTF_FIFO_SIZE);
    return CU(cuCtxSetLimit)(CU_LIMIT_PRINTF_FIFO_SIZE, value);
  });
  add(calls, "cuCtxSetCacheConfig", [](State&) { return CU(cuCtxSetCacheConfig)(CU_FUNC_CACHE_PREFER_NONE); });
  add(calls, "cuCtxResetPersistingL2Cache", [](State&) { return CU(cuCtxResetPersistingL2Cache)(); });
}

}  // namespace

void add_device_questions(std::vector<RecordedCall>& calls) {
  add_devices(calls);
  add_primary_contexts(calls);
  add_context_questions(calls);
  add_context_changes(calls);
}

}  // namespace reprise::backend::test

#endif
