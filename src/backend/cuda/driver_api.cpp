// SPDX-License-Identifier: Apache-2.0
#include "backend/cuda/driver_api.h"

#include <dlfcn.h>

#include <type_traits>

#include "backend/reported_version.h"
#include "reprise/error.h"
#include "support/forked.h"
#include "support/immortal.h"
#include "text/format.h"

namespace reprise::backend::cuda {
namespace {

std::string failed(const char* call, CUresult result) {
  const auto code = static_cast<ErrorCode>(result);
  return text::format("libcuda.so.1 is there, but {} returned {} ({}): {}", call, static_cast<int>(result),
                      result_name(code), result_description(code));
}

/// A function of a driver that may be of any version; null if it has none.
template <class Function>
Function exported(void* library, const char* name) {
  return reinterpret_cast<Function>(dlsym(library, name));
}

/// True if a driver that is not used has devices; false where it was installed without one, or the user hides them.
bool has_devices(void* library) {
  auto* const init = exported<CUresult (*)(unsigned)>(library, "cuInit");
  auto* const count = exported<CUresult (*)(int*)>(library, "cuDeviceGetCount");
  int devices = 0;
  return init != nullptr && count != nullptr && init(0) == CUDA_SUCCESS && count(&devices) == CUDA_SUCCESS &&
         devices > 0;
}

/// "; found: CUDA 12.3" for a driver that reports its version.
std::string version_found(const DriverApi& api) {
  return api.version != 0 ? "; found: CUDA " + version_text(api.version) : std::string();
}

/// Fills the table; returns the reason if that is not possible.
std::string find_functions(void* library, DriverApi& api) {
  api.version = reported_version(library);
  auto* const find = reinterpret_cast<PFN_cuGetProcAddress_v12000>(dlsym(library, "cuGetProcAddress_v2"));
  const std::string too_old = text::format("the driver in libcuda.so.1 is older than CUDA {}, which is needed{}",
                                           version_text(oldest_driver), version_found(api));
  if (find == nullptr) return too_old;
  // The version first: an old driver lacks other functions, too, whose names are less helpful.
  if (api.version < oldest_driver) return too_old;
  const auto get = [&](const char* name, int since, auto& function) {
    void* address = nullptr;
    if (since > api.version) return false;
    const CUresult result = find(name, &address, since, CU_GET_PROC_ADDRESS_DEFAULT, nullptr);
    if (result != CUDA_SUCCESS || address == nullptr) return false;
    function = reinterpret_cast<std::remove_reference_t<decltype(function)>>(address);
    return true;
  };
  const auto lacks = [&](const char* name) {
    return text::format("the driver in libcuda.so.1 lacks {}, which CUDA {} has and this library needs{}", name,
                        version_text(oldest_driver), version_found(api));
  };
#define REPRISE_CUDA_FIND(name, since) \
  if (!get(#name, since, api.name)) return lacks(#name);
  REPRISE_CUDA_DRIVER_CALLS(REPRISE_CUDA_FIND)
#undef REPRISE_CUDA_FIND
#define REPRISE_CUDA_FIND(name, since, type) (void)get(#name, since, api.name);
  REPRISE_CUDA_OPTIONAL_DRIVER_CALLS(REPRISE_CUDA_FIND)
#undef REPRISE_CUDA_FIND
  // The first form of the function has the same parameters.
  if (api.cuEventElapsedTime == nullptr && !get("cuEventElapsedTime", 2000, api.cuEventElapsedTime))
    return lacks("cuEventElapsedTime");
  return {};
}

OpenedDriver open_driver() {
  OpenedDriver driver;
  void* const library = dlopen("libcuda.so.1", RTLD_NOW | RTLD_LOCAL);
  if (library == nullptr) {
    const char* const why = dlerror();
    driver.unavailable = text::format("CUDA's driver could not be opened: {}", why != nullptr ? why : "libcuda.so.1");
    return driver;
  }
  driver.unavailable = find_functions(library, driver.api);
  if (!driver.unavailable.empty()) {
    driver.passes_over = has_devices(library);
    return driver;
  }
  support::watch_forks();
  if (const CUresult result = driver.api.cuInit(0); result != CUDA_SUCCESS) {
    driver.unavailable =
        failed("cuInit", result) + text::format("; a driver of CUDA {} or newer is needed{}",
                                                version_text(oldest_driver), version_found(driver.api));
    // A stub stands in for the driver where programs are only linked.
    driver.passes_over = result != CUDA_ERROR_NO_DEVICE && result != CUDA_ERROR_STUB_LIBRARY;
  } else if (const CUresult counted = driver.api.cuDeviceGetCount(&driver.device_count); counted != CUDA_SUCCESS) {
    driver.unavailable = failed("cuDeviceGetCount", counted);
    driver.passes_over = true;
  } else if (driver.device_count == 0) {
    driver.unavailable = "libcuda.so.1 is there, but it knows no device";
  }
  return driver;
}

}  // namespace

std::string version_text(int version) {
  return text::format("{}.{}", version / 1000, version % 1000 / 10);
}

std::string branches_unavailable(int version) {
  if (version == 0 || version >= first_driver_with_switch) return {};
  return text::format(
      "conditional nodes of type switch, and of type if with two bodies, need a driver of CUDA {} or newer; found: "
      "CUDA {}. Use one if for each case, or install a newer driver",
      version_text(first_driver_with_switch), version_text(version));
}

const OpenedDriver& opened_driver() {
  static const support::Immortal<OpenedDriver> driver(open_driver());
  return *driver;
}

}  // namespace reprise::backend::cuda
