// SPDX-License-Identifier: Apache-2.0
#if defined(__CUDACC__)

#include <cudaProfiler.h>

#include <map>

#include "tests/conformance/recorder/further_calls.h"

// What further calls of the recorder work on.

namespace reprise::backend::test {
const char* const module_text = R"(.version 8.0
.target sm_80
.address_size 64
.visible .global .align 4 .u32 word;
.visible .entry nothing() { ret; }
)";

CUmemLocation on_device(const Things& t) {
  CUmemLocation location{};
  location.type = CU_MEM_LOCATION_TYPE_DEVICE;
  location.id = t.device;
  return location;
}

CUmemPoolProps pool_properties(const Things& t) {
  CUmemPoolProps properties{};
  properties.allocType = CU_MEM_ALLOCATION_TYPE_PINNED;
  properties.location = on_device(t);
  return properties;
}

CUmemAllocationProp physical_properties(const Things& t) {
  CUmemAllocationProp properties{};
  properties.type = CU_MEM_ALLOCATION_TYPE_PINNED;
  properties.location = on_device(t);
  return properties;
}

CUDA_ARRAY_DESCRIPTOR array_description() {
  CUDA_ARRAY_DESCRIPTOR description{};
  description.Width = 64;
  description.Height = 4;
  description.Format = CU_AD_FORMAT_UNSIGNED_INT8;
  description.NumChannels = 1;
  return description;
}

CUDA_ARRAY3D_DESCRIPTOR mipmaps_description() {
  CUDA_ARRAY3D_DESCRIPTOR description{};
  description.Width = description.Height = 16;
  description.Format = CU_AD_FORMAT_UNSIGNED_INT8;
  description.NumChannels = 1;
  return description;
}

void make_things(State& x) {
  use_device(x.backend);
  x.further = std::make_shared<Things>();
  Things& t = things(x);
  require_cuda(CU(cuDeviceGet)(&t.device, x.backend.index()), "cuDeviceGet");
  require_cuda(CU(cuCtxGetCurrent)(&t.context), "cuCtxGetCurrent");
  t.memory = address(x.device);
}

void release_things(State& x) {
  if (x.further == nullptr) return;
  use_device(x.backend);
  Things& t = things(x);
  if (t.texture != 0) (void)CU(cuTexObjectDestroy)(t.texture);
  if (t.surface != 0) (void)CU(cuSurfObjectDestroy)(t.surface);
  if (t.array != nullptr) (void)CU(cuArrayDestroy)(t.array);
  if (t.mipmaps != nullptr) (void)CU(cuMipmappedArrayDestroy)(t.mipmaps);
  if (t.managed != 0) (void)CU(cuMemFree)(t.managed);
  if (t.in_pool != 0) (void)CU(cuMemFree)(t.in_pool);
  if (t.pool != nullptr) (void)CU(cuMemPoolDestroy)(t.pool);
  if (t.mapped != 0) (void)CU(cuMemUnmap)(t.mapped, page_bytes);
  if (t.physical != 0) (void)CU(cuMemRelease)(t.physical);
  if (t.reserved != 0) (void)CU(cuMemAddressFree)(t.reserved, page_bytes);
  if (t.is_registered) (void)CU(cuMemHostUnregister)(t.page);
  if (t.module != nullptr) (void)CU(cuModuleUnload)(t.module);
  if (t.library != nullptr) (void)CU(cuLibraryUnload)(t.library);
  if (t.graph != nullptr) (void)CU(cuGraphDestroy)(t.graph);
  if (t.event != nullptr) (void)CU(cuEventDestroy)(t.event);
  if (t.is_profiling) (void)CU(cuProfilerStop)();
  (void)cudaGetLastError();
  x.further = nullptr;
}

void with_array(State& x) {
  const CUDA_ARRAY_DESCRIPTOR description = array_description();
  require_cuda(CU(cuArrayCreate)(&things(x).array, &description), "cuArrayCreate");
}

void with_surface_array(State& x) {
  CUDA_ARRAY3D_DESCRIPTOR description = mipmaps_description();
  description.Flags = CUDA_ARRAY3D_SURFACE_LDST;
  require_cuda(CU(cuArray3DCreate)(&things(x).array, &description), "cuArray3DCreate");
}

void with_mipmaps(State& x) {
  const CUDA_ARRAY3D_DESCRIPTOR description = mipmaps_description();
  require_cuda(CU(cuMipmappedArrayCreate)(&things(x).mipmaps, &description, 2), "cuMipmappedArrayCreate");
}

void with_managed(State& x) {
  require_cuda(CU(cuMemAllocManaged)(&things(x).managed, 65536, CU_MEM_ATTACH_GLOBAL), "cuMemAllocManaged");
}

void with_pool(State& x) {
  Things& t = things(x);
  const CUmemPoolProps properties = pool_properties(t);
  require_cuda(CU(cuMemPoolCreate)(&t.pool, &properties), "cuMemPoolCreate");
}

void with_reserved(State& x) {
  require_cuda(CU(cuMemAddressReserve)(&things(x).reserved, page_bytes, 0, 0, 0), "cuMemAddressReserve");
}

void with_physical(State& x) {
  Things& t = things(x);
  const CUmemAllocationProp properties = physical_properties(t);
  require_cuda(CU(cuMemCreate)(&t.physical, page_bytes, &properties, 0), "cuMemCreate");
}

void with_mapped(State& x) {
  with_reserved(x);
  with_physical(x);
  Things& t = things(x);
  require_cuda(CU(cuMemMap)(t.reserved, page_bytes, 0, t.physical, 0), "cuMemMap");
  t.mapped = t.reserved;
}

void with_registered(State& x) {
  Things& t = things(x);
  require_cuda(CU(cuMemHostRegister)(t.page, sizeof(t.page), 0), "cuMemHostRegister");
  t.is_registered = true;
}

void with_module(State& x) {
  require_cuda(CU(cuModuleLoadData)(&things(x).module, module_text), "cuModuleLoadData");
}

void with_library(State& x) {
  require_cuda(CU(cuLibraryLoadData)(&things(x).library, module_text, nullptr, nullptr, 0, nullptr, nullptr, 0),
               "cuLibraryLoadData");
}

void with_function(State& x) {
  struct Kept {
    CUkernel kernel = nullptr;
    CUfunction function = nullptr;
  };
  static std::map<int, Kept> kept;
  Things& t = things(x);
  Kept& of_device = kept[t.device];
  if (of_device.function == nullptr) {
    CUlibrary library = nullptr;
    require_cuda(CU(cuLibraryLoadData)(&library, module_text, nullptr, nullptr, 0, nullptr, nullptr, 0),
                 "cuLibraryLoadData");
    require_cuda(CU(cuLibraryGetKernel)(&of_device.kernel, library, "nothing"), "cuLibraryGetKernel");
    require_cuda(CU(cuKernelGetFunction)(&of_device.function, of_device.kernel), "cuKernelGetFunction");
    // So that no call of the record is the one that loads it.
    require_cuda(CU(cuLaunchKernel)(of_device.function, 1, 1, 1, 1, 1, 1, 0, x.nb, nullptr, nullptr), "cuLaunchKernel");
  }
  t.kernel = of_device.kernel;
  t.function = of_device.function;
}

}  // namespace reprise::backend::test

#endif
