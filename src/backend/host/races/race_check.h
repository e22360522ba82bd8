// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <set>
#include <span>
#include <string>
#include <vector>

#include "backend/host/races/race_clock.h"
#include "backend/host/races/race_shadow.h"
#include "backend/host/run/executor.h"
#include "backend/host/run/work.h"

namespace reprise::backend::host {

struct HostExec;
struct HostRuntime;
struct HostStream;

/// Looks for races: two accesses to the same memory, one of them a write, that nothing orders.
///
/// All order is known when work is submitted, so nothing depends on who runs first. Each stream is a timeline; an
/// operation carries a vector clock, made of those of all operations that it waits for. What the host has waited for
/// goes into one clock of the whole process, which counts for all that is submitted later, by any thread: so a race can
/// be missed, but what is ordered by calls of the runtime is never reported.
///
/// There is one, in HostRuntime, when HostDeviceOptions::check_races is set. Guarded by the runtime's mutex. Races go
/// to the sink of warnings, each pair of operations and streams once.
class RaceCheck {
 public:
  explicit RaceCheck(HostRuntime& runtime) : runtime_(runtime) {}

  /// An operation is given to a stream after `before`, which must contain what is done already, too.
  void order(HostStream& stream, Operation& operation, std::span<const OperationRef> before);
  /// What the operation touches; after order().
  void touch(const HostStream& stream, const Operation& operation, std::vector<Access> accesses);
  /// Before a launch: finds what it will touch, if the graph was changed since the last one or never launched. Nodes
  /// that conflict within the graph are reported then.
  void prepare(HostExec& exec);
  /// A graph was launched by this operation; after order() and prepare(). As a whole it counts as one operation, which
  /// waits for the points that event nodes of the graph wait for, and after which those are reached that they record.
  void launched(const HostStream& stream, Operation& launch, std::span<const OperationRef> points,
                const HostExec& exec);
  /// The host has seen these operations done.
  void host_waited(std::span<const OperationRef> operations);
  /// Does the host know that it is done? Then nobody has to remember it.
  bool known_done(const OperationRef& operation) const;
  /// The memory was just allocated.
  void forget(const void* pointer, std::size_t bytes);

 private:
  bool ordered(const Epoch& epoch, const Clock& clock) const { return host_.covers(epoch) || clock.covers(epoch); }
  void report(const Touch& earlier, const Touch& now, const char* advice);
  std::string describe_memory(std::uintptr_t address) const;

  HostRuntime& runtime_;
  Clock host_;
  Shadow shadow_;
  std::set<std::string> reported_;
};

/// What a piece of work touches. Outside of a capture, pageable host memory is copied to and from before the call
/// returns, and so left out.
std::vector<Access> accesses_of(HostRuntime& runtime, const Work& work, bool in_graph);

}  // namespace reprise::backend::host
