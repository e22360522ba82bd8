// SPDX-License-Identifier: Apache-2.0
#include "reprise/error.h"

#include <dlfcn.h>

#include <algorithm>
#include <iterator>
#include <utility>

#include "backend/user_code.h"
#include "reprise/capture_report.h"
#include "reprise/detail/public_call.h"
#include "text/format.h"

namespace reprise {
namespace {

struct Text {
  ErrorCode code;
  const char* name;
  const char* description;
};

constexpr Text texts[] = {
    {ErrorCode::success, "cudaSuccess", "no error"},
    {ErrorCode::invalid_value, "cudaErrorInvalidValue", "an argument is outside of what the call accepts"},
    {ErrorCode::out_of_memory, "cudaErrorMemoryAllocation", "there is not enough memory"},
    {ErrorCode::not_initialized, "cudaErrorInitializationError", "the driver is not initialised or could not be"},
    {ErrorCode::invalid_device_function, "cudaErrorInvalidDeviceFunction",
     "the kernel was not compiled for this device"},
    {ErrorCode::no_device, "cudaErrorNoDevice", "no device was found"},
    {ErrorCode::invalid_device, "cudaErrorInvalidDevice", "there is no device with this number, or it cannot do this"},
    {ErrorCode::operating_system, "cudaErrorOperatingSystem", "a call of the operating system failed"},
    {ErrorCode::invalid_handle, "cudaErrorInvalidResourceHandle",
     "a stream, event or graph is not valid, or belongs to another device"},
    {ErrorCode::illegal_state, "cudaErrorIllegalState", "an object is not in a state in which this call is allowed"},
    {ErrorCode::not_ready, "cudaErrorNotReady", "the queried work is not complete"},
    {ErrorCode::illegal_address, "cudaErrorIllegalAddress",
     "earlier work touched memory that it must not; the device is unusable now"},
    {ErrorCode::context_is_destroyed, "cudaErrorContextIsDestroyed", "what the call needs was destroyed"},
    {ErrorCode::launch_failure, "cudaErrorLaunchFailure",
     "earlier work failed while it ran; the device is unusable now"},
    {ErrorCode::cooperative_launch_too_large, "cudaErrorCooperativeLaunchTooLarge",
     "more blocks than the device can hold at once"},
    {ErrorCode::not_permitted, "cudaErrorNotPermitted", "the call is not permitted here"},
    {ErrorCode::not_supported, "cudaErrorNotSupported", "the device or the driver does not support this"},
    {ErrorCode::stream_capture_unsupported, "cudaErrorStreamCaptureUnsupported",
     "the call is not permitted while a stream is being captured"},
    {ErrorCode::stream_capture_invalidated, "cudaErrorStreamCaptureInvalidated", "an earlier error broke the capture"},
    {ErrorCode::stream_capture_merge, "cudaErrorStreamCaptureMerge",
     "the call would have joined two captures that are independent"},
    {ErrorCode::stream_capture_unmatched, "cudaErrorStreamCaptureUnmatched",
     "the capture did not begin on this stream"},
    {ErrorCode::stream_capture_unjoined, "cudaErrorStreamCaptureUnjoined",
     "a stream that was forked from the capture was not joined back"},
    {ErrorCode::stream_capture_isolation, "cudaErrorStreamCaptureIsolation",
     "captured work would have depended on work outside of the capture"},
    {ErrorCode::stream_capture_implicit, "cudaErrorStreamCaptureImplicit",
     "the legacy default stream would have had to wait for a stream that is being captured"},
    {ErrorCode::captured_event, "cudaErrorCapturedEvent",
     "the event was last recorded in a capture and never happens outside of it"},
    {ErrorCode::stream_capture_wrong_thread, "cudaErrorStreamCaptureWrongThread",
     "the capture began on another thread, in a mode other than relaxed"},
    {ErrorCode::graph_exec_update_failure, "cudaErrorGraphExecUpdateFailure",
     "the executable graph cannot become what the other graph is"},
    {ErrorCode::unknown, "cudaErrorUnknown", "an unknown error"},
    // Codes that are no enumerators, since no code compares with them.
    {ErrorCode{209}, "cudaErrorNoKernelImageForDevice",
     "the kernel has no machine code for this GPU, nor PTX that its driver can compile"},
    {ErrorCode{803}, "cudaErrorSystemDriverMismatch",
     "the versions of the display driver and of libcuda do not fit together; install both from one release, and "
     "restart"},
    {ErrorCode{804}, "cudaErrorCompatNotSupportedOnDevice",
     "the libcuda found is for forward compatibility, which this GPU does not support; remove the folder "
     "`compat` of CUDA from the library path"},
};

// Null for a code that is none of these.
const Text* text_of(ErrorCode code) noexcept {
  const Text* const found = std::ranges::find(texts, code, &Text::code);
  return found != std::end(texts) ? found : nullptr;
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
  if (const Text* const text = text_of(result)) return text->name;
  const char* const name = name_in_driver(result);
  return name != nullptr ? name : "cudaErrorUnknown";
}

const char* result_description(ErrorCode result) noexcept {
  const Text* const text = text_of(result);
  return text != nullptr ? text->description : "a code of CUDA that this library never expects";
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
