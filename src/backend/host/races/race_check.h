// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <functional>
#include <set>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "backend/host/races/race_clock.h"
#include "backend/host/races/race_shadow.h"
#include "backend/host/run/executor.h"
#include "backend/host/run/work.h"
#include "reprise/host_simulator.h"

namespace reprise::backend::host {

struct HostExec;
struct HostRuntime;
struct HostStream;

/// Reports races: two unordered accesses to the same memory, of which at least one writes.
///
/// All order is known when work is submitted, so the result does not depend on timing. Each stream is a timeline; an
/// operation has a vector clock, joined from those of all operations that it waits for. Waits of the host are joined
/// into one clock of the process, which orders all work submitted later by any thread: so a race can be missed, but
/// work that calls of the runtime order is never reported.
///
/// One object, in HostRuntime, if HostDeviceOptions::check_races is set. Guarded by the runtime's mutex. Races are
/// reported once per pair of operations and streams.
class RaceCheck {
 public:
  using Sink = std::function<void(const HostRace& race)>;

  RaceCheck(HostRuntime& runtime, Sink sink) : runtime_(runtime), sink_(std::move(sink)) {}

  /// Orders an operation of a stream after `before`, which must include completed operations, too.
  void order(HostStream& stream, Operation& operation, std::span<const OperationRef> before);
  /// Adds the accesses of the operation; after order().
  void touch(const HostStream& stream, const Operation& operation, std::vector<Access> accesses);
  /// Determines the accesses of a launch before it, if the graph was never launched or changed since. Reports
  /// conflicting nodes of the graph.
  void prepare(HostExec& exec);
  /// Adds the launch of a graph by this operation; after order() and prepare(). The graph counts as one operation,
  /// which waits for the points that its event nodes wait for, and precedes those that they record.
  void launched(const HostStream& stream, Operation& launch, std::span<const OperationRef> points,
                const HostExec& exec);
  /// Notes that the host has waited for these operations.
  void host_waited(std::span<const OperationRef> operations);
  /// True if the host has waited for it, so that it can be forgotten.
  bool known_done(const OperationRef& operation) const;
  /// Resets the history of memory that was just allocated.
  void forget(const void* pointer, std::size_t bytes);

 private:
  /// Knowledge about the nodes of a plan, by place, while they are visited.
  struct PlanWalk {
    explicit PlanWalk(std::size_t nodes) : clocks(nodes), epochs(nodes), continued(nodes) {}
    std::vector<Clock> clocks;
    std::vector<Epoch> epochs;
    std::vector<bool> continued;
    Shadow shadow;
    std::vector<Access> accesses;
  };
  /// Visits a level, which begins after `before`. Returns the clock of its end.
  Clock visit(const HostExec& exec, std::size_t level, const Clock& before, PlanWalk& walk);
  void touch_node(const HostExec& exec, std::size_t place, PlanWalk& walk);

  bool ordered(const Epoch& epoch, const Clock& clock) const { return host_.covers(epoch) || clock.covers(epoch); }
  void report(const Touch& earlier, const Touch& now, const char* advice);
  std::string describe_memory(std::uintptr_t address) const;

  HostRuntime& runtime_;
  const Sink sink_;
  Clock host_;
  Shadow shadow_;
  std::set<std::string> reported_;
};

/// The accesses of work, without pageable host memory outside of captures: that copy ends before the call returns.
std::vector<Access> accesses_of(HostRuntime& runtime, const Work& work, bool in_graph);

}  // namespace reprise::backend::host
