// SPDX-License-Identifier: Apache-2.0
#include <cstdint>
#include <memory>

#include "c_api/objects.h"
#include "c_api/status.h"
#include "reprise/launch_host.h"
#include "reprise/memory.h"

// Memory, work, and counts of pools.

using reprise::CachingAllocator;
using reprise::MempoolId;
using namespace reprise::c_api;

namespace {

void write_counts(const reprise::PoolStatistics& found, reprise_memory_counts* counts) {
  write_results({0, found.reserved_bytes, found.allocated_bytes, found.peak_reserved_bytes, found.peak_allocated_bytes,
                 found.segments, found.allocations},
                counts);
}

}  // namespace

reprise_status reprise_allocate(size_t bytes, const reprise_stream* stream, void** memory) {
  return guarded("reprise_allocate", [&] {
    void*& result = required(memory, "memory");
    const reprise::StreamRef& ref = ref_of(stream);
    result = CachingAllocator::of(ref.device()).allocate(bytes, ref);
  });
}

reprise_status reprise_free(const reprise_device* device, void* memory) {
  return guarded("reprise_free", [&] { CachingAllocator::of(device_of(device)).deallocate(memory); });
}

reprise_status reprise_record_stream(void* memory, const reprise_stream* stream) {
  return guarded("reprise_record_stream", [&] {
    require(memory, "memory");
    const reprise::StreamRef& ref = ref_of(stream);
    CachingAllocator::of(ref.device()).record_stream(memory, ref);
  });
}

reprise_status reprise_empty_cache(const reprise_device* device) {
  return guarded("reprise_empty_cache", [&] { CachingAllocator::of(device_of(device)).empty_cache(); });
}

reprise_status reprise_copy(void* destination, const void* source, size_t bytes, const reprise_stream* stream) {
  return guarded("reprise_copy", [&] { reprise::copy_async(destination, source, bytes, ref_of(stream)); });
}

reprise_status reprise_fill(void* memory, unsigned char value, size_t bytes, const reprise_stream* stream) {
  return guarded("reprise_fill", [&] { reprise::fill_async(memory, value, bytes, ref_of(stream)); });
}

reprise_status reprise_launch_host(const reprise_stream* stream, reprise_host_function function, void* user,
                                   reprise_host_function destroy) {
  return guarded("reprise_launch_host", [&] {
    const std::shared_ptr<void> owned(user, [destroy](void* object) {
      if (destroy != nullptr) destroy(object);
    });
    if (function == nullptr) require(nullptr, "function");
    reprise::launch_host(ref_of(stream), [function, owned] { function(owned.get()); });
  });
}

reprise_status reprise_pool_create(reprise_pool* pool) {
  return guarded("reprise_pool_create", [&] {
    reprise_pool& result = required(pool, "pool");
    const MempoolId id = reprise::graph_pool_handle();
    result = {id.first, id.second};
  });
}

reprise_status reprise_device_memory_counts(const reprise_device* device, reprise_memory_counts* counts) {
  return guarded("reprise_device_memory_counts",
                 [&] { write_counts(CachingAllocator::of(device_of(device)).statistics(), counts); });
}

reprise_status reprise_pool_memory_counts(const reprise_device* device, reprise_pool pool,
                                          reprise_memory_counts* counts) {
  return guarded("reprise_pool_memory_counts", [&] {
    write_counts(CachingAllocator::of(device_of(device)).statistics(MempoolId{pool.first, pool.second}), counts);
  });
}
