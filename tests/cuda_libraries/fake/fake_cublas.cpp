// SPDX-License-Identifier: Apache-2.0
#include "tests/cuda_libraries/fake/fake_cublas.h"

#include <utility>

namespace reprise::test {

FakeCublas& fake_cublas() {
  static FakeCublas fake;
  return fake;
}

namespace {

cublasStatus_t note_call() {
  FakeCublas& fake = fake_cublas();
  fake.device_of_last_call = fake.current_device;
  fake.mode_of_last_call = fake.mode;
  return fake.answer;
}

template <class Handle, class Context>
cublasStatus_t create(Handle* handle) {
  const cublasStatus_t status = note_call();
  if (status != CUBLAS_STATUS_SUCCESS) return status;
  *handle = reinterpret_cast<Handle>(new Context);
  ++fake_cublas().handles;
  return status;
}

template <class Context, class Handle>
cublasStatus_t destroy(Handle handle) {
  delete reinterpret_cast<Context*>(handle);
  --fake_cublas().handles;
  ++fake_cublas().destroyed;
  return note_call();
}

struct LtContext {};

}  // namespace
}  // namespace reprise::test

using reprise::test::fake_cublas;

extern "C" {

cublasStatus_t cublasCreate_v2(cublasHandle_t* handle) {
  return reprise::test::create<cublasHandle_t, cublasContext>(handle);
}
cublasStatus_t cublasDestroy_v2(cublasHandle_t handle) {
  return reprise::test::destroy<cublasContext>(handle);
}
cublasStatus_t cublasLtCreate(cublasLtHandle_t* handle) {
  return reprise::test::create<cublasLtHandle_t, reprise::test::LtContext>(handle);
}
cublasStatus_t cublasLtDestroy(cublasLtHandle_t handle) {
  return reprise::test::destroy<reprise::test::LtContext>(handle);
}
// As cuBLAS does: the workspace is its own again.
cublasStatus_t cublasSetStream_v2(cublasHandle_t handle, cudaStream_t stream) {
  *handle = {stream, nullptr, 0};
  return CUBLAS_STATUS_SUCCESS;
}
cublasStatus_t cublasSetWorkspace_v2(cublasHandle_t handle, void* workspace, size_t bytes) {
  handle->workspace = workspace;
  handle->workspace_bytes = bytes;
  return CUBLAS_STATUS_SUCCESS;
}
const char* cublasGetStatusName(cublasStatus_t) {
  return "CUBLAS_STATUS_FAKE";
}
const char* cublasGetStatusString(cublasStatus_t) {
  return "a failure that a test caused";
}

cudaError_t cudaGetDevice(int* device) {
  *device = fake_cublas().current_device;
  return cudaSuccess;
}
cudaError_t cudaSetDevice(int device) {
  fake_cublas().current_device = device;
  return cudaSuccess;
}
cudaError_t cudaThreadExchangeStreamCaptureMode(cudaStreamCaptureMode* mode) {
  std::swap(*mode, fake_cublas().mode);
  return cudaSuccess;
}
cudaError_t cudaDeviceGetAttribute(int* value, cudaDeviceAttr, int) {
  *value = fake_cublas().compute_capability_major;
  return cudaSuccess;
}
const char* cudaGetErrorString(cudaError_t) {
  return "an error";
}

}  // extern "C"
