// SPDX-License-Identifier: Apache-2.0
#if defined(__CUDACC__)

#include "tests/conformance/recorder/further_calls.h"

// Further calls of the recorder: virtual memory, and pools of memory.

namespace reprise::backend::test {

namespace {

void add_virtual_memory(std::vector<RecordedCall>& calls) {
  add(calls, "cuMemAddressReserve", [](State& x) {
    CUdeviceptr made = 0;
    return then(CU(cuMemAddressReserve)(&made, page_bytes, 0, 0, 0), x,
                [&] { (void)CU(cuMemAddressFree)(made, page_bytes); });
  });
  add(
      calls, "cuMemAddressFree",
      [](State& x) {
        return then(CU(cuMemAddressFree)(things(x).reserved, page_bytes), x, [&] { things(x).reserved = 0; });
      },
      with_reserved);
  add(calls, "cuMemCreate", [](State& x) {
    const CUmemAllocationProp properties = physical_properties(things(x));
    CUmemGenericAllocationHandle made = 0;
    return then(CU(cuMemCreate)(&made, page_bytes, &properties, 0), x, [&] { (void)CU(cuMemRelease)(made); });
  });
  add(
      calls, "cuMemRelease",
      [](State& x) { return then(CU(cuMemRelease)(things(x).physical), x, [&] { things(x).physical = 0; }); },
      with_physical);
  add(
      calls, "cuMemMap",
      [](State& x) {
        Things& t = things(x);
        return then(CU(cuMemMap)(t.reserved, page_bytes, 0, t.physical, 0), x, [&] { t.mapped = t.reserved; });
      },
      [](State& x) {
        with_reserved(x);
        with_physical(x);
      });
  add(
      calls, "cuMemUnmap",
      [](State& x) { return then(CU(cuMemUnmap)(things(x).mapped, page_bytes), x, [&] { things(x).mapped = 0; }); },
      with_mapped);
  add(
      calls, "cuMemSetAccess",
      [](State& x) {
        CUmemAccessDesc access{};
        access.location = on_device(things(x));
        access.flags = CU_MEM_ACCESS_FLAGS_PROT_READWRITE;
        return CU(cuMemSetAccess)(things(x).mapped, page_bytes, &access, 1);
      },
      with_mapped);
  add(calls, "cuMemGetAllocationGranularity", [](State& x) {
    const CUmemAllocationProp properties = physical_properties(things(x));
    std::size_t bytes = 0;
    return CU(cuMemGetAllocationGranularity)(&bytes, &properties, CU_MEM_ALLOC_GRANULARITY_MINIMUM);
  });
}

void add_pool_objects(std::vector<RecordedCall>& calls) {
  add(calls, "cuMemPoolCreate", [](State& x) {
    const CUmemPoolProps properties = pool_properties(things(x));
    CUmemoryPool made = nullptr;
    return then(CU(cuMemPoolCreate)(&made, &properties), x, [&] { (void)CU(cuMemPoolDestroy)(made); });
  });
  add(
      calls, "cuMemPoolDestroy",
      [](State& x) { return then(CU(cuMemPoolDestroy)(things(x).pool), x, [&] { things(x).pool = nullptr; }); },
      with_pool);
  add(
      calls, "cuMemPoolGetAttribute",
      [](State& x) {
        cuuint64_t value = 0;
        return CU(cuMemPoolGetAttribute)(things(x).pool, CU_MEMPOOL_ATTR_RELEASE_THRESHOLD, &value);
      },
      with_pool);
  add(
      calls, "cuMemPoolGetAttribute used",
      [](State& x) {
        cuuint64_t value = 0;
        return CU(cuMemPoolGetAttribute)(things(x).pool, CU_MEMPOOL_ATTR_USED_MEM_CURRENT, &value);
      },
      with_pool);
  add(
      calls, "cuMemPoolSetAttribute",
      [](State& x) {
        cuuint64_t value = 4096;
        return CU(cuMemPoolSetAttribute)(things(x).pool, CU_MEMPOOL_ATTR_RELEASE_THRESHOLD, &value);
      },
      with_pool);
  add(
      calls, "cuMemPoolGetAccess",
      [](State& x) {
        CUmemAccess_flags flags{};
        CUmemLocation location = on_device(things(x));
        return CU(cuMemPoolGetAccess)(&flags, things(x).pool, &location);
      },
      with_pool);
  add(
      calls, "cuMemPoolSetAccess",
      [](State& x) {
        CUmemAccessDesc access{};
        access.location = on_device(things(x));
        access.flags = CU_MEM_ACCESS_FLAGS_PROT_READWRITE;
        return CU(cuMemPoolSetAccess)(things(x).pool, &access, 1);
      },
      with_pool);
  add(
      calls, "cuMemPoolTrimTo", [](State& x) { return CU(cuMemPoolTrimTo)(things(x).pool, 0); }, with_pool);
  add_on_streams(
      calls, "cuMemAllocFromPoolAsync",
      [](State& x, CUstream stream) {
        CUdeviceptr made = 0;
        // What became a node is memory only when the graph runs.
        return then(CU(cuMemAllocFromPoolAsync)(&made, 4096, things(x).pool, stream), x, [&] {
          if (stream != x.s) (void)CU(cuMemFreeAsync)(made, stream);
        });
      },
      with_pool);
}

void add_pools_of_the_device(std::vector<RecordedCall>& calls) {
  add(calls, "cuDeviceGetDefaultMemPool", [](State& x) {
    CUmemoryPool pool = nullptr;
    return CU(cuDeviceGetDefaultMemPool)(&pool, things(x).device);
  });
  add(calls, "cuDeviceGetMemPool", [](State& x) {
    CUmemoryPool pool = nullptr;
    return CU(cuDeviceGetMemPool)(&pool, things(x).device);
  });
  // To the one that it has.
  add(
      calls, "cuDeviceSetMemPool",
      [](State& x) { return CU(cuDeviceSetMemPool)(things(x).device, things(x).default_pool); },
      [](State& x) {
        Things& t = things(x);
        require_cuda(CU(cuDeviceGetDefaultMemPool)(&t.default_pool, t.device), "cuDeviceGetDefaultMemPool");
      });
  add(calls, "cuDeviceGraphMemTrim", [](State& x) { return CU(cuDeviceGraphMemTrim)(things(x).device); });
  add(calls, "cuDeviceGetGraphMemAttribute", [](State& x) {
    cuuint64_t value = 0;
    return CU(cuDeviceGetGraphMemAttribute)(things(x).device, CU_GRAPH_MEM_ATTR_USED_MEM_CURRENT, &value);
  });
  add(calls, "cuDeviceSetGraphMemAttribute", [](State& x) {
    cuuint64_t value = 0;
    return CU(cuDeviceSetGraphMemAttribute)(things(x).device, CU_GRAPH_MEM_ATTR_USED_MEM_HIGH, &value);
  });
}

}  // namespace

void add_pools(std::vector<RecordedCall>& calls) {
  add_virtual_memory(calls);
  add_pool_objects(calls);
  add_pools_of_the_device(calls);
}

}  // namespace reprise::backend::test

#endif
