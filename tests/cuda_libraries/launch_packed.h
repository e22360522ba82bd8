// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cuda.h>

#include <cstddef>

#include "tests/cuda_libraries/cuda_test.h"

namespace reprise::test {

/// Launches one block of a `__global__` function on the current stream, with its arguments in one block, as `extra` of
/// cuLaunchKernel takes them.
inline void launch_packed(const void* symbol, unsigned threads, void* arguments, std::size_t bytes) {
  cudaFunction_t function = nullptr;
  ASSERT_EQ(cudaGetFuncBySymbol(&function, symbol), cudaSuccess);
  void* found = nullptr;
  cudaDriverEntryPointQueryResult status{};
  ASSERT_EQ(cudaGetDriverEntryPointByVersion("cuLaunchKernel", &found, 12000, cudaEnableDefault, &status), cudaSuccess);
  const auto launch_kernel = reinterpret_cast<decltype(&cuLaunchKernel)>(found);
  void* extra[] = {CU_LAUNCH_PARAM_BUFFER_POINTER, arguments, CU_LAUNCH_PARAM_BUFFER_SIZE, &bytes, CU_LAUNCH_PARAM_END};
  ASSERT_EQ(launch_kernel(function, 1, 1, 1, threads, 1, 1, 0, current_stream().native(), nullptr, extra),
            CUDA_SUCCESS);
}

}  // namespace reprise::test
