// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <unordered_map>
#include <unordered_set>
#include <vector>

#include "backend/host/capture/host_graph.h"
#include "backend/host/failure_plan.h"
#include "backend/host/host_device.h"
#include "backend/host/races/race_check.h"
#include "backend/host/run/executor.h"
#include "backend/host/run/host_exec.h"
#include "backend/types.h"
#include "reprise/host_device.h"

// The state of the simulation.

namespace reprise::backend::host {

/// Pinned memory of the host.
struct PinnedBlock {
  std::size_t bytes;
  std::uint64_t id;  ///< of the allocation, unique in the process
};

/// Devices that can use each other's streams, events and memory, and everything that is made on them. There is one for
/// the host devices of the process, and one for each HostSimulator: these know nothing of each other.
///
/// Thread-safe, with `mutex` as each member says. Never destroyed.
struct HostRuntime {
  /// Properties of a runtime that users cannot set.
  struct Identity {
    std::string kind = "host";   ///< of its devices, as their names have it
    int first_index = 0;         ///< of its devices
    int devices = 1;             ///< how many there are
    RaceCheck::Sink races = {};  ///< called for each race, with `mutex` locked
  };

  HostRuntime(const HostDeviceOptions& options, Identity identity);
  HostRuntime(const HostRuntime&) = delete;
  HostRuntime& operator=(const HostRuntime&) = delete;

  /// The runtime of the host devices of the process, made at their first use.
  static HostRuntime& instance();
  /// Calls `f` for every runtime, under a mutex. `f` may lock that of the runtime.
  static void for_each(const std::function<void(HostRuntime&)>& f);

  std::mutex mutex;                                    ///< guards what follows, unless that is said to be thread-safe
  FailurePlan& failures;                               ///< thread-safe; of the process
  Executor executor;                                   ///< thread-safe
  std::unique_ptr<RaceCheck> races;                    ///< null without race check
  std::vector<std::unique_ptr<HostDevice>> devices;    ///< constant
  std::vector<std::shared_ptr<HostCapture>> captures;  ///< underway
  int watchers = 0;                                    ///< number of watches of all calls during captures
  std::map<std::uintptr_t, PinnedBlock> pinned;        ///< by address

  // Live objects, owned by these tables.
  std::unordered_map<const void*, std::unique_ptr<HostStream>> streams;
  std::unordered_map<const void*, std::unique_ptr<HostEvent>> events;
  std::unordered_map<const void*, std::unique_ptr<HostGraph>> graphs;
  std::unordered_map<const void*, std::unique_ptr<HostExec>> execs;
  std::unordered_set<const void*> inner_graphs;  ///< those in nodes, which own them
  std::unordered_set<const void*> nodes;         ///< of all graphs
  std::unordered_map<const void*, std::unique_ptr<UserObject>> user_objects;
  std::unordered_map<const void*, std::weak_ptr<GraphMemory>> graph_memory;  ///< of allocation nodes, by address

  /// The object of a handle; null if there is none.
  HostEvent* find(EventHandle handle) const { return find_in(events, handle); }
  HostGraph* find(GraphHandle handle) const;
  HostExec* find(GraphExecHandle handle) const { return find_in(execs, handle); }
  HostNode* find(GraphNodeHandle handle) const;
  UserObject* find(UserObjectHandle handle) const { return find_in(user_objects, handle); }
  /// Null and 0x1 are the legacy stream of `device`, 0x2 is the calling thread's own default stream there, which is
  /// made at its first use and destroyed at the end of the thread.
  HostStream* find(StreamHandle handle, HostDevice& device);

  /// The memory that begins at this address; null if there is none.
  std::shared_ptr<GraphMemory> find_graph_memory(const void* address) const;
  /// Reserves the memory of an allocation node; null if there are no addresses left.
  std::shared_ptr<GraphMemory> new_graph_memory(HostDevice& device, std::size_t bytes);

  HostStream& make_stream(HostDevice& device, bool blocking, int priority);
  /// Destroys the stream, whose work still runs. A capture that began on it can no longer be ended, and is dropped.
  void destroy(HostStream& stream);
  /// Destroys the default streams of a thread that ends.
  void thread_ends(std::uint64_t thread);

  /// Adds a graph to the tables, and removes it, with its nodes.
  GraphHandle adopt(std::unique_ptr<HostGraph> graph);
  void destroy(HostGraph& graph);
  /// Adds a node to a graph that is in the tables.
  HostNode& add_node(HostGraph& graph, HostDevice& device, NodeType type, Work work,
                     std::span<const Dependency> dependencies);
  /// Destroys a node with its edges, and the graphs in it.
  void destroy(HostNode& node);
  /// Makes these graphs belong to the node, instead of those that it has.
  void adopt(HostNode& node, std::vector<std::unique_ptr<HostGraph>> inner);

  /// Waits for all work submitted so far, and for the destructors of user objects that nothing refers to. Without
  /// `mutex`, and not on a thread that executes an operation.
  void wait_until_idle();

 private:
  template <class Object>
  static Object* find_in(const std::unordered_map<const void*, std::unique_ptr<Object>>& table, const void* handle) {
    const auto found = table.find(handle);
    return found == table.end() ? nullptr : found->second.get();
  }
  HostStream& thread_stream(HostDevice& device);
  void enter_nodes(const HostGraph& graph);            // with those of the graphs in them
  void forget_nodes(const HostGraph& graph) noexcept;  // likewise
  void enter_inner(const HostGraph& graph);
  void forget_inner(const HostGraph& graph) noexcept;
};

/// The failures that were injected and have not happened.
FailurePlan& injected_failures();

/// The block of an address.
PointerInfo pointer_info(HostRuntime& runtime, const void* pointer);

/// Ends the process where CUDA's driver was seen to crash: what a program did before can no longer be repaired.
/// \param what the program does.
[[noreturn]] void crash_as_driver(const char* what) noexcept;

}  // namespace reprise::backend::host
