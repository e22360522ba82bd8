// SPDX-License-Identifier: Apache-2.0
#include <cupti.h>
#include <dlfcn.h>

#include <cstdio>
#include <cstdlib>
#include <string_view>

// A program that "uses CUDA" without a GPU: it loads what CUDA_INJECTION64_PATH names, as CUDA's driver does, and then
// simulates a capture, reported through the libcupti.so.13 of the tests. Its argument selects what happens to it:
// `good`, `broken`, `leaves` (by exit() in the midst of the capture that it broke), `left_out`, or `none`.

namespace {

template <class Function>
Function find(const char* library, const char* name) {
  void* const opened = dlopen(library, RTLD_NOW);
  void* const found = opened != nullptr ? dlsym(opened, name) : nullptr;
  if (found == nullptr) {
    std::fprintf(stderr, "%s has no %s: %s\n", library, name, dlerror());
    std::exit(9);
  }
  return reinterpret_cast<Function>(found);
}

void notify(CUpti_CallbackDomain domain, CUpti_CallbackId id, const char* name, const void* params, bool begins,
            int result = 0) {
  using Notify = void (*)(CUpti_CallbackDomain, CUpti_CallbackId, const CUpti_CallbackData*);
  CUpti_CallbackData data{};
  data.callbackSite = begins ? CUPTI_API_ENTER : CUPTI_API_EXIT;
  data.functionName = name;
  data.functionParams = params;
  data.functionReturnValue = begins ? nullptr : &result;
  find<Notify>("libcupti.so.13", "fake_cupti_notify")(domain, id, &data);
}

// A call of the runtime and the driver's that it makes; the capture is in state `then` when it returns.
template <class Params>
void call(const char* runtime_name, CUpti_driver_api_trace_cbid id, const char* name, const Params& params,
          CUstreamCaptureStatus then, int result = 0) {
  notify(CUPTI_CB_DOMAIN_RUNTIME_API, 0, runtime_name, nullptr, true);
  notify(CUPTI_CB_DOMAIN_DRIVER_API, static_cast<CUpti_CallbackId>(id), name, &params, true);
  *find<int*>("libcuda.so.1", "fake_capture_status") = then;
  notify(CUPTI_CB_DOMAIN_DRIVER_API, static_cast<CUpti_CallbackId>(id), name, &params, false, result);
  notify(CUPTI_CB_DOMAIN_RUNTIME_API, 0, runtime_name, nullptr, false, result);
}

}  // namespace

int main(int, char** arguments) {
  const char* const injected = std::getenv("CUDA_INJECTION64_PATH");
  if (injected != nullptr) find<int (*)()>(injected, "InitializeInjection")();
  const std::string_view what = arguments[1];
  if (what == "none") return 0;
  const auto stream = reinterpret_cast<CUstream>(0x100);
  call("cudaStreamBeginCapture", CUPTI_DRIVER_TRACE_CBID_cuStreamBeginCapture_v2, "cuStreamBeginCapture_v2",
       cuStreamBeginCapture_v2_params{stream, CU_STREAM_CAPTURE_MODE_GLOBAL}, CU_STREAM_CAPTURE_STATUS_ACTIVE);
  if (what == "broken")
    call("cudaStreamSynchronize", CUPTI_DRIVER_TRACE_CBID_cuStreamSynchronize, "cuStreamSynchronize",
         cuStreamSynchronize_params{stream}, CU_STREAM_CAPTURE_STATUS_INVALIDATED, 900);
  if (what == "leaves") {
    call("cudaStreamSynchronize", CUPTI_DRIVER_TRACE_CBID_cuStreamSynchronize, "cuStreamSynchronize",
         cuStreamSynchronize_params{stream}, CU_STREAM_CAPTURE_STATUS_INVALIDATED, 900);
    std::exit(6);
  }
  if (what == "left_out")
    call("cudaMemset", CUPTI_DRIVER_TRACE_CBID_cuMemsetD8_v2, "cuMemsetD8_v2", cuMemsetD8_v2_params{},
         CU_STREAM_CAPTURE_STATUS_ACTIVE);
  call("cudaStreamEndCapture", CUPTI_DRIVER_TRACE_CBID_cuStreamEndCapture, "cuStreamEndCapture",
       cuStreamEndCapture_params{stream, nullptr}, CU_STREAM_CAPTURE_STATUS_NONE, what == "broken" ? 901 : 0);
  return 5;
}
