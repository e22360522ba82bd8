// SPDX-License-Identifier: Apache-2.0
#include "cuda_installation.h"

#include <array>
#include <cstddef>

#include "backend/cuda/driver_api.h"
#ifdef REPRISE_HAS_CUPTI
#include "backend/cuda/cupti/cupti_api.h"
#endif
#include "reprise/error.h"
#include "text/format.h"

namespace reprise::tools {
namespace {

namespace cuda = backend::cuda;

std::string failed(const char* call, CUresult result) {
  const auto code = static_cast<ErrorCode>(result);
  return text::format("{} returned {} ({}): {}", call, static_cast<int>(result), result_name(code),
                      result_description(code));
}

/// Returns why the device cannot be used; empty if its context can be made and has memory.
std::string try_out(const cuda::DriverApi& driver, CUdevice device) {
  CUcontext context = nullptr;
  if (const CUresult result = driver.cuDevicePrimaryCtxRetain(&context, device); result != CUDA_SUCCESS)
    return failed("cuDevicePrimaryCtxRetain", result);
  if (const CUresult result = driver.cuCtxPushCurrent(context); result != CUDA_SUCCESS)
    return failed("cuCtxPushCurrent", result);
  std::size_t free = 0, total = 0;
  const CUresult result = driver.cuMemGetInfo(&free, &total);
  (void)driver.cuCtxPopCurrent(&context);
  return result == CUDA_SUCCESS ? std::string() : failed("cuMemGetInfo", result);
}

CudaInstallation::Device describe(const cuda::DriverApi& driver, int ordinal) {
  CudaInstallation::Device found;
  CUdevice device = 0;
  if (const CUresult result = driver.cuDeviceGet(&device, ordinal); result != CUDA_SUCCESS) {
    found.failure = failed("cuDeviceGet", result);
    return found;
  }
  std::array<char, 256> name{};
  if (driver.cuDeviceGetName(name.data(), static_cast<int>(name.size()), device) == CUDA_SUCCESS)
    found.name = name.data();
  int major = 0, minor = 0;
  if (driver.cuDeviceGetAttribute(&major, CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR, device) == CUDA_SUCCESS &&
      driver.cuDeviceGetAttribute(&minor, CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR, device) == CUDA_SUCCESS)
    found.capability = 10 * major + minor;
  found.failure = try_out(driver, device);
  return found;
}

}  // namespace

CudaInstallation find_cuda() {
  const cuda::OpenedDriver& driver = cuda::opened_driver();
  CudaInstallation found;
  found.unavailable = driver.unavailable;
  found.broken = driver.passes_over;
  found.version = driver.api.version;
  for (int i = 0; driver.unavailable.empty() && i < driver.device_count; ++i)
    found.devices.push_back(describe(driver.api, i));
#ifdef REPRISE_HAS_CUPTI
  cuda::OpenedCupti cupti = cuda::opened_cupti();
  found.cupti = std::move(cupti.file);
  found.cupti_unavailable = std::move(cupti.unavailable);
#else
  found.cupti_unavailable = "this build of reprise is without CUPTI (its headers were not found)";
#endif
  return found;
}

}  // namespace reprise::tools
