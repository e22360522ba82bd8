// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cublasLt.h>
#include <cublas_v2.h>
#include <cuda_runtime_api.h>

#include <cstddef>

// A stand-in for cuBLAS and for the few calls of CUDA's runtime that handles make: it computes nothing, and shows what
// it was passed.

/// What a handle of cuBLAS was passed.
struct cublasContext {
  cudaStream_t stream = nullptr;
  void* workspace = nullptr;  // null: cuBLAS's own
  std::size_t workspace_bytes = 0;
};

namespace reprise::test {

/// The state of the stand-in, and the answers that it gives.
struct FakeCublas {
  int handles = 0;    ///< of both libraries, made and not destroyed
  int destroyed = 0;  ///< how often one was destroyed
  int current_device = 0;
  int compute_capability_major = 9;
  cudaStreamCaptureMode mode = cudaStreamCaptureModeGlobal;  ///< of the thread
  int device_of_last_call = -1;                              ///< where a handle was made or destroyed last
  cudaStreamCaptureMode mode_of_last_call = cudaStreamCaptureModeGlobal;
  cublasStatus_t answer = CUBLAS_STATUS_SUCCESS;  ///< of every call that makes or destroys a handle
};

/// The one that there is.
FakeCublas& fake_cublas();

}  // namespace reprise::test
