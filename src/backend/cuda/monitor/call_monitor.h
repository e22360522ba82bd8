// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <atomic>
#include <cstdint>
#include <functional>
#include <mutex>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "backend/capture_findings.h"
#include "reprise/handles.h"
#include "reprise/stream.h"

// The effect of a process's calls on its captures: calls in, CaptureFindings out. The source of the calls is
// cupti_watch.h.

namespace reprise::backend::cuda {

/// The queries of a monitor to the driver. None changes a capture.
class CaptureQueries {
 public:
  virtual ~CaptureQueries() = default;
  /// nullopt if the driver refuses. Never called for the legacy default stream.
  virtual std::optional<CaptureStatus> status(StreamHandle stream) = 0;
  /// The graph that a stream is captured to; null if unknown.
  virtual GraphHandle captured_graph(StreamHandle stream) = 0;
  virtual std::optional<std::size_t> node_count(GraphHandle graph) = 0;
  /// True if the calling thread exchanged its capture mode for the relaxed one.
  virtual bool is_relaxed() = 0;
  /// The device of the calling thread, as `cuda:0`; empty if it has none.
  virtual std::string device() = 0;
};

/// A call of the driver.
struct DriverCall {
  enum class Kind : std::uint8_t {
    other,
    query,        ///< queries a capture or an earlier error: its result is no failure
    work,         ///< on a stream: a node, if the stream captures
    capture,      ///< begins a capture
    end_capture,  ///< ends one
    end_stream,   ///< destroys a stream
    end_context,  ///< destroys all streams of an unknown context
  };
  const char* name = "";  ///< the driver's, with its version; lives as long as the process
  Kind kind = Kind::other;
  /// The stream parameter, null for the legacy default stream; nullopt without one.
  std::optional<StreamHandle> stream = {};
  const void* context = nullptr;  ///< the calling thread's current one
  CaptureMode mode = {};          ///< of a capture that begins
};

/// A call that failed.
struct FailedCall {
  const char* name;
  const char* driver_name;  ///< the driver's call; null if it is not known
  ErrorCode result;
  std::optional<StreamHandle> stream;
  bool is_work;
};

/// Watches all captures of a process that begin while its calls are reported here.
///
///     runtime_begins [begins ends]... runtime_ends        a call of the runtime, and what it does on the driver
///     begins ends                                         a call of the driver's own interface
///
/// All on the thread of the call, except for calls made while querying() is true: those are the monitor's own. A
/// capture is watched from the end of the call that begins it to the end of the call that ends it.
///
/// Thread-safe. The driver is queried under the monitor's lock: calls are reported at their border, where a thread
/// holds none of the driver's locks, and no query waits for work; so no stream is destroyed during a query. Stacks are
/// taken without the lock, because that takes the loader's, under which other code calls CUDA.
class CallMonitor {
 public:
  /// \param driver must outlive this object.
  explicit CallMonitor(CaptureQueries& driver);

  /// True if the calling thread is within a query of a monitor.
  static bool querying() noexcept;

  void runtime_begins(const char* name) noexcept;
  void runtime_ends(const char* name, ErrorCode result);
  void begins(const DriverCall& call);
  void ends(const DriverCall& call, ErrorCode result);

  /// Returns the findings of the stream's capture, or of its last one; nullopt if there is none.
  std::optional<CaptureFindings> describe(StreamHandle stream);

  /// Gets the findings of each capture that is over, on the thread that ended it. To be set before the first call.
  void on_finished(std::function<void(const CaptureFindings&)> sink) { finished_sink_ = std::move(sink); }

  /// Passes captures underway to the sink at the end of the process, without querying the driver.
  void process_ends();

  /// Discards all captures, and the state of threads: the next call is the first one.
  void forget();

 private:
  struct WatchedCapture {
    std::uint64_t number;  ///< assigned by the monitor, from 1
    const void* context;
    GraphHandle graph;  ///< alive until the capture is ended
    CaptureFindings findings;
    bool ending = false;  ///< its end has begun, on some thread: the graph may be destroyed at any moment
  };
  using Numbers = std::vector<std::uint64_t>;

  void begun(const DriverCall& call);
  void begin_to_end(StreamHandle stream);
  void failed_at(const DriverCall& call, ErrorCode result);
  bool ended(const DriverCall& call, ErrorCode result);
  void abandon(const DriverCall& call);
  void executed(const DriverCall& call);
  bool broke_a_capture(const FailedCall& failure);
  void refuse(const FailedCall& failure);

  // With the lock held.
  WatchedCapture* find(std::uint64_t number);
  std::optional<CaptureStatus> query(std::optional<StreamHandle> stream);
  void keep(CaptureFindings findings);

  CaptureQueries& driver_;
  std::function<void(const CaptureFindings&)> finished_sink_;
  std::atomic<int> underway_{0};           ///< the size of captures_
  std::atomic<std::uint64_t> generation_;  ///< of the state of threads
  std::atomic<std::uint64_t> last_number_ = 0;
  std::mutex mutex_;
  std::vector<WatchedCapture> captures_;
  std::vector<CaptureFindings> finished_;  ///< the last one of each stream
};

}  // namespace reprise::backend::cuda
