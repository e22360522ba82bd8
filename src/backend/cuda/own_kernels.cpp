// SPDX-License-Identifier: Apache-2.0
#include "backend/own_kernels.h"

#include <mutex>

#include "backend/cuda/driver_api.h"
#include "support/immortal.h"
#include "text/format.h"

// The output of a compiler, unchanged.
#define REPRISE_DATA(name, file)                   \
  __asm__(                                         \
      ".pushsection .rodata\n"                     \
      ".balign 64\n"                               \
      ".hidden " name                              \
      "\n"                                         \
      ".globl " name "\n" name ": .incbin \"" file \
      "\"\n"                                       \
      ".popsection\n")
#ifdef REPRISE_OWN_KERNELS
REPRISE_DATA("reprise_own_kernels", REPRISE_OWN_KERNELS);
REPRISE_DATA("reprise_condition_kernel", REPRISE_CONDITION_KERNEL);
extern "C" const unsigned char reprise_own_kernels[];
extern "C" const unsigned char reprise_condition_kernel[];
#endif
#ifdef REPRISE_OWN_PTX
REPRISE_DATA("reprise_own_ptx", REPRISE_OWN_PTX);
extern "C" const unsigned char reprise_own_ptx[];
#endif

namespace reprise::backend {
namespace {

// Code that nvcc compiled, and its version of CUDA; null if nvcc was not found.
#ifdef REPRISE_OWN_KERNELS
constexpr bool has_nvcc = true;
constexpr const unsigned char* from_nvcc = reprise_own_kernels;
constexpr const unsigned char* condition_from_nvcc = reprise_condition_kernel;
constexpr int nvcc_version = REPRISE_OWN_KERNELS_VERSION;
#else
constexpr bool has_nvcc = false;
constexpr const unsigned char* from_nvcc = nullptr;
constexpr const unsigned char* condition_from_nvcc = nullptr;
constexpr int nvcc_version = 0;
#endif
#ifdef REPRISE_OWN_PTX
constexpr bool has_nvrtc = true;
constexpr const unsigned char* from_nvrtc = reprise_own_ptx;
#else
constexpr bool has_nvrtc = false;
constexpr const unsigned char* from_nvrtc = nullptr;
#endif

// A library belongs to no context: its kernels are loaded at their first use in each. Never unloaded; a failure,
// perhaps for lack of memory, is retried.
class OwnLibrary {
 public:
  CUresult find(const cuda::DriverApi& driver, const unsigned char* data, const char* name, CUkernel* kernel) {
    if (data == nullptr) return CUDA_ERROR_NOT_FOUND;
    const std::lock_guard lock(mutex_);
    if (loaded_ == nullptr) {
      const CUresult result = driver.cuLibraryLoadData(&loaded_, data, nullptr, nullptr, 0, nullptr, nullptr, 0);
      if (result != CUDA_SUCCESS) return result;
    }
    return driver.cuLibraryGetKernel(kernel, loaded_, name);
  }

 private:
  std::mutex mutex_;
  CUlibrary loaded_ = nullptr;
};

constinit OwnLibrary own_kernels;
// Separate, as devices may have code of the others only.
constinit OwnLibrary condition_kernel;

/// \param other what else can be done about a driver that is too old for nvcc's code.
std::string why_unavailable(const char* other) {
  if (!has_nvcc)
    return text::format(
        "this build has none: CMake found no nvcc that works, or REPRISE_OWN_KERNELS was OFF. Its output says which. "
        "Build it again with nvcc{}",
        other);
  const int version = cuda::opened_driver().api.version;
  if (version == 0 || takes_code_of(nvcc_version, version)) return {};
  return text::format(
      "this build has code for drivers of CUDA {} and later, but the driver here is of CUDA {}: install a newer "
      "driver, or build with nvcc of CUDA {}{}",
      nvcc_version / 1000, cuda::version_text(version), version / 1000, other);
}

}  // namespace

const std::string& own_kernels_unavailable() {
  static const support::Immortal<std::string> why(has_nvrtc ? std::string()
                                                            : why_unavailable(" or with NVRTC (scripts/setup-nvrtc)"));
  return *why;
}

const std::string& condition_kernel_unavailable() {
  static const support::Immortal<std::string> why(why_unavailable(""));
  return *why;
}

const std::string& branches_unavailable() {
  static const support::Immortal<std::string> why(cuda::branches_unavailable(cuda::opened_driver().api.version));
  return *why;
}

int find_own_kernel(const KernelRecord& kernel, FunctionHandle* function) {
  const cuda::DriverApi& driver = cuda::opened_driver().api;
  const auto* const name = static_cast<const char*>(kernel.symbol);
  const bool by_nvcc = has_nvcc && (takes_code_of(nvcc_version, driver.version) || !has_nvrtc);
  CUkernel found = nullptr;
  CUresult result = own_kernels.find(driver, by_nvcc ? from_nvcc : from_nvrtc, name, &found);
  if (result == CUDA_ERROR_NOT_FOUND) result = condition_kernel.find(driver, condition_from_nvcc, name, &found);
  return result == CUDA_SUCCESS ? driver.cuKernelGetFunction(function, found) : result;
}

}  // namespace reprise::backend
