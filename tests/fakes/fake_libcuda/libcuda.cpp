// SPDX-License-Identifier: Apache-2.0
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <initializer_list>

// A libcuda.so.1 with two devices that can be opened, and whose captures can be queried; no more. The environment
// makes it old or broken:
//   FAKE_LIBCUDA_VERSION    the version of CUDA that it says it is of, for example 12080; it hides newer functions
//   FAKE_LIBCUDA_INIT       what cuInit returns
//   FAKE_LIBCUDA_DEVICES    how many devices it has; -999: cuDeviceGetCount returns 999
//   FAKE_LIBCUDA_LACKS      a function that it does not have
//   FAKE_LIBCUDA_CONTEXT    what cuDevicePrimaryCtxRetain returns for the first device; _1: for the others
//   FAKE_LIBCUDA_CAPABILITY the compute capability of the devices, as 90
//   FAKE_LIBCUDA_SHUT_DOWN  what calls return once the driver has shut down, in its function of atexit()
//   FAKE_LIBCUDA_RESULT     what waits and releases return before that

/// What every stream's capture is: CUstreamCaptureStatus. A test sets it.
extern "C" int fake_capture_status;
int fake_capture_status = 0;

/// The code that was loaded last.
extern "C" const void* fake_loaded_code;
const void* fake_loaded_code = nullptr;

namespace {

int number_from(const char* name, int otherwise) {
  const char* const text = std::getenv(name);
  return text == nullptr ? otherwise : std::atoi(text);
}

int driver_version(int* version) {
  *version = number_from("FAKE_LIBCUDA_VERSION", 13000);
  return 0;
}

int init(unsigned) {
  return number_from("FAKE_LIBCUDA_INIT", 0);
}

int device_count(int* count) {
  *count = number_from("FAKE_LIBCUDA_DEVICES", 2);
  return *count < 0 ? -*count : 0;
}

int device_get(int* device, int ordinal) {
  *device = ordinal;
  return 0;
}

int is_capturing(void*, int* status) {
  *status = fake_capture_status;
  return 0;
}

int graph_nodes(void*, void**, std::size_t* count) {
  *count = 7;
  return 0;
}

int capture_info(void*, int* status, unsigned long long* id, void** graph, const void** dependencies,
                 const void** edges, std::size_t* count) {
  *status = fake_capture_status;
  *id = 1;
  *graph = &fake_capture_status;
  *dependencies = *edges = nullptr;
  *count = 0;
  return 0;
}

int exchange_mode(int* mode) {
  thread_local int current = 0;  // CU_STREAM_CAPTURE_MODE_GLOBAL
  const int before = current;
  current = *mode;
  *mode = before;
  return 0;
}

int device_name(char* name, int size, int device) {
  std::snprintf(name, static_cast<std::size_t>(size), "Device %d of a test", device);
  return 0;
}

int device_attribute(int* value, int attribute, int) {
  const int capability = number_from("FAKE_LIBCUDA_CAPABILITY", 90);
  *value = attribute == 75 ? capability / 10 : capability % 10;  // CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR
  return 0;
}

int shut_down = 0;  // once it is, what calls return

int retain_context(void** context, int device) {
  if (shut_down != 0) return shut_down;
  [[maybe_unused]] static const int registered =
      std::atexit([] { shut_down = number_from("FAKE_LIBCUDA_SHUT_DOWN", 0); });
  *context = &fake_loaded_code;
  return number_from(device == 0 ? "FAKE_LIBCUDA_CONTEXT" : "FAKE_LIBCUDA_CONTEXT_1", 0);
}

// The context of the calling thread, of those above.
thread_local void* current = nullptr;

int current_context(void** context) {
  *context = current;
  return 0;
}

int set_context(void* context) {
  current = context;
  return 0;
}

int create(void** object) {
  static char objects[64];
  static std::size_t next = 0;
  *object = &objects[next++ % sizeof objects];
  return shut_down;
}

int create_stream(void** stream, unsigned, int) {
  return create(stream);
}

int create_event(void** event, unsigned) {
  return create(event);
}

int stream_id(void* stream, unsigned long long* id) {
  *id = reinterpret_cast<unsigned long long>(stream);
  return shut_down;
}

// For waits and releases.
int do_nothing() {
  return shut_down != 0 ? shut_down : number_from("FAKE_LIBCUDA_RESULT", 0);
}

int push_context(void*) {
  return 0;
}

int pop_context(void** context) {
  *context = nullptr;
  return 0;
}

int memory_info(std::size_t* free, std::size_t* total) {
  *free = 1 << 20;
  *total = 1 << 30;
  return 0;
}

int load_library(void** library, const void* code, void*, void*, unsigned, void*, void*, unsigned) {
  fake_loaded_code = code;
  *library = &fake_loaded_code;
  return 0;
}

int find_in_library(void** found, void* library, const char*) {
  *found = library;
  return 0;
}

int function_of_kernel(void** function, void* kernel) {
  *function = kernel;
  return 0;
}

int current_device(int* device) {
  *device = 0;
  return 0;
}

int never_called() {
  if (shut_down == 0) std::abort();
  return shut_down;
}

}  // namespace

