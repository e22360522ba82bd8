// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <memory>
#include <stdexcept>
#include <string>

#include "reprise/detail/export.h"
#include "reprise/log.h"

/// \file
/// Errors: CUDA's result codes and the exceptions of this library.

namespace reprise {

struct CaptureReport;

/// The result of a backend call. The numbers are CUDA's (`cudaError_t` and `CUresult` agree on all of these), on every
/// backend; a code that is not named here is passed on as the number that it is.
enum class ErrorCode : int {
  success = 0,
  invalid_value = 1,                   ///< an argument is out of range or does not fit the others
  out_of_memory = 2,                   ///< not enough device memory
  not_initialized = 3,                 ///< the device runtime is not available, for example in a child of fork()
  invalid_device_function = 98,        ///< the kernel was not compiled for this device
  no_device = 100,                     ///< there is no device of this kind
  invalid_device = 101,                ///< there is no device with this number
  operating_system = 304,              ///< a call of the operating system failed, for example for lack of threads
  invalid_handle = 400,                ///< not a handle of this runtime, or not one any more
  illegal_state = 401,                 ///< the object is not in the state that the call needs
  not_ready = 600,                     ///< the work has not completed; not a failure
  illegal_address = 700,               ///< work on the device touched memory that it must not
  context_is_destroyed = 709,          ///< the device was shut down
  launch_failure = 719,                ///< work on the device ended abnormally
  cooperative_launch_too_large = 720,  ///< a cooperative launch has more blocks than fit on the device at once
  not_permitted = 800,                 ///< not allowed in this place, for example in a host function
  not_supported = 801,                 ///< not supported by this device
  stream_capture_unsupported = 900,    ///< not allowed while a stream captures
  stream_capture_invalidated = 901,    ///< the capture was broken by an earlier call
  stream_capture_merge = 902,          ///< would join two captures
  stream_capture_unmatched = 903,      ///< the capture began on another stream
  stream_capture_unjoined = 904,       ///< a forked stream was not joined before the end
  stream_capture_isolation = 905,      ///< would make captured work depend on work outside of the capture
  stream_capture_implicit = 906,       ///< would make the legacy default stream wait for the capture
  captured_event = 907,                ///< the event was last recorded in a capture
  stream_capture_wrong_thread = 908,   ///< the capture must end on the thread that began it
  graph_exec_update_failure = 910,     ///< the graph does not fit the executable graph
  unknown = 999,
};

/// CUDA's name of a code, for example `cudaErrorStreamCaptureUnsupported`; `cudaErrorUnknown` for a code without one.
REPRISE_EXPORT const char* result_name(ErrorCode result) noexcept;

/// Meaning of a code, in one sentence without a full stop.
REPRISE_EXPORT const char* result_description(ErrorCode result) noexcept;

/// A place in a source file, filled in by the compiler where it is a default argument.
struct SourceLocation {
  const char* file = "";      ///< path as passed to the compiler
  const char* function = "";  ///< unqualified name
  unsigned line = 0;          ///< from 1; 0 when unknown

  /// The place of the call. (`std::source_location` is not usable with Clang 14 and libstdc++.)
  static constexpr SourceLocation current(const char* file = __builtin_FILE(),
                                          const char* function = __builtin_FUNCTION(),
                                          unsigned line = __builtin_LINE()) {
    return {file, function, line};
  }
};

/// The root of all exceptions of this library.
class REPRISE_EXPORT Error : public std::runtime_error {
 public:
  using std::runtime_error::runtime_error;
};

/// Wrong use of the library. The text says what was expected, what was found and what to do. The refused call changed
/// nothing: the object is as usable as before.
class REPRISE_EXPORT UsageError : public Error {
 public:
  using Error::Error;
};

/// A call of the device runtime failed.
class REPRISE_EXPORT BackendError : public Error {
 public:
  /// The text begins with the function of the library that the calling thread is in, for example `Buffer::write`.
  /// \param call CUDA's name of the call.
  /// \param code what it returned.
  /// \param detail the backend's details beyond the code; may be empty.
  /// \param where the place in this library that made the call.
  BackendError(std::string call, ErrorCode code, const std::string& detail, SourceLocation where);

