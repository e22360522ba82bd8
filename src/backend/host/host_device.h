// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <atomic>
#include <memory>
#include <mutex>
#include <string>
#include <string_view>
#include <thread>
#include <unordered_map>
#include <vector>

#include "backend/capture_findings.h"
#include "backend/host/capture/host_graph.h"
#include "backend/host/memory/device_memory.h"
#include "backend/host/races/race_check.h"
#include "backend/host/run/executor.h"
#include "backend/types.h"
#include "reprise/device.h"
#include "reprise/host_device.h"

// The state of one simulated device. Guarded by HostRuntime::mutex, unless stated otherwise.

namespace reprise::backend::host {

class HostDevice;
struct HostCapture;
struct HostRuntime;

/// A stream: its last operation, and the capture it takes part in.
struct HostStream {
  HostDevice* device;
  std::uint64_t id;
  bool blocking;
  int priority;
  bool legacy = false;
  std::uint64_t thread = 0;                      ///< of a per-thread default stream: the number of its thread; else 0
  OperationRef tail;                             ///< its last operation, on which the next one depends
  std::uint64_t ticks = 0;                       ///< number of operations, for the race check only
  std::shared_ptr<HostCapture> capture;          ///< null unless it takes part in one
  std::vector<Dependency> capture_dependencies;  ///< of the next node
  // Results of the last stream_capture_info().
  std::vector<GraphNodeHandle> reported_dependencies;
  std::vector<EdgeData> reported_edges;
};

/// The handle that the stream has in calls; 0 and 2 for default streams.
StreamHandle handle_of(const HostStream& stream) noexcept;

/// An event: a record point, or a point of a capture.
struct HostEvent {
  HostDevice* device;
  bool timing;
  bool recorded = false;                          ///< an ordinary record was made
  OperationRef point;                             ///< the last ordinary record; null: completed
  std::shared_ptr<HostCapture> capture;           ///< of the last record, if that was in a capture
  std::vector<Dependency> captured_dependencies;  ///< the point in that capture

  /// Notes an ordinary record.
  void set_recorded(OperationRef at) noexcept {
    capture = nullptr;
    captured_dependencies.clear();
    recorded = true;
    point = std::move(at);
  }
};

/// A capture underway.
struct HostCapture {
  enum class State { active, invalidated, ended };

  std::uint64_t id;
  CaptureMode mode;
  std::thread::id thread;  ///< that began it
  State state = State::active;
  HostStream* origin;                ///< null once destroyed
  std::vector<HostStream*> streams;  ///< origin and joined streams
  HostGraph* graph;
  bool owns_graph = true;                            ///< false: captured to a graph of the user's
  std::vector<std::vector<Dependency>> left_behind;  ///< last dependencies of joined streams that were destroyed
  /// The call that broke it; refused calls and work not captured, while HostRuntime::watchers is not 0. The nodes are
  /// those when it broke.
  CaptureFindings findings;
};

/// One simulated device.
class HostDevice {
 public:
  /// \param name for example `host:0`.
  HostDevice(HostRuntime& runtime, std::string name, int index, const HostDeviceOptions& options);

  HostRuntime& runtime() const noexcept { return runtime_; }
  Executor& executor() const noexcept;
  const std::string& name() const noexcept { return name_; }
  int index() const noexcept { return index_; }
  DeviceMemory& memory() noexcept { return memory_; }  ///< thread-safe
  HostStream& legacy_stream() noexcept { return legacy_; }
  std::vector<HostStream*>& streams() noexcept { return streams_; }  ///< all but the legacy one
  /// The per-thread default streams, by the numbers of their threads.
  std::unordered_map<std::uint64_t, HostStream*>& thread_streams() noexcept { return thread_streams_; }
  /// Kernels with an individual limit of shared memory, in bytes.
  std::unordered_map<const void*, unsigned>& max_shared() noexcept { return max_shared_; }

  /// True if a later operation needs no dependency on this one: it is done, and the race check does not need the order.
  bool negligible(const OperationRef& operation) const {
    return operation.done() && (races_ == nullptr || !operation || races_->known_done(operation));
  }
  /// Submits an operation to a stream, after its work and, by the rules of the legacy stream, that of others.
  void enqueue(HostStream& stream, const OperationRef& operation, std::span<const OperationRef> further = {});
  /// The operations to wait for until the stream's work so far is done.
  std::vector<OperationRef> frontier(const HostStream& stream) const;
  /// The operations to wait for until all work of the device so far is done.
  std::vector<OperationRef> frontier() const;
  /// Keeps the work of a destroyed stream as work of the device. Needs no memory.
  void adopt(OperationRef tail) noexcept;
  /// Notes that an operation, just submitted, frees memory of the device. Room for it was made before.
  void note_free(OperationRef free) noexcept { frees_.push_back(std::move(free)); }
  void make_room_for_free();
  /// The first free that was submitted and is not complete; null if there is none.
  OperationRef pending_free() noexcept;
  /// Makes room, so that adding to streams() cannot fail.
  void make_room_for_stream();

  /// Reports a failed operation: as on CUDA, every later call of the device fails. Thread-safe.
  void set_sticky_error(std::string_view what) noexcept;
  /// Thread-safe.
  bool has_sticky_error() const noexcept { return broken_.load(std::memory_order_acquire); }
  std::string sticky_error() const;

  Backend* backend = nullptr;  ///< of the device; set before it has a stream

 private:
  HostRuntime& runtime_;
  const std::string name_;
  const int index_;
  RaceCheck* const races_;  // null when it is off
  DeviceMemory memory_;
  HostStream legacy_;
  std::vector<HostStream*> streams_;
  std::unordered_map<std::uint64_t, HostStream*> thread_streams_;
  std::vector<OperationRef> orphans_;
  std::vector<OperationRef> frees_;  // in the order of submission; those that are complete are removed at times
  std::unordered_map<const void*, unsigned> max_shared_;
  std::atomic<bool> broken_{false};
  mutable std::mutex error_mutex_;
  std::string error_;
};

}  // namespace reprise::backend::host
