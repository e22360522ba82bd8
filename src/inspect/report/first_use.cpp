// SPDX-License-Identifier: Apache-2.0
#include "inspect/report/first_use.h"

#include <algorithm>
#include <array>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace reprise::inspect {
namespace {

struct Library {
  std::string_view file;      // its name begins so
  std::string_view function;  // its functions' names begin so, also where it is linked statically
  const char* name;
};

// The longer of two names with the same beginning comes first.
constexpr std::array libraries = {
    Library{"libcublasLt.", "cublasLt", "cuBLASLt"}, Library{"libcublas.", "cublas", "cuBLAS"},
    Library{"libcudnn", "cudnn", "cuDNN"},           Library{"libnccl", "nccl", "NCCL"},
    Library{"libcusolver", "cusolver", "cuSOLVER"},  Library{"libcusparse", "cusparse", "cuSPARSE"},
    Library{"libcufft", "cufft", "cuFFT"},           Library{"libcurand", "curand", "cuRAND"},
    Library{"libcutensor", "cutensor", "cuTENSOR"},  Library{"libnvrtc", "nvrtc", "NVRTC"},
    Library{"libnvinfer", "nvinfer", "TensorRT"},    Library{"libnvjpeg", "nvjpeg", "nvJPEG"},
};

bool begins_with_one_of(std::string_view name, std::span<const std::string_view> beginnings) {
  return std::ranges::any_of(beginnings, [&](std::string_view each) { return name.starts_with(each); });
}

// A line of a stack: "function at file+0x12", or "file+0x12".
const char* library_of(std::string_view line) {
  const std::size_t at = line.rfind(" at ");
  const std::string_view place = at == std::string_view::npos ? line : line.substr(at + 4);
  const std::string_view file = place.substr(place.rfind('/') + 1);
  const auto found = std::ranges::find_if(libraries, [&](const Library& library) {
    return file.starts_with(library.file) || line.starts_with(library.function);
  });
  return found != libraries.end() ? found->name : nullptr;
}

// Code is loaded, a context is made: what belongs to a first use, in any code.
bool loads(std::string_view name) {
  static constexpr std::array<std::string_view, 14> beginnings = {
      "cuModuleLoad",   "cuLibraryLoad",      "cudaLibraryLoad",      "cuLinkCreate",        "cuLinkAdd",
      "cuLinkComplete", "cuCtxCreate",        "cuDevicePrimaryCtx",   "cudaInitDevice",      "cuInit",
      "cuFuncLoad",     "cuFuncSetAttribute", "cudaFuncSetAttribute", "cuKernelSetAttribute"};
  return begins_with_one_of(name, beginnings);
}

// What the first use of a library does, and other code as well. Work on streams is not of it.
bool prepares(std::string_view name) {
  if (name.find("Async") != std::string_view::npos) return false;
  static constexpr std::array<std::string_view, 22> beginnings = {"cuMemAlloc",
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
  return begins_with_one_of(name, beginnings);
}

// The end of a library's use frees and synchronizes as well: "cublasDestroy_v2 at file+0x12".
bool destroys(const std::vector<std::string>& stack) {
  return std::ranges::any_of(stack, [](std::string_view line) {
    const std::size_t at = line.rfind(" at ");
    return at != std::string_view::npos && line.substr(0, at).find("Destroy") != std::string_view::npos;
  });
}

}  // namespace

std::string first_use_of(const CaptureReport::Call& call) {
  const std::string_view driver = call.driver_name;
  const bool is_load = loads(call.name) || loads(driver);
  if (!is_load && ((!prepares(call.name) && !prepares(driver)) || destroys(call.stack))) return {};
  // The outermost library is the one that the program uses.
  for (auto line = call.stack.rbegin(); line != call.stack.rend(); ++line)
    if (const char* const library = library_of(*line)) return library;
  return is_load ? "a library or a kernel" : "";
}

}  // namespace reprise::inspect