// Every driver exports these.
extern "C" int cuInit(unsigned flags) {
  return init(flags);
}
extern "C" int cuDeviceGetCount(int* count) {
  return device_count(count);
}
extern "C" int cuDriverGetVersion(int* version) {
  return driver_version(version);
}
extern "C" int cuGetErrorName(int error, const char** name) {
  *name = error == 716 ? "CUDA_ERROR_MISALIGNED_ADDRESS" : nullptr;
  return *name != nullptr ? 0 : 1;
}

extern "C" int cuGetProcAddress_v2(const char* name, void** function, int version, unsigned long long flags, int*) {
  if (version < 2000 || version > number_from("FAKE_LIBCUDA_VERSION", 13000) || flags != 0) return 1;
  const char* const lacks = std::getenv("FAKE_LIBCUDA_LACKS");
  if (lacks != nullptr && std::strcmp(lacks, name) == 0) return 500;
  *function = reinterpret_cast<void*>(&never_called);
  if (std::strcmp(name, "cuDriverGetVersion") == 0) *function = reinterpret_cast<void*>(&driver_version);
  if (std::strcmp(name, "cuInit") == 0) *function = reinterpret_cast<void*>(&init);
  if (std::strcmp(name, "cuDeviceGetCount") == 0) *function = reinterpret_cast<void*>(&device_count);
  if (std::strcmp(name, "cuDeviceGet") == 0) *function = reinterpret_cast<void*>(&device_get);
  if (std::strcmp(name, "cuStreamIsCapturing") == 0) *function = reinterpret_cast<void*>(&is_capturing);
  if (std::strcmp(name, "cuStreamGetCaptureInfo") == 0) *function = reinterpret_cast<void*>(&capture_info);
  if (std::strcmp(name, "cuGraphGetNodes") == 0) *function = reinterpret_cast<void*>(&graph_nodes);
  if (std::strcmp(name, "cuDeviceGetName") == 0) *function = reinterpret_cast<void*>(&device_name);
  if (std::strcmp(name, "cuDeviceGetAttribute") == 0) *function = reinterpret_cast<void*>(&device_attribute);
  if (std::strcmp(name, "cuDevicePrimaryCtxRetain") == 0) *function = reinterpret_cast<void*>(&retain_context);
  if (std::strcmp(name, "cuCtxPushCurrent") == 0) *function = reinterpret_cast<void*>(&push_context);
  if (std::strcmp(name, "cuCtxPopCurrent") == 0) *function = reinterpret_cast<void*>(&pop_context);
  if (std::strcmp(name, "cuCtxGetCurrent") == 0) *function = reinterpret_cast<void*>(&current_context);
  if (std::strcmp(name, "cuCtxSetCurrent") == 0) *function = reinterpret_cast<void*>(&set_context);
  if (std::strcmp(name, "cuStreamCreateWithPriority") == 0) *function = reinterpret_cast<void*>(&create_stream);
  if (std::strcmp(name, "cuStreamGetId") == 0) *function = reinterpret_cast<void*>(&stream_id);
  if (std::strcmp(name, "cuEventCreate") == 0) *function = reinterpret_cast<void*>(&create_event);
  for (const char* each : {"cuCtxSynchronize", "cuStreamSynchronize", "cuStreamQuery", "cuStreamDestroy",
                           "cuEventSynchronize", "cuEventQuery", "cuEventDestroy", "cuEventRecordWithFlags"})
    if (std::strcmp(name, each) == 0) *function = reinterpret_cast<void*>(&do_nothing);
  if (std::strcmp(name, "cuMemGetInfo") == 0) *function = reinterpret_cast<void*>(&memory_info);
  if (std::strcmp(name, "cuLibraryLoadData") == 0) *function = reinterpret_cast<void*>(&load_library);
  if (std::strcmp(name, "cuLibraryGetKernel") == 0) *function = reinterpret_cast<void*>(&find_in_library);
  if (std::strcmp(name, "cuKernelGetFunction") == 0) *function = reinterpret_cast<void*>(&function_of_kernel);
  if (std::strcmp(name, "cuThreadExchangeStreamCaptureMode") == 0) *function = reinterpret_cast<void*>(&exchange_mode);
  if (std::strcmp(name, "cuCtxGetDevice") == 0) *function = reinterpret_cast<void*>(&current_device);
  return 0;
}
