// SPDX-License-Identifier: Apache-2.0
#include "backend/own_kernels.h"

#include <mutex>

#include "backend/cuda/driver_api.h"

#ifdef REPRISE_OWN_KERNELS
// The output of nvcc, unchanged.
#define REPRISE_DATA(name, file)                   \
  __asm__(                                         \
      ".pushsection .rodata\n"                     \
      ".balign 64\n"                               \
      ".hidden " name                              \
      "\n"                                         \
      ".globl " name "\n" name ": .incbin \"" file \
      "\"\n"                                       \
      ".popsection\n")
REPRISE_DATA("reprise_own_kernels", REPRISE_OWN_KERNELS);
REPRISE_DATA("reprise_condition_kernel", REPRISE_CONDITION_KERNEL);
extern "C" const unsigned char reprise_own_kernels[];
extern "C" const unsigned char reprise_condition_kernel[];
#endif

namespace reprise::backend {

#ifdef REPRISE_OWN_KERNELS

namespace {

// A library belongs to no context: its kernels are loaded at their first use in each. Never unloaded; a failure,
// perhaps for lack of memory, is retried.
class OwnLibrary {
 public:
  constexpr explicit OwnLibrary(const unsigned char* data) : data_(data) {}

  CUresult find(const cuda::DriverApi& driver, const char* name, CUkernel* kernel) {
    const std::lock_guard lock(mutex_);
    if (loaded_ == nullptr) {
      const CUresult result = driver.cuLibraryLoadData(&loaded_, data_, nullptr, nullptr, 0, nullptr, nullptr, 0);
      if (result != CUDA_SUCCESS) return result;
    }
    return driver.cuLibraryGetKernel(kernel, loaded_, name);
  }

 private:
  const unsigned char* const data_;
  std::mutex mutex_;
  CUlibrary loaded_ = nullptr;
};

constinit OwnLibrary own_kernels(reprise_own_kernels);
// Separate, as devices may have code of the others only.
constinit OwnLibrary condition_kernel(reprise_condition_kernel);

}  // namespace

bool has_own_kernels() noexcept {
  return true;
}

int find_own_kernel(const KernelRecord& kernel, FunctionHandle* function) {
  const cuda::DriverApi& driver = cuda::opened_driver().api;
  const auto* const name = static_cast<const char*>(kernel.symbol);
  CUkernel found = nullptr;
  CUresult result = own_kernels.find(driver, name, &found);
  if (result == CUDA_ERROR_NOT_FOUND) result = condition_kernel.find(driver, name, &found);
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
