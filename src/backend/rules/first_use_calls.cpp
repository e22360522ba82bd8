// SPDX-License-Identifier: Apache-2.0
#include "backend/rules/first_use_calls.h"

#include <algorithm>

namespace reprise::backend {

bool begins_with_one_of(std::string_view name, std::span<const std::string_view> beginnings) noexcept {
  return std::ranges::any_of(beginnings, [&](std::string_view each) { return name.starts_with(each); });
}

bool loads_code(std::string_view name) noexcept {
  static constexpr std::string_view beginnings[] = {
      "cuModuleLoad",   "cuLibraryLoad",      "cudaLibraryLoad",      "cuLinkCreate",        "cuLinkAdd",
      "cuLinkComplete", "cuCtxCreate",        "cuDevicePrimaryCtx",   "cudaInitDevice",      "cuInit",
      "cuFuncLoad",     "cuFuncSetAttribute", "cudaFuncSetAttribute", "cuKernelSetAttribute"};
  return begins_with_one_of(name, beginnings);
}

bool prepares(std::string_view name) noexcept {
  static constexpr std::string_view beginnings[] = {"cuMemAlloc",
                                                    "cudaMalloc",
                                                    "cuMemFree",
                                                    "cudaFree",
                                                    "cuMemHost",
                                                    "cudaHost",
                                                    "cuMemPool",
                                                    "cudaMemPool",
                                                    "cuStreamCreate",
                                                    "cudaStreamCreate",
                                                    "cuEventCreate",
                                                    "cudaEventCreate",
                                                    "cuCtxSetLimit",
                                                    "cudaDeviceSetLimit",
                                                    "cuCtxSynchronize",
                                                    "cudaDeviceSynchronize",
                                                    "cuStreamSynchronize",
                                                    "cudaStreamSynchronize",
                                                    "cuMemcpy",
                                                    "cudaMemcpy",
                                                    "cuMemset",
                                                    "cudaMemset"};
  return name.find("Async") == std::string_view::npos && begins_with_one_of(name, beginnings);
}

bool acquires(std::string_view driver_name) noexcept {
  static constexpr std::string_view beginnings[] = {"cuModuleLoad", "cuLibraryLoad",  "cuLinkCreate",   "cuCtxCreate",
                                                    "cuMemAlloc",   "cuMemHostAlloc", "cuStreamCreate", "cuMemCreate"};
  return driver_name.find("Async") == std::string_view::npos && begins_with_one_of(driver_name, beginnings);
}

}  // namespace reprise::backend
