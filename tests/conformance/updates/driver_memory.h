// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cuda.h>
#include <cuda_runtime.h>
#include <unistd.h>

#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <string>
#include <vector>

// Memory of all kinds, on one device or two, by the driver's own calls. For measure_updates.cu.

namespace measure_updates {

inline long row_number = 0;
inline std::string line;  // the row as far as it was measured
inline std::size_t cells_left = 0;

/// Ends the process in the middle of a row; the next one begins with the row after it.
[[noreturn]] inline void go_on_elsewhere() {
  for (; cells_left > 0; --cells_left) line += ",-";
  line += "\n# next: " + std::to_string(row_number) + "\n";
  (void)!write(1, line.data(), line.size());
  std::_Exit(3);
}

inline void crashed(int) {
  if (cells_left > 0) {
    line += ",crash";
    --cells_left;
  }
  go_on_elsewhere();
}

/// A call beside the measured ones, which must work; else the row is left out.
inline void require(int code, const char* call) {
  if (code == 0) return;
  line = std::string("# ") + call + " gave " + std::to_string(code) + ", at " + line;
  cells_left = 0;
  go_on_elsewhere();
}
#define REQUIRE(call) ::measure_updates::require(static_cast<int>(call), #call)

constexpr std::size_t bytes_of_place = 4096;
constexpr std::size_t used_bytes = 256;

/// Memory that copies and sets of the rows use.
struct Place {
  std::string name;
  CUdeviceptr at = 0;
  bool on_host = false;
  int device = 0;

  Place part(const std::string& part_name, std::size_t offset) const {
    return {part_name, at + offset, on_host, device};
  }
  void* pointer() const { return reinterpret_cast<void*>(at); }
};

inline int devices = 0;
inline CUcontext contexts[2];
inline CUstream streams[2];
inline std::vector<Place> places;

inline const Place& place(const std::string& name) {
  for (const Place& each : places)
    if (each.name == name) return each;
  require(-1, ("the place " + name).c_str());
  std::abort();
}

inline void use(int device) {
  REQUIRE(cudaSetDevice(device));
}

inline CUdeviceptr device_memory(std::size_t bytes = bytes_of_place) {
  CUdeviceptr at = 0;
  REQUIRE(cuMemAlloc(&at, bytes));
  return at;
}

inline CUdeviceptr pinned_memory(unsigned flags) {
  void* at = nullptr;
  REQUIRE(cuMemHostAlloc(&at, bytes_of_place, flags));
  return reinterpret_cast<CUdeviceptr>(at);
}

inline CUdeviceptr pool_memory(int device) {
  CUdeviceptr at = 0;
  REQUIRE(cuMemAllocAsync(&at, bytes_of_place, streams[device]));
  REQUIRE(cuStreamSynchronize(streams[device]));
  return at;
}

inline CUdeviceptr pageable_memory() {
  void* const at = std::aligned_alloc(bytes_of_place, bytes_of_place);
  std::memset(at, 0, bytes_of_place);
  return reinterpret_cast<CUdeviceptr>(at);
}

/// As the expandable segments of libtorch's allocator.
inline CUdeviceptr virtual_memory(int device) {
  CUmemAllocationProp prop{};
  prop.type = CU_MEM_ALLOCATION_TYPE_PINNED;
  prop.location.type = CU_MEM_LOCATION_TYPE_DEVICE;
  prop.location.id = device;
  std::size_t bytes = 0;
  REQUIRE(cuMemGetAllocationGranularity(&bytes, &prop, CU_MEM_ALLOC_GRANULARITY_RECOMMENDED));
  CUmemGenericAllocationHandle handle = 0;
  REQUIRE(cuMemCreate(&handle, bytes, &prop, 0));
  CUdeviceptr at = 0;
  REQUIRE(cuMemAddressReserve(&at, bytes, 0, 0, 0));
  REQUIRE(cuMemMap(at, bytes, 0, handle, 0));
  CUmemAccessDesc access{};
  access.location = prop.location;
  access.flags = CU_MEM_ACCESS_FLAGS_PROT_READWRITE;
  REQUIRE(cuMemSetAccess(at, bytes, &access, 1));
  return at;
}

/// \param symbol a variable of device memory
/// \param peer_access whether the two devices have access to each other's memory
inline void make_places(const void* symbol, bool peer_access) {
  for (int device = 0; device < devices; ++device) {
    use(device);
    REQUIRE(cudaFree(nullptr));
    REQUIRE(cuCtxGetCurrent(&contexts[device]));
    REQUIRE(cuStreamCreate(&streams[device], CU_STREAM_NON_BLOCKING));
  }
  for (int device = 0; peer_access && device < 2; ++device) {
    use(device);
    REQUIRE(cudaDeviceEnablePeerAccess(1 - device, 0));
  }
  use(0);
  const Place device{"device", device_memory()};
  places = {device, device.part("device_part", 2048), {"device_other", device_memory(4 << 20)}};
  places.push_back({"pool", pool_memory(0)});
  places.push_back({"vmm", virtual_memory(0)});
  places.push_back({"vmm_other", virtual_memory(0)});
  CUdeviceptr managed = 0;
  REQUIRE(cuMemAllocManaged(&managed, bytes_of_place, CU_MEM_ATTACH_GLOBAL));
  places.push_back({"managed", managed});
  void* variable = nullptr;
  REQUIRE(cudaGetSymbolAddress(&variable, symbol));
  places.push_back({"variable", reinterpret_cast<CUdeviceptr>(variable)});
  places.push_back({"pinned", pinned_memory(0), true});
  places.push_back({"pinned_other", pinned_memory(CU_MEMHOSTALLOC_PORTABLE), true});
  const Place registered{"registered", pageable_memory(), true};
  REQUIRE(cuMemHostRegister(registered.pointer(), bytes_of_place, CU_MEMHOSTREGISTER_PORTABLE));
  places.push_back(registered);
  places.push_back({"pageable", pageable_memory(), true});
  places.push_back({"pageable_other", pageable_memory(), true});
  if (devices < 2) return;
  use(1);
  places.push_back({"peer", device_memory(), false, 1});
  places.push_back({"peer_pool", pool_memory(1), false, 1});
  places.push_back({"peer_vmm", virtual_memory(1), false, 1});
  places.push_back({"peer_pinned", pinned_memory(0), true, 1});
  use(0);
}

/// Fills the used bytes of a place, without the graph.
inline void fill(const Place& at, unsigned char value) {
  if (at.on_host) {
    std::memset(at.pointer(), value, used_bytes);
    return;
  }
  use(at.device);
  REQUIRE(cuMemsetD8(at.at, value, used_bytes));
  REQUIRE(cuCtxSynchronize());
  use(0);
}

inline unsigned char first_byte(const Place& at) {
  if (at.on_host) return *static_cast<unsigned char*>(at.pointer());
  unsigned char value = 0;
  use(at.device);
  REQUIRE(cuMemcpyDtoH(&value, at.at, 1));
  use(0);
  return value;
}

}  // namespace measure_updates
