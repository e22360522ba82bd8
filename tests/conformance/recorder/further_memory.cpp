// SPDX-License-Identifier: Apache-2.0
#if defined(__CUDACC__)

#include "tests/conformance/recorder/further_calls.h"

// Further calls of the recorder: memory, arrays, textures.

namespace reprise::backend::test {

namespace {

void add_plain_allocations(std::vector<RecordedCall>& calls) {
  add(calls, "cuMemAllocPitch", [](State& x) {
    CUdeviceptr made = 0;
    std::size_t pitch = 0;
    return then(CU(cuMemAllocPitch)(&made, &pitch, 64, 4, 4), x, [&] { (void)CU(cuMemFree)(made); });
  });
  add(calls, "cuMemAllocManaged", [](State& x) {
    CUdeviceptr made = 0;
    return then(CU(cuMemAllocManaged)(&made, 4096, CU_MEM_ATTACH_GLOBAL), x, [&] { (void)CU(cuMemFree)(made); });
  });
  add(
      calls, "cuMemFree managed",
      [](State& x) { return then(CU(cuMemFree)(things(x).managed), x, [&] { things(x).managed = 0; }); }, with_managed);
  add(calls, "cuMemAllocHost", [](State& x) {
    void* made = nullptr;
    return then(CU(cuMemAllocHost)(&made, 4096), x, [&] { (void)CU(cuMemFreeHost)(made); });
  });
  add(calls, "cuMemHostRegister", [](State& x) {
    Things& t = things(x);
    return then(CU(cuMemHostRegister)(t.page, sizeof(t.page), 0), x, [&] { t.is_registered = true; });
  });
  add(
      calls, "cuMemHostUnregister",
      [](State& x) {
        Things& t = things(x);
        return then(CU(cuMemHostUnregister)(t.page), x, [&] { t.is_registered = false; });
      },
      with_registered);
  add(calls, "cuMemHostGetDevicePointer", [](State& x) {
    CUdeviceptr found = 0;
    return CU(cuMemHostGetDevicePointer)(&found, x.pinned, 0);
  });
  add(calls, "cuMemHostGetFlags", [](State& x) {
    unsigned flags = 0;
    return CU(cuMemHostGetFlags)(&flags, x.pinned);
  });
  add(calls, "cuIpcGetMemHandle", [](State& x) {
    CUipcMemHandle handle;
    return CU(cuIpcGetMemHandle)(&handle, things(x).memory);
  });
  add(
      calls, "cuIpcGetEventHandle",
      [](State& x) {
        CUipcEventHandle handle;
        return CU(cuIpcGetEventHandle)(&handle, things(x).event);
      },
      [](State& x) {
        require_cuda(CU(cuEventCreate)(&things(x).event, CU_EVENT_DISABLE_TIMING | CU_EVENT_INTERPROCESS),
                     "cuEventCreate");
      });
}

void add_memory_questions(std::vector<RecordedCall>& calls) {
  add(calls, "cuMemGetAddressRange", [](State& x) {
    CUdeviceptr base = 0;
    std::size_t bytes = 0;
    return CU(cuMemGetAddressRange)(&base, &bytes, things(x).memory);
  });
  add(calls, "cuPointerGetAttribute", [](State& x) {
    CUmemorytype type{};
    return CU(cuPointerGetAttribute)(&type, CU_POINTER_ATTRIBUTE_MEMORY_TYPE, things(x).memory);
  });
  add(calls, "cuPointerGetAttribute synchronous", [](State& x) {
    int value = 0;
    return CU(cuPointerGetAttribute)(&value, CU_POINTER_ATTRIBUTE_SYNC_MEMOPS, things(x).memory);
  });
  add(calls, "cuPointerSetAttribute", [](State& x) {
    int value = 1;
    return CU(cuPointerSetAttribute)(&value, CU_POINTER_ATTRIBUTE_SYNC_MEMOPS, things(x).memory);
  });
  add(
      calls, "cuMemAdvise",
      [](State& x) {
        return CU(cuMemAdvise)(things(x).managed, 65536, CU_MEM_ADVISE_SET_READ_MOSTLY, on_device(things(x)));
      },
      with_managed);
  add(
      calls, "cuMemRangeGetAttribute",
      [](State& x) {
        int value = 0;
        return CU(cuMemRangeGetAttribute)(&value, sizeof(value), CU_MEM_RANGE_ATTRIBUTE_READ_MOSTLY, things(x).managed,
                                          65536);
      },
      with_managed);
}

void add_arrays(std::vector<RecordedCall>& calls) {
  add(calls, "cuArrayCreate", [](State& x) {
    const CUDA_ARRAY_DESCRIPTOR description = array_description();
    CUarray made = nullptr;
    return then(CU(cuArrayCreate)(&made, &description), x, [&] { (void)CU(cuArrayDestroy)(made); });
  });
  add(calls, "cuArray3DCreate", [](State& x) {
    CUDA_ARRAY3D_DESCRIPTOR description{};
    description.Width = description.Height = description.Depth = 4;
    description.Format = CU_AD_FORMAT_UNSIGNED_INT8;
    description.NumChannels = 1;
    CUarray made = nullptr;
    return then(CU(cuArray3DCreate)(&made, &description), x, [&] { (void)CU(cuArrayDestroy)(made); });
  });
  add(
      calls, "cuArrayDestroy",
      [](State& x) { return then(CU(cuArrayDestroy)(things(x).array), x, [&] { things(x).array = nullptr; }); },
      with_array);
  add(
      calls, "cuArrayGetDescriptor",
      [](State& x) {
        CUDA_ARRAY_DESCRIPTOR description{};
        return CU(cuArrayGetDescriptor)(&description, things(x).array);
      },
      with_array);
  add(calls, "cuMipmappedArrayCreate", [](State& x) {
    const CUDA_ARRAY3D_DESCRIPTOR description = mipmaps_description();
    CUmipmappedArray made = nullptr;
    return then(CU(cuMipmappedArrayCreate)(&made, &description, 2), x,
                [&] { (void)CU(cuMipmappedArrayDestroy)(made); });
  });
  add(
      calls, "cuMipmappedArrayDestroy",
      [](State& x) {
        return then(CU(cuMipmappedArrayDestroy)(things(x).mipmaps), x, [&] { things(x).mipmaps = nullptr; });
      },
      with_mipmaps);
}

CUDA_RESOURCE_DESC resource(State& x) {
  CUDA_RESOURCE_DESC description{};
  description.resType = CU_RESOURCE_TYPE_ARRAY;
  description.res.array.hArray = things(x).array;
  return description;
}

void with_texture(State& x) {
  with_array(x);
  const CUDA_RESOURCE_DESC of = resource(x);
  const CUDA_TEXTURE_DESC how{};
  require_cuda(CU(cuTexObjectCreate)(&things(x).texture, &of, &how, nullptr), "cuTexObjectCreate");
}

void add_textures(std::vector<RecordedCall>& calls) {
  add(
      calls, "cuTexObjectCreate",
      [](State& x) {
        const CUDA_RESOURCE_DESC of = resource(x);
        const CUDA_TEXTURE_DESC how{};
        CUtexObject made = 0;
        return then(CU(cuTexObjectCreate)(&made, &of, &how, nullptr), x, [&] { (void)CU(cuTexObjectDestroy)(made); });
      },
      with_array);
  add(
      calls, "cuTexObjectDestroy",
      [](State& x) { return then(CU(cuTexObjectDestroy)(things(x).texture), x, [&] { things(x).texture = 0; }); },
      with_texture);
  add(
      calls, "cuTexObjectGetResourceDesc",
      [](State& x) {
        CUDA_RESOURCE_DESC of{};
        return CU(cuTexObjectGetResourceDesc)(&of, things(x).texture);
      },
      with_texture);
}

void with_surface(State& x) {
  with_surface_array(x);
  const CUDA_RESOURCE_DESC of = resource(x);
  require_cuda(CU(cuSurfObjectCreate)(&things(x).surface, &of), "cuSurfObjectCreate");
}

void add_surfaces(std::vector<RecordedCall>& calls) {
  add(
      calls, "cuSurfObjectCreate",
      [](State& x) {
        const CUDA_RESOURCE_DESC of = resource(x);
        CUsurfObject made = 0;
        return then(CU(cuSurfObjectCreate)(&made, &of), x, [&] { (void)CU(cuSurfObjectDestroy)(made); });
      },
      with_surface_array);
  add(
      calls, "cuSurfObjectDestroy",
      [](State& x) { return then(CU(cuSurfObjectDestroy)(things(x).surface), x, [&] { things(x).surface = 0; }); },
      with_surface);
}

}  // namespace

void add_allocations(std::vector<RecordedCall>& calls) {
  add_plain_allocations(calls);
  add_memory_questions(calls);
  add_arrays(calls);
  add_textures(calls);
  add_surfaces(calls);
}

}  // namespace reprise::backend::test

#endif
