// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <atomic>
#include <cstdint>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

#include "backend/call.h"
#include "backend/capture_findings.h"
#include "backend/cuda/driver_api.h"

// Which call broke a capture, as far as that can be known without CUPTI: of our own calls all, of others what the
// driver's error log says.

namespace reprise::backend::cuda {

/// A call of the backend, and the stream that it works on.
struct CallSite {
  constexpr CallSite(Call what) : call(what) {}  // NOLINT(google-explicit-constructor): most have no stream
  constexpr CallSite(Call what, StreamHandle on) : call(what), stream(on), has_stream(true) {}
  Call call;
  StreamHandle stream = nullptr;
  bool has_stream = false;
};

/// The captures that the backends of this process began and that were not ended by them. While there is none, a call
/// that fails costs one load more; a call that works costs nothing. Thread-safe.
class CaptureWatch {
 public:
  static CaptureWatch& instance();

  /// The calling thread began to capture the stream.
  void began(const DriverApi& driver, CUstream stream);
  /// It does not capture any more.
  void ended(CUstream stream);
  /// A call of ours failed on the calling thread: if a capture is broken since, this is the call that broke it.
  void failed(const DriverApi& driver, const CallSite& site, CUresult result) {
    if (underway_.load(std::memory_order_relaxed) > 0) note_failure(driver, site, result);
  }
  /// In a sentence, which call broke the capture that a call on `stream` was refused for (901); empty if unknown.
  std::string first_error(const DriverApi& driver, CUstream stream) const;
  /// What is known of the capture of a stream.
  CaptureFindings describe(const DriverApi& driver, CUstream stream) const;

 private:
  struct Entry {
    // The handle of the per-thread stream means another stream on each thread: only the capture's own thread can ask.
    bool is_of(CUstream asked) const;
    bool can_be_asked() const;

    CUstream stream;
    CUgraph graph;  // what is captured to
    std::uint64_t thread;
    std::string thread_in_log;                  // as the driver's log writes it
    std::optional<CUlogIterator> log_position;  // where the log stood at the beginning
    std::optional<CaptureFindings::Call> broken_by;
    std::optional<std::size_t> nodes;  // then
  };
  void note_failure(const DriverApi& driver, const CallSite& site, CUresult result);
  /// Is there a capture that the call has broken?
  bool blame(const DriverApi& driver, const CallSite& site, Result code);

  std::atomic<int> underway_{0};
  mutable std::mutex mutex_;
  std::vector<Entry> entries_;
};

}  // namespace reprise::backend::cuda
