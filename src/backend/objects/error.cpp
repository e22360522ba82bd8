// SPDX-License-Identifier: Apache-2.0
#include "reprise/error.h"

#include <utility>

#include "backend/user_code.h"
#include "reprise/capture_report.h"
#include "reprise/public_call.h"
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

// CUDA's names of the other codes of the driver.
constexpr struct {
  int code;
  const char* name;
} other_names[] = {
    {4, "cudaErrorCudartUnloading"},
    {5, "cudaErrorProfilerDisabled"},
    {6, "cudaErrorProfilerNotInitialized"},
    {7, "cudaErrorProfilerAlreadyStarted"},
    {8, "cudaErrorProfilerAlreadyStopped"},
    {34, "cudaErrorStubLibrary"},
    {46, "cudaErrorDevicesUnavailable"},
    {102, "cudaErrorDeviceNotLicensed"},
    {200, "cudaErrorInvalidKernelImage"},
    {201, "cudaErrorDeviceUninitialized"},
    {205, "cudaErrorMapBufferObjectFailed"},
    {206, "cudaErrorUnmapBufferObjectFailed"},
    {207, "cudaErrorArrayIsMapped"},
    {208, "cudaErrorAlreadyMapped"},
    {210, "cudaErrorAlreadyAcquired"},
    {211, "cudaErrorNotMapped"},
    {212, "cudaErrorNotMappedAsArray"},
    {213, "cudaErrorNotMappedAsPointer"},
    {214, "cudaErrorECCUncorrectable"},
    {215, "cudaErrorUnsupportedLimit"},
    {216, "cudaErrorDeviceAlreadyInUse"},
    {217, "cudaErrorPeerAccessUnsupported"},
    {218, "cudaErrorInvalidPtx"},
    {219, "cudaErrorInvalidGraphicsContext"},
    {220, "cudaErrorNvlinkUncorrectable"},
    {221, "cudaErrorJitCompilerNotFound"},
    {222, "cudaErrorUnsupportedPtxVersion"},
    {223, "cudaErrorJitCompilationDisabled"},
    {224, "cudaErrorUnsupportedExecAffinity"},
    {225, "cudaErrorUnsupportedDevSideSync"},
    {226, "cudaErrorContained"},
    {300, "cudaErrorInvalidSource"},
    {301, "cudaErrorFileNotFound"},
    {302, "cudaErrorSharedObjectSymbolNotFound"},
    {303, "cudaErrorSharedObjectInitFailed"},
    {402, "cudaErrorLossyQuery"},
    {500, "cudaErrorSymbolNotFound"},
    {701, "cudaErrorLaunchOutOfResources"},
    {702, "cudaErrorLaunchTimeout"},
    {703, "cudaErrorLaunchIncompatibleTexturing"},
    {704, "cudaErrorPeerAccessAlreadyEnabled"},
    {705, "cudaErrorPeerAccessNotEnabled"},
    {708, "cudaErrorSetOnActiveProcess"},
    {710, "cudaErrorAssert"},
    {711, "cudaErrorTooManyPeers"},
    {712, "cudaErrorHostMemoryAlreadyRegistered"},
    {713, "cudaErrorHostMemoryNotRegistered"},
    {714, "cudaErrorHardwareStackError"},
    {715, "cudaErrorIllegalInstruction"},
    {716, "cudaErrorMisalignedAddress"},
    {717, "cudaErrorInvalidAddressSpace"},
    {718, "cudaErrorInvalidPc"},
    {721, "cudaErrorTensorMemoryLeak"},
    {802, "cudaErrorSystemNotReady"},
    {805, "cudaErrorMpsConnectionFailed"},
    {806, "cudaErrorMpsRpcFailure"},
    {807, "cudaErrorMpsServerNotReady"},
    {808, "cudaErrorMpsMaxClientsReached"},
    {809, "cudaErrorMpsMaxConnectionsReached"},
    {810, "cudaErrorMpsClientTerminated"},
    {811, "cudaErrorCdpNotSupported"},
    {812, "cudaErrorCdpVersionMismatch"},
    {909, "cudaErrorTimeout"},
    {911, "cudaErrorExternalDevice"},
    {912, "cudaErrorInvalidClusterSize"},
    {913, "cudaErrorFunctionNotLoaded"},
    {914, "cudaErrorInvalidResourceType"},
    {915, "cudaErrorInvalidResourceConfiguration"},
};

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
  for (const auto& other : other_names)
    if (other.code == static_cast<int>(result)) return other.name;
  return "cudaErrorUnknown";
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
