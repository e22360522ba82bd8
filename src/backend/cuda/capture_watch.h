// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <pthread.h>

#include <atomic>
#include <cstdint>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

#include "backend/call.h"
#include "backend/capture_findings.h"
#include "backend/cuda/driver_api.h"
#include "backend/rules/call_stack.h"
#include "support/immortal.h"

// Finds the call that broke a capture, without CUPTI: any call of this library; other calls if the driver's error log
// names them.

namespace reprise::backend::cuda {

/// A call of the backend, and its stream.
struct CallSite {
  constexpr CallSite(Call what) : call(what) {}  // NOLINT(google-explicit-constructor): most have no stream
  constexpr CallSite(Call what, StreamHandle on) : call(what), stream(on), has_stream(true) {}
  Call call;
  StreamHandle stream = nullptr;
  bool has_stream = false;
};

/// True if the stream takes part in a capture. False for the legacy stream, which must not be queried.
bool takes_part(const DriverApi& driver, CUstream stream);

/// The captures begun by the backends of this process and not ended by them. While there is none, a failed call costs
/// one more load; a successful call costs nothing. Thread-safe.
class CaptureWatch {
 public:
  static CaptureWatch& instance() { return support::Immortal<CaptureWatch>::get(); }

  /// Adds a capture of the stream, begun by the calling thread.
  void began(const DriverApi& driver, CUstream stream);
  /// Removes it.
  void ended(CUstream stream);
  /// Notes a failed call of this library on the calling thread: if a capture is broken since, this call broke it.
  void failed(const DriverApi& driver, const CallSite& site, CUresult result) {
    if (underway_.load(std::memory_order_relaxed) > 0) note_failure(driver, site, result);
  }
  /// A sentence on the call that broke the capture, for a call on `stream` that was refused with 901; empty if unknown.
  std::string first_error(const DriverApi& driver, CUstream stream) const;
  /// Returns the findings of the stream's capture.
  CaptureFindings describe(const DriverApi& driver, CUstream stream) const;

 private:
  struct Entry {
    // The handle of the per-thread stream is another stream on each thread: only the capturing thread can query it.
    bool is_of(CUstream other) const { return stream == other && can_be_queried(); }
    bool can_be_queried() const { return stream != CU_STREAM_PER_THREAD || thread == thread_number(); }

    CUstream stream;
    CUgraph graph;  // being captured to
    std::uint64_t thread;
    pthread_t thread_in_log;                  // log_name() of it is in the driver's log
    std::optional<LogIterator> log_position;  // the end of the log at the beginning
    std::optional<CaptureFindings::ObservedCall> broken_by;
    std::optional<std::size_t> nodes;  // then
  };
  void note_failure(const DriverApi& driver, const CallSite& site, CUresult result);
  /// True if the call has broken a capture.
  bool blame(const DriverApi& driver, const CallSite& site, ErrorCode code);

  std::atomic<int> underway_{0};
  mutable std::mutex mutex_;
  std::vector<Entry> entries_;
};

}  // namespace reprise::backend::cuda
