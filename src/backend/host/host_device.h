// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <atomic>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <string_view>
#include <thread>
#include <unordered_map>
#include <unordered_set>
#include <vector>

#include "backend/capture_findings.h"
#include "backend/host/capture/host_graph.h"
#include "backend/host/failure_plan.h"
#include "backend/host/memory/device_memory.h"
#include "backend/host/races/race_check.h"
#include "backend/host/run/executor.h"
#include "backend/host/run/host_exec.h"
#include "backend/types.h"
#include "reprise/device.h"
#include "reprise/host_device.h"

// The state of the simulation. Everything here is guarded by HostRuntime::mutex, except what says otherwise.

namespace reprise::backend::host {

class HostDevice;
struct Capture;

/// A stream: the last operation it was given, and the capture it takes part in.
struct HostStream {
  HostDevice* device;
  std::uint64_t id;
  bool blocking;
  int priority;
  bool legacy = false;
  OperationRef tail;                                   ///< what the next operation waits for
  std::uint64_t ticks = 0;                             ///< operations so far; counted for the race check alone
  std::shared_ptr<Capture> capture;                    ///< null unless it takes part in one
  std::vector<HostNode*> capture_dependencies;         ///< what the next node depends on
  std::vector<GraphNodeHandle> reported_dependencies;  ///< what stream_capture_info points to
};

/// An event: a record point, or a point of a capture.
struct HostEvent {
  HostDevice* device;
  bool timing;
  bool recorded = false;                         ///< an ordinary record was made
  OperationRef point;                            ///< the last ordinary record; null: reached
  std::shared_ptr<Capture> capture;              ///< of the last record, if that was in a capture
  std::vector<HostNode*> captured_dependencies;  ///< the point in that capture
};

/// A capture that is underway.
struct Capture {
  enum class State { active, invalidated, ended };

  std::uint64_t id;
  CaptureErrorMode mode;
  std::thread::id thread;  ///< who began it
  State state = State::active;
  HostStream* origin;                ///< null once that stream was destroyed
  std::vector<HostStream*> streams;  ///< origin and those that joined
  HostGraph* graph;
  bool owns_graph = true;                           ///< false: captured to a graph of the user's
  std::vector<std::vector<HostNode*>> left_behind;  ///< last dependencies of joined streams that were destroyed
  std::uint64_t thread_number = 0;                  ///< that of `thread`, for reports
  /// What broke it; what was refused and not captured, while HostRuntime::watched. Its nodes are those when it broke.
  CaptureFindings findings;
};

/// One simulated device.
class HostDevice {
 public:
  /// \param races the race check; null when it is off.
  HostDevice(int index, const HostDeviceOptions& options, RaceCheck* races);

  int index() const noexcept { return index_; }
  DeviceMemory& memory() noexcept { return memory_; }  ///< thread-safe by itself
  HostStream& legacy_stream() noexcept { return legacy_; }
  std::vector<HostStream*>& streams() noexcept { return streams_; }  ///< all but the legacy one
  /// Kernels with a limit of their own for shared memory, in bytes.
  std::unordered_map<const void*, unsigned>& max_shared() noexcept { return max_shared_; }

  /// Can an operation that is to come be left unordered after this one? Yes if it is done: unless order is written
  /// down for the race check.
  bool negligible(const OperationRef& operation) const {
    return operation.done() && (races_ == nullptr || !operation || races_->known_done(operation));
  }
  /// Gives an operation to a stream, after what it and, by the rules of the legacy stream, others were given.
  void enqueue(HostStream& stream, const OperationRef& operation, std::span<const OperationRef> further = {});
  /// What there is to wait for until the stream's work so far is done.
  std::vector<OperationRef> frontier(const HostStream& stream) const;
  /// ... until all work of the device so far is done.
  std::vector<OperationRef> frontier() const;
  /// Work of a stream that is gone is still work of the device.
  void adopt(OperationRef tail);

  /// An operation failed on the device: as on CUDA, every later call of the device fails. Thread-safe.
  void set_sticky_error(std::string_view what) noexcept;
  /// Thread-safe.
  bool has_sticky_error() const noexcept { return broken_.load(std::memory_order_acquire); }
  std::string sticky_error() const;

 private:
  int index_;
  RaceCheck* const races_;
  DeviceMemory memory_;
  HostStream legacy_;
  std::vector<HostStream*> streams_;
  std::vector<OperationRef> orphans_;
  std::unordered_map<const void*, unsigned> max_shared_;
  std::atomic<bool> broken_{false};
  mutable std::mutex error_mutex_;
  std::string error_;
};

/// Pinned memory of the host.
struct PinnedBlock {
  std::size_t bytes;
  std::uint64_t id;  ///< of the allocation, unique in the process
};

/// Everything of the process. Made at the first use of a device, alive until the process ends.
struct HostRuntime {
  explicit HostRuntime(const HostDeviceOptions& options);
  static HostRuntime& instance();

  std::mutex mutex;
  FailurePlan failures;                              ///< thread-safe by itself
  std::unique_ptr<RaceCheck> races;                  ///< null when races are not looked for
  std::vector<std::unique_ptr<HostDevice>> devices;  ///< fixed
  std::vector<std::shared_ptr<Capture>> captures;    ///< underway
  int watchers = 0;                                  ///< who wants to know of all calls during captures
  std::map<std::uintptr_t, PinnedBlock> pinned;      ///< by address

  // What was handed out and not destroyed yet. The objects belong to these tables.
  std::unordered_map<const void*, std::unique_ptr<HostStream>> streams;
  std::unordered_map<const void*, std::unique_ptr<HostEvent>> events;
  std::unordered_map<const void*, std::unique_ptr<HostGraph>> graphs;
  std::unordered_map<const void*, std::unique_ptr<HostExec>> execs;
  std::unordered_set<const void*> nodes;  ///< of all graphs
  std::unordered_map<const void*, std::unique_ptr<UserObject>> user_objects;

  /// The object behind a handle; null if there is none.
  HostEvent* find(EventHandle handle) const;
  HostGraph* find(GraphHandle handle) const;
  HostExec* find(GraphExecHandle handle) const;
  HostNode* find(GraphNodeHandle handle) const;
  UserObject* find(UserObjectHandle handle) const;
  /// Null and 0x1 are the legacy stream of `device`.
  HostStream* find(StreamHandle handle, HostDevice& device) const;

  /// Puts a graph into the tables, and takes it out, with its nodes.
  GraphHandle adopt(std::unique_ptr<HostGraph> graph);
  void destroy(HostGraph& graph);
};

/// What HostRuntime is made with: configure_host_devices(), else the environment.
HostDeviceOptions host_device_options();
/// The failures that the environment asks for.
std::vector<FailurePlan::Failure> failures_of_environment();

/// What is known of an address.
PointerInfo pointer_info(HostRuntime& runtime, const void* pointer);

}  // namespace reprise::backend::host
