// SPDX-License-Identifier: Apache-2.0
#include "backend/own_kernels.h"

#include <mutex>

#include "backend/cuda/driver_api.h"

#ifdef REPRISE_OWN_KERNELS
// The output of nvcc, unchanged.
__asm__(
    ".pushsection .rodata\n"
    ".balign 64\n"
    ".hidden reprise_own_kernels\n"
    ".globl reprise_own_kernels\n"
    "reprise_own_kernels: .incbin \"" REPRISE_OWN_KERNELS
    "\"\n"
    ".popsection\n");
extern "C" const unsigned char reprise_own_kernels[];
#endif

namespace reprise::backend {

#ifdef REPRISE_OWN_KERNELS

namespace {

// A library belongs to no context: its kernels are loaded at their first use in each. Never unloaded; a failure,
// perhaps for lack of memory, is retried.
CUresult load(const cuda::DriverApi& driver, CUlibrary* library) {
  static std::mutex mutex;
  static CUlibrary loaded = nullptr;
  const std::lock_guard lock(mutex);
  CUresult result = CUDA_SUCCESS;
  if (loaded == nullptr)
    result = driver.cuLibraryLoadData(&loaded, reprise_own_kernels, nullptr, nullptr, 0, nullptr, nullptr, 0);
  *library = loaded;
  return result;
}

}  // namespace

bool has_own_kernels() noexcept {
  return true;
}

int find_own_kernel(const KernelRecord& kernel, FunctionHandle* function) {
  const cuda::DriverApi& driver = cuda::opened_driver().api;
  CUlibrary library = nullptr;
  CUkernel found = nullptr;
  CUresult result = load(driver, &library);
  if (result == CUDA_SUCCESS)
    result = driver.cuLibraryGetKernel(&found, library, static_cast<const char*>(kernel.symbol));
  return result == CUDA_SUCCESS ? driver.cuKernelGetFunction(function, found) : result;
}

#else

bool has_own_kernels() noexcept {
  return false;
}

int find_own_kernel(const KernelRecord&, FunctionHandle*) {
  return CUDA_ERROR_NOT_FOUND;
}

#endif

}  // namespace reprise::backend