  const std::string& call() const noexcept { return call_; }       ///< CUDA's name of the call that failed
  ErrorCode code() const noexcept { return code_; }                ///< what it returned
  const std::string& detail() const noexcept { return detail_; }   ///< what is known beyond the code; may be empty
  const SourceLocation& where() const noexcept { return where_; }  ///< the place of the call in this library

 private:
  std::string call_, detail_;
  ErrorCode code_;
  SourceLocation where_;
};

/// A capture failed: it was invalidated, ended in a wrong way, or came out empty. Everything that it had acquired was
/// released; the stream and the graph object can capture again. The text ends with that of the report.
class REPRISE_EXPORT CaptureError : public Error {
 public:
  /// \param code the code with which the capture failed; `ErrorCode::success` for an empty capture.
  /// \param what the whole text.
  /// \param report the report of the capture.
  CaptureError(ErrorCode code, const std::string& what, const CaptureReport& report);

  ErrorCode code() const noexcept { return code_; }  ///< the code with which the capture failed
  /// Report with the call that broke the capture, and more. Lives as long as this exception or a copy of it.
  const CaptureReport& report() const noexcept { return *report_; }

 private:
  ErrorCode code_;
  std::shared_ptr<const CaptureReport> report_;  // so that copying an exception cannot throw
};

/// Nothing was captured, although GraphOptions::allow_empty was not set. Its code is `ErrorCode::success`.
class REPRISE_EXPORT EmptyCaptureError : public CaptureError {
 public:
  /// \param what the whole text.
  /// \param report the report of the capture.
  EmptyCaptureError(const std::string& what, const CaptureReport& report)
      : CaptureError(ErrorCode::success, what, report) {}
};

/// The device has not enough memory. Thrown by the caching allocator after it released all cached memory and tried
/// again. Also thrown in a capture, which stays intact.
class REPRISE_EXPORT OutOfMemoryError : public Error {
 public:
  /// The state of the memory when the request was refused, in bytes.
  struct Statistics {
    std::uint64_t requested = 0;
    std::uint64_t device_free = 0;    ///< as the driver reports
    std::uint64_t device_total = 0;   ///< the device's memory size
    std::uint64_t reserved = 0;       ///< held by the caching allocator, all pools
    std::uint64_t allocated = 0;      ///< of that, in blocks that are in use
    std::uint64_t private_pools = 0;  ///< of `reserved`, held by private pools of graphs
  };

  /// \param what the whole text.
  /// \param statistics the state of the device's memory at the time.
  OutOfMemoryError(const std::string& what, const Statistics& statistics) : Error(what), statistics_(statistics) {}

  const Statistics& statistics() const noexcept { return statistics_; }

 private:
  Statistics statistics_;
};

/// Work did not complete in the time that CUDAGraph::synchronize() was passed. It may still be running, unless the
/// graph held communicators, which were aborted.
class REPRISE_EXPORT TimeoutError : public Error {
 public:
  /// \param what the whole text.
  /// \param device the device of the work, for example `cuda:0`.
  /// \param graph the name of the graph; may be empty.
  /// \param last_mark see last_mark().
  TimeoutError(const std::string& what, std::string device, std::string graph, std::string last_mark);

  const std::string& device() const noexcept { return *device_; }  ///< for example `cuda:0`
  const std::string& graph() const noexcept { return *graph_; }    ///< its GraphOptions::name; empty if it has none
  /// The last scope that the graph had reached, as texts name it, for example `forward, layer=3`; empty if it had
  /// reached none, or was captured without GraphOptions::progress_marks.
  const std::string& last_mark() const noexcept { return *last_mark_; }

 private:
  std::shared_ptr<const std::string> device_, graph_, last_mark_;  // so that copying an exception cannot throw
};

}  // namespace reprise
