// SPDX-License-Identifier: Apache-2.0
#pragma once

#if !defined(__CUDACC__)
#error "only where nvcc compiles, which links CUDA's runtime"
#endif

#include <cuda.h>
#include <cuda_runtime.h>
#include <dlfcn.h>

#include <stdexcept>
#include <string>
#include <type_traits>
#include <utility>

#include "tests/conformance/recorder/recorder.h"

// Calls of CUDA that the backend interface does not have, for the recorder. Those of the driver are found by name in
// the driver itself: nothing links it.

#define REPRISE_CU_TEXT_OF(name) #name
#define REPRISE_CU_TEXT(name) REPRISE_CU_TEXT_OF(name)
/// The driver's function, of the version that cuda.h means by the name.
#define CU(name) (::reprise::backend::test::driver_function<decltype(&name)>(REPRISE_CU_TEXT(name)))

namespace reprise::backend::test {

/// \throws std::runtime_error if there is none.
void* driver_symbol(const char* name);

template <class F>
F driver_function(const char* name) {
  return reinterpret_cast<F>(driver_symbol(name));
}

/// \throws std::runtime_error if the result, of the driver or the runtime, is not success.
void require_cuda(int result, const char* what);

/// Makes the device current on this thread, for the driver and the runtime.
inline void use_device(const Backend& backend) {
  require_cuda(cudaSetDevice(backend.index()), "cudaSetDevice");
}

/// What further calls work on; only what RecordedCall::prepare made is there.
struct Things {
  CUdevice device = 0;
  CUcontext context = nullptr;
  CUdeviceptr memory = 0, managed = 0, in_pool = 0, reserved = 0, mapped = 0;
  CUarray array = nullptr;
  CUmipmappedArray mipmaps = nullptr;
  CUmemGenericAllocationHandle physical = 0;
  CUmemoryPool pool = nullptr, default_pool = nullptr;  ///< the latter is never destroyed
  CUmodule module = nullptr;
  CUlibrary library = nullptr;
  CUtexObject texture = 0;
  CUsurfObject surface = 0;
  CUgraph graph = nullptr;
  CUevent event = nullptr;
  bool is_registered = false, is_profiling = false;
  alignas(4096) unsigned char page[4096] = {};  ///< to be registered
  // Functions of a module that is loaded once for all rows.
  CUfunction function = nullptr;
  CUkernel kernel = nullptr;
};

constexpr std::size_t page_bytes = std::size_t{2} << 20;  ///< a multiple of what the driver maps

/// The things of a state whose call is prepared.
inline Things& things(State& x) {
  return *static_cast<Things*>(x.further.get());
}
inline CUdeviceptr address(const void* pointer) {
  return reinterpret_cast<CUdeviceptr>(pointer);
}

/// PTX with a kernel `nothing` and a variable `word`.
extern const char* const module_text;
CUmemLocation on_device(const Things& t);
CUmemPoolProps pool_properties(const Things& t);
CUmemAllocationProp physical_properties(const Things& t);
CUDA_ARRAY_DESCRIPTOR array_description();
CUDA_ARRAY3D_DESCRIPTOR mipmaps_description();

using Prepare = std::function<void(State&)>;

/// Makes `Things` with what every call may use.
void make_things(State& x);
/// Releases what is there.
void release_things(State& x);

// More to be prepared.
void with_array(State& x);
void with_surface_array(State& x);  ///< an array that surfaces may be made of
void with_mipmaps(State& x);
void with_managed(State& x);
void with_pool(State& x);
void with_reserved(State& x);
void with_physical(State& x);
void with_mapped(State& x);
void with_registered(State& x);
void with_module(State& x);
void with_library(State& x);
/// Loads the module that is kept, once for a device.
void with_function(State& x);

/// Adds a call: `make` takes the state and returns a CUresult or a cudaError_t.
template <class Make>
void add(std::vector<RecordedCall>& calls, std::string name, Make make, Prepare prepare = {}) {
  RecordedCall call;
  call.name = std::move(name);
  call.make = [make](State& x) {
    use_device(x.backend);
    return static_cast<ErrorCode>(make(x));
  };
  call.prepare = [prepare](State& x) {
    make_things(x);
    if (prepare) prepare(x);
  };
  call.release = release_things;
  calls.push_back(std::move(call));
}

/// Adds a call that works on a stream, once for each of `s`, `nb` and `legacy`. `make` takes the stream, too.
template <class Make>
void add_on_streams(std::vector<RecordedCall>& calls, const std::string& name, Make make, const Prepare& prepare = {}) {
  add(
      calls, name + " s", [make](State& x) { return make(x, x.s); }, prepare);
  add(
      calls, name + " nb", [make](State& x) { return make(x, x.nb); }, prepare);
  add(
      calls, name + " legacy", [make](State& x) { return make(x, static_cast<CUstream>(nullptr)); }, prepare);
}

// The calls, subject by subject.
void add_copies(std::vector<RecordedCall>& calls);
void add_further_work(std::vector<RecordedCall>& calls);
void add_allocations(std::vector<RecordedCall>& calls);
void add_pools(std::vector<RecordedCall>& calls);
void add_device_questions(std::vector<RecordedCall>& calls);
void add_modules(std::vector<RecordedCall>& calls);
void add_further_graph_calls(std::vector<RecordedCall>& calls);
void add_runtime_calls(std::vector<RecordedCall>& calls);

}  // namespace reprise::backend::test
