// SPDX-License-Identifier: Apache-2.0
#include <array>

#include "backend/cuda/cuda_backend.h"

// Memory: of the device, pinned.

namespace reprise::backend::cuda {

Result CudaBackend::memory_allocate(void** pointer, std::size_t bytes) {
  return enter(Call::memory_allocate, [&] {
    CUdeviceptr address = 0;
    const CUresult result = driver_.cuMemAlloc(&address, bytes);
    if (result == CUDA_SUCCESS) *pointer = to_pointer(address);
    return result;
  });
}

Result CudaBackend::memory_free(void* pointer) {
  return enter(Call::memory_free, [&] { return driver_.cuMemFree(to_address(pointer)); });
}

Result CudaBackend::memory_allocate_async(void** pointer, std::size_t bytes, StreamHandle stream) {
  return enter({Call::memory_allocate_async, stream}, [&] {
    CUdeviceptr address = 0;
    const CUresult result = driver_.cuMemAllocAsync(&address, bytes, stream);
    if (result == CUDA_SUCCESS) *pointer = to_pointer(address);
    return result;
  });
}

Result CudaBackend::memory_free_async(void* pointer, StreamHandle stream) {
  return enter({Call::memory_free_async, stream}, [&] { return driver_.cuMemFreeAsync(to_address(pointer), stream); });
}

Result CudaBackend::memory_pool_trim(std::size_t bytes_to_keep) {
  return enter(Call::memory_pool_trim, [&] {
    CUmemoryPool pool = nullptr;
    const CUresult result = driver_.cuDeviceGetDefaultMemPool(&pool, device_);
    if (result != CUDA_SUCCESS) return result;
    // Memory of allocation nodes has a pool of its own.
    if (const CUresult trimmed = driver_.cuDeviceGraphMemTrim(device_); trimmed != CUDA_SUCCESS) return trimmed;
    return driver_.cuMemPoolTrimTo(pool, bytes_to_keep);
  });
}

Result CudaBackend::pinned_allocate(void** pointer, std::size_t bytes) {
  // With unified addressing every device can use it, with any flags.
  return enter_for<void*>(Call::pinned_allocate, pointer,
                          [&](void** memory) { return driver_.cuMemHostAlloc(memory, bytes, 0); });
}

Result CudaBackend::pinned_free(void* pointer) {
  return enter(Call::pinned_free, [&] { return driver_.cuMemFreeHost(pointer); });
}

Result CudaBackend::pointer_info(const void* pointer, PointerInfo* info) {
  return enter(Call::pointer_info, [&] {
    // For unknown memory the driver succeeds and returns zeros.
    unsigned type = 0;
    int ordinal = -1;
    void* base = nullptr;
    std::size_t bytes = 0;
    unsigned long long id = 0;
    std::array attributes = {CU_POINTER_ATTRIBUTE_MEMORY_TYPE, CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL,
                             CU_POINTER_ATTRIBUTE_RANGE_START_ADDR, CU_POINTER_ATTRIBUTE_RANGE_SIZE,
                             CU_POINTER_ATTRIBUTE_BUFFER_ID};
    std::array<void*, 5> values = {&type, &ordinal, static_cast<void*>(&base), &bytes, &id};
    const CUresult result =
        driver_.cuPointerGetAttributes(attributes.size(), attributes.data(), values.data(), to_address(pointer));
    if (result != CUDA_SUCCESS) return result;
    if (type == 0) {
      *info = {};
      return result;
    }
    // For reserved address ranges, the attributes describe the reservation; this call describes the mapping.
    CUdeviceptr mapped = 0;
    std::size_t mapped_bytes = 0;
    if (driver_.cuMemGetAddressRange(&mapped, &mapped_bytes, to_address(pointer)) == CUDA_SUCCESS) {
      base = to_pointer(mapped);
      bytes = mapped_bytes;
    }
    *info = {type == CU_MEMORYTYPE_HOST ? MemoryKind::pinned : MemoryKind::device, ordinal, base, bytes, id};
    return result;
  });
}

}  // namespace reprise::backend::cuda
