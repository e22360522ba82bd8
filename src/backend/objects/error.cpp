// SPDX-License-Identifier: Apache-2.0
#include "reprise/error.h"

#include <dlfcn.h>

#include <utility>

#include "backend/user_code.h"
#include "reprise/capture_report.h"
#include "reprise/detail/public_call.h"
#include "text/format.h"

namespace reprise {
namespace {

struct Text {
  const char* name;
  const char* description;
};

// Null for a code without an enumerator.
constexpr Text text_of(ErrorCode result) noexcept {
  // Codes that are no enumerators, since no code compares with them.
  switch (static_cast<int>(result)) {
    case 209:
      return {"cudaErrorNoKernelImageForDevice",
              "the kernel has no machine code for this GPU, nor PTX that its driver can compile"};
    case 803:
      return {
          "cudaErrorSystemDriverMismatch",
          "the versions of the display driver and of libcuda do not fit together; install both from one release, and "
          "restart"};
    case 804:
      return {"cudaErrorCompatNotSupportedOnDevice",
              "the libcuda found is for forward compatibility, which this GPU does not support; remove the folder "
              "`compat` of CUDA from the library path"};
    default:
      break;
  }
  switch (result) {
    case ErrorCode::success:
      return {"cudaSuccess", "no error"};
    case ErrorCode::invalid_value:
      return {"cudaErrorInvalidValue", "an argument is outside of what the call accepts"};
    case ErrorCode::out_of_memory:
      return {"cudaErrorMemoryAllocation", "there is not enough memory"};
    case ErrorCode::not_initialized:
      return {"cudaErrorInitializationError", "the driver is not initialised or could not be"};
    case ErrorCode::invalid_device_function:
      return {"cudaErrorInvalidDeviceFunction", "the kernel was not compiled for this device"};
    case ErrorCode::no_device:
      return {"cudaErrorNoDevice", "no device was found"};
    case ErrorCode::invalid_device:
      return {"cudaErrorInvalidDevice", "there is no device with this number, or it cannot do this"};
    case ErrorCode::operating_system:
      return {"cudaErrorOperatingSystem", "a call of the operating system failed"};
    case ErrorCode::invalid_handle:
      return {"cudaErrorInvalidResourceHandle", "a stream, event or graph is not valid, or belongs to another device"};
    case ErrorCode::illegal_state:
      return {"cudaErrorIllegalState", "an object is not in a state in which this call is allowed"};
    case ErrorCode::not_ready:
      return {"cudaErrorNotReady", "the queried work is not complete"};
    case ErrorCode::illegal_address:
      return {"cudaErrorIllegalAddress", "earlier work touched memory that it must not; the device is unusable now"};
    case ErrorCode::context_is_destroyed:
      return {"cudaErrorContextIsDestroyed", "what the call needs was destroyed"};
    case ErrorCode::launch_failure:
      return {"cudaErrorLaunchFailure", "earlier work failed while it ran; the device is unusable now"};
    case ErrorCode::cooperative_launch_too_large:
      return {"cudaErrorCooperativeLaunchTooLarge", "more blocks than the device can hold at once"};
    case ErrorCode::not_permitted:
      return {"cudaErrorNotPermitted", "the call is not permitted here"};
    case ErrorCode::not_supported:
      return {"cudaErrorNotSupported", "the device or the driver does not support this"};
    case ErrorCode::stream_capture_unsupported:
      return {"cudaErrorStreamCaptureUnsupported", "the call is not permitted while a stream is being captured"};
    case ErrorCode::stream_capture_invalidated:
      return {"cudaErrorStreamCaptureInvalidated", "an earlier error broke the capture"};
    case ErrorCode::stream_capture_merge:
      return {"cudaErrorStreamCaptureMerge", "the call would have joined two captures that are independent"};
    case ErrorCode::stream_capture_unmatched:
      return {"cudaErrorStreamCaptureUnmatched", "the capture did not begin on this stream"};
    case ErrorCode::stream_capture_unjoined:
      return {"cudaErrorStreamCaptureUnjoined", "a stream that was forked from the capture was not joined back"};
    case ErrorCode::stream_capture_isolation:
      return {"cudaErrorStreamCaptureIsolation", "captured work would have depended on work outside of the capture"};
    case ErrorCode::stream_capture_implicit:
      return {"cudaErrorStreamCaptureImplicit",
              "the legacy default stream would have had to wait for a stream that is being captured"};
    case ErrorCode::captured_event:
      return {"cudaErrorCapturedEvent", "the event was last recorded in a capture and never happens outside of it"};
    case ErrorCode::stream_capture_wrong_thread:
      return {"cudaErrorStreamCaptureWrongThread", "the capture began on another thread, in a mode other than relaxed"};
    case ErrorCode::graph_exec_update_failure:
      return {"cudaErrorGraphExecUpdateFailure", "the executable graph cannot become what the other graph is"};
    case ErrorCode::unknown:
      return {"cudaErrorUnknown", "an unknown error"};
  }
  return {nullptr, nullptr};
}

// The driver's name of a code; null if it has none, or no driver is loaded.
const char* name_in_driver(ErrorCode result) noexcept {
  void* const library = dlopen("libcuda.so.1", RTLD_NOW | RTLD_NOLOAD);
  if (library == nullptr) return nullptr;
  auto* const find = reinterpret_cast<int (*)(int, const char**)>(dlsym(library, "cuGetErrorName"));
  const char* name = nullptr;
  if (find != nullptr && find(static_cast<int>(result), &name) != 0) name = nullptr;
  dlclose(library);
  return name;
}

constinit thread_local const char* call_in_progress = nullptr;

std::string backend_error_text(const std::string& call, ErrorCode code, const std::string& detail,
                               const SourceLocation& where) {
  std::string text = text::format("{}{}{} returned {} ({}): {}", call_in_progress != nullptr ? call_in_progress : "",
                                  call_in_progress != nullptr ? ": " : "", call, static_cast<int>(code),
                                  result_name(code), result_description(code));
  if (!detail.empty()) text += "; " + detail;
  if (where.line != 0) text += text::format(" [{}, {}:{}]", where.function, where.file, where.line);
  return text;
}

}  // namespace

namespace detail {

[[gnu::hot]] PublicCall::PublicCall(const char* name) noexcept : outermost_(call_in_progress == nullptr) {
  if (outermost_) call_in_progress = name;
}

[[gnu::hot]] PublicCall::~PublicCall() {
  if (outermost_) call_in_progress = nullptr;
}

const char* PublicCall::current() noexcept {
  return call_in_progress;
}

}  // namespace detail

namespace backend {

UserCode::UserCode() noexcept : around_(std::exchange(call_in_progress, nullptr)) {}

UserCode::~UserCode() {
  call_in_progress = around_;
}

}  // namespace backend

const char* result_name(ErrorCode result) noexcept {
  if (const char* name = text_of(result).name; name != nullptr) return name;
  const char* const name = name_in_driver(result);
  return name != nullptr ? name : "cudaErrorUnknown";
}

const char* result_description(ErrorCode result) noexcept {
  const char* description = text_of(result).description;
  return description != nullptr ? description : "a code of CUDA that this library never expects";
}

BackendError::BackendError(std::string call, ErrorCode code, const std::string& detail, SourceLocation where)
    : Error(backend_error_text(call, code, detail, where)),
      call_(std::move(call)),
      detail_(detail),
      code_(code),
      where_(where) {}

CaptureError::CaptureError(ErrorCode code, const std::string& what, const CaptureReport& report)
    : Error(what), code_(code), report_(std::make_shared<const CaptureReport>(report)) {}

TimeoutError::TimeoutError(const std::string& what, std::string device, std::string graph, std::string last_mark)
    : Error(what),
      device_(std::make_shared<const std::string>(std::move(device))),
      graph_(std::make_shared<const std::string>(std::move(graph))),
      last_mark_(std::make_shared<const std::string>(std::move(last_mark))) {}

}  // namespace reprise
