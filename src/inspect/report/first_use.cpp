// SPDX-License-Identifier: Apache-2.0
#include "inspect/report/first_use.h"

#include <algorithm>
#include <array>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "backend/rules/first_use_calls.h"
#include "text/format.h"

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

// The end of a library's use frees and synchronizes as well: "cublasDestroy_v2 at file+0x12".
bool destroys(const std::vector<std::string>& stack) {
  return std::ranges::any_of(stack, [](std::string_view line) {
    const std::size_t at = line.rfind(" at ");
    return at != std::string_view::npos && line.substr(0, at).find("Destroy") != std::string_view::npos;
  });
}

// The outermost one is that which the program uses. Null if there is none.
const char* outermost_library(const std::vector<std::string>& stack) {
  for (auto line = stack.rbegin(); line != stack.rend(); ++line)
    if (const char* const library = library_of(*line)) return library;
  return nullptr;
}

}  // namespace

std::string first_use_of(const CaptureReport::Call& call) {
  const std::string_view driver = call.driver_name;
  const bool is_load = backend::loads_code(call.name) || backend::loads_code(driver);
  if (!is_load && ((!backend::prepares(call.name) && !backend::prepares(driver)) || destroys(call.stack))) return {};
  if (const char* const library = outermost_library(call.stack)) return library;
  return is_load ? "a library or a kernel" : "";
}

std::vector<std::string> first_use_notes(std::span<const backend::CaptureFindings::ObservedCall> calls) {
  std::vector<std::string> found, notes;
  for (const backend::CaptureFindings::ObservedCall& call : calls) {
    const char* const library = destroys(call.stack) ? nullptr : outermost_library(call.stack);
    if (library == nullptr || std::ranges::find(found, library) != found.end()) continue;
    found.emplace_back(library);
    notes.push_back(text::format(
        "The capture seems to contain the first use of {}: {} was called there, and succeeded. A library loads code, "
        "makes handles and allocates memory at its first use, which is no part of the graph. Run the work once "
        "before the capture: GraphOptions::warmup = 1, or call the body before capture_begin().",
        library, call.name));
  }
  return notes;
}

}  // namespace reprise::inspect
