// SPDX-License-Identifier: Apache-2.0
#include "backend/own_kernels.h"

#include "backend/cuda/driver_api.h"

#ifdef REPRISE_OWN_KERNELS
// The file that nvcc made, as it is.
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

struct Loaded {
  CUlibrary library = nullptr;
  CUresult result = CUDA_SUCCESS;
};

// A library belongs to no context: its kernels are loaded where they are asked for. Never unloaded.
const Loaded& loaded(const cuda::DriverApi& driver) {
  static const Loaded once = [&] {
    Loaded made;
    made.result =
        driver.cuLibraryLoadData(&made.library, reprise_own_kernels, nullptr, nullptr, 0, nullptr, nullptr, 0);
    return made;
  }();
  return once;
}

}  // namespace

bool has_own_kernels() noexcept {
  return true;
}

int find_own_kernel(const KernelRecord& kernel, FunctionHandle* function) {
  const cuda::DriverApi& driver = cuda::opened_driver().api;
  const Loaded& own = loaded(driver);
  if (own.result != CUDA_SUCCESS) return own.result;
  CUkernel found = nullptr;
  const CUresult result = driver.cuLibraryGetKernel(&found, own.library, static_cast<const char*>(kernel.symbol));
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
