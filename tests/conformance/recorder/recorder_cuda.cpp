// SPDX-License-Identifier: Apache-2.0
#include <map>

#include "tests/conformance/recorder/recorder.h"

#if defined(__CUDACC__)
#include "tests/conformance/recorder/further_calls.h"
#endif

// Calls of the recorder to CUDA itself, beside the backend.

namespace reprise::backend::test {

#if defined(__CUDACC__)

void* driver_symbol(const char* name) {
  static void* const driver = dlopen("libcuda.so.1", RTLD_NOW);
  void* const found = driver != nullptr ? dlsym(driver, name) : nullptr;
  if (found == nullptr) throw std::runtime_error(std::string("this driver has no ") + name);
  return found;
}

void require_cuda(int result, const char* what) {
  if (result != 0)
    throw std::runtime_error(std::string(what) + " gave " + std::to_string(result) + ", before or after the capture");
}

int last_error(const Backend& backend) {
  return backend.type() == DeviceType::cuda ? static_cast<int>(cudaGetLastError()) : 0;
}

Result create_green_stream(Backend& backend, StreamHandle* stream) {
  if (backend.type() != DeviceType::cuda) return ErrorCode::not_supported;
  use_device(backend);
  static std::map<int, CUgreenCtx> contexts;
  CUgreenCtx& context = contexts[backend.index()];
  if (context == nullptr) {
    CUdevice device = 0;
    CUdevResource all{}, part{}, rest{};
    CUdevResourceDesc description{};
    unsigned groups = 1;
    require_cuda(CU(cuDeviceGet)(&device, backend.index()), "cuDeviceGet");
    require_cuda(CU(cuDeviceGetDevResource)(device, &all, CU_DEV_RESOURCE_TYPE_SM), "cuDeviceGetDevResource");
    require_cuda(CU(cuDevSmResourceSplitByCount)(&part, &groups, &all, &rest, 0, 16), "cuDevSmResourceSplitByCount");
    require_cuda(CU(cuDevResourceGenerateDesc)(&description, &part, 1), "cuDevResourceGenerateDesc");
    require_cuda(CU(cuGreenCtxCreate)(&context, description, device, CU_GREEN_CTX_DEFAULT_STREAM), "cuGreenCtxCreate");
  }
  return static_cast<ErrorCode>(CU(cuGreenCtxStreamCreate)(stream, context, CU_STREAM_NON_BLOCKING, 0));
}

const std::vector<RecordedCall>& further_calls() {
  static const std::vector<RecordedCall> all = [] {
    std::vector<RecordedCall> calls;
    add_copies(calls);
    add_further_work(calls);
    add_allocations(calls);
    add_pools(calls);
    add_device_questions(calls);
    add_modules(calls);
    add_further_graph_calls(calls);
    add_runtime_calls(calls);
    return calls;
  }();
  return all;
}

#else

int last_error(const Backend&) {
  return 0;
}

Result create_green_stream(Backend&, StreamHandle*) {
  return ErrorCode::not_supported;
}

const std::vector<RecordedCall>& further_calls() {
  static const std::vector<RecordedCall> none;
  return none;
}

#endif

}  // namespace reprise::backend::test
