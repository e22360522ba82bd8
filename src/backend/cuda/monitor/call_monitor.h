// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <atomic>
#include <cstdint>
#include <functional>
#include <mutex>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "backend/capture_findings.h"
#include "reprise/handles.h"
#include "reprise/stream.h"

// What the calls of a process do to its captures: calls in, findings out. Who sees the calls, and how, is left
// to others (cupti_watch.h).

namespace reprise::backend::cuda {

/// What a monitor asks the driver. None of it changes a capture.
class CaptureQueries {
 public:
  virtual ~CaptureQueries() = default;
  /// None if the driver refuses. Never asked about the legacy default stream.
  virtual std::optional<CaptureStatus> status(StreamHandle stream) = 0;
  /// The graph that a stream is captured to; null if that is not known.
  virtual GraphHandle captured_graph(StreamHandle stream) = 0;
  virtual std::optional<std::size_t> node_count(GraphHandle graph) = 0;
  /// The device of the calling thread, as `cuda:0`; empty if it has none.
  virtual std::string device() = 0;
};

/// A call of the driver.
struct DriverCall {
  enum class Kind : std::uint8_t {
    other,
    question,     ///< about a capture, or about an earlier error: what it returns is no failure
    work,         ///< on a stream: a node, if the stream captures
    capture,      ///< begins a capture
    end_capture,  ///< ends one
    end_stream,   ///< destroys a stream
    end_context,  ///< destroys all streams of a context, whichever it is
  };
  const char* name = "";  ///< the driver's, with its version; lives as long as the process
  Kind kind = Kind::other;
  /// The stream that it works on, null for the legacy default stream; none if it takes no stream.
  std::optional<StreamHandle> stream = {};
  const void* context = nullptr;  ///< the calling thread's current one
  CaptureErrorMode mode = {};     ///< of a capture that begins
};

/// Watches all captures of a process that begin while calls are told to it.
///
///     runtime_begins [begins ends]... runtime_ends        a call of the runtime, and what it does on the driver
///     begins ends                                         a call of the driver's own interface
///
/// All on the thread that makes the call, and nothing for calls that are made while asking() is true: those are the
/// monitor's own. A capture is watched from the end of the call that begins it, to the end of the call that ends it.
///
/// Thread-safe. The driver is asked under the monitor's lock: calls are told at their border, where a thread holds none
/// of the driver's locks, and no question waits for work; in return no stream is destroyed while one is asked about it.
/// Stacks are taken without the lock, because that takes the loader's, under which others call CUDA.
class CallMonitor {
 public:
  /// \param driver outlives this object.
  explicit CallMonitor(CaptureQueries& driver);

  /// Is the calling thread within a question of a monitor's?
  static bool asking() noexcept;

  void runtime_begins(const char* name) noexcept;
  void runtime_ends(const char* name, Result result);
  void begins(const DriverCall& call);
  void ends(const DriverCall& call, Result result);

  /// What is known of the capture of a stream, or of its last one if it is over; none if that is nothing.
  std::optional<CaptureFindings> describe(StreamHandle stream);

  /// Gets the findings of each capture that is over, on the thread that ended it. To be set before the first call.
  void on_finished(std::function<void(const CaptureFindings&)> sink) { finished_sink_ = std::move(sink); }

  /// The process is about to end: captures that are underway are given to the sink, and the driver is not asked.
  void process_ends();

  /// Forgets all captures, and what threads are doing: the next call is the first one.
  void forget();

 private:
  struct Capture {
    std::uint64_t number;  ///< ours, from 1
    const void* context;
    GraphHandle graph;  ///< alive until the capture is ended
    CaptureFindings findings;
    bool ending = false;  ///< its end has begun, on some thread: the graph may be gone at any moment
  };
  struct Failure {
    const char* name;
    const char* driver_name;
    Result result;
    std::optional<StreamHandle> stream;
    bool is_work;
  };
  using Numbers = std::vector<std::uint64_t>;

  void begun(const DriverCall& call);
  void begin_to_end(StreamHandle stream);
  void failed_at(const DriverCall& call, Result result);
  bool ended(const DriverCall& call, Result result);
  void abandon(const DriverCall& call);
  void executed(const DriverCall& call);
  bool broke_a_capture(const Failure& failure);
  void refuse(const Failure& failure);

  // With the lock held.
  Capture* find(std::uint64_t number);
  std::optional<CaptureStatus> ask(std::optional<StreamHandle> stream);
  void keep(CaptureFindings findings);

  CaptureQueries& driver_;
  std::function<void(const CaptureFindings&)> finished_sink_;
  std::atomic<int> underway_{0};           ///< the size of captures_
  std::atomic<std::uint64_t> generation_;  ///< of what threads are doing
  std::mutex mutex_;
  std::uint64_t last_number_ = 0;
  std::vector<Capture> captures_;
  std::vector<CaptureFindings> finished_;  ///< the last one of each stream
};

}  // namespace reprise::backend::cuda
