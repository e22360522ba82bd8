// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <unordered_map>
#include <vector>

#include "backend/capture_findings.h"
#include "reprise/handles.h"

namespace reprise::backend {

/// Times of one node in a launch, in nanoseconds of the device's clock.
struct NodeTime {
  /// The node of the template; null if it is not known.
  GraphNodeHandle node = nullptr;
  std::string name;            ///< a kernel's, else CUDA's word for the type of node
  std::uint64_t start_ns = 0;  ///< of the first run
  std::uint64_t end_ns = 0;    ///< of the last run
  std::size_t runs = 1;        ///< more than one in a loop
  std::uint64_t sum_ns = 0;    ///< what the runs took together; of one run may be 0: from start to end
};

/// Times the nodes of an executable's launches, see Monitor::watch_nodes. One thread at a time.
class NodeWatch {
 public:
  virtual ~NodeWatch() = default;
  /// Times of the last launch since the watch began, which must have completed; in any order. Nodes that the device
  /// cannot time, or that were disabled, are left out. `notes` gets a sentence for all else that is missing.
  virtual std::vector<NodeTime> take(std::vector<std::string>* notes) = 0;
};

/// Observes captures and launches of one device, beside its calls. Nothing here changes a capture or a launch.
/// Thread-safe.
class Monitor {
 public:
  virtual ~Monitor() = default;

  /// Returns the findings about the capture that a stream takes part in: what broke it and after how many nodes, and,
  /// while calls are watched, what was refused and what was not captured. Empty if nothing is known.
  virtual CaptureFindings describe_capture(StreamHandle stream) const = 0;

  /// While the result lives, every call of the process is watched, for captures that begin after this. Null if that is
  /// not possible; `why` is the reason then, as a sentence.
  virtual std::shared_ptr<void> watch_calls(std::string* why) = 0;

  /// While the result lives, launches of the executable are timed node by node. Null if that is not possible; `why` is
  /// the reason then, as a sentence.
  /// \param template_graph what the executable was made from.
  virtual std::shared_ptr<NodeWatch> watch_nodes(GraphHandle template_graph, GraphExecHandle exec,
                                                 std::string* why) = 0;

  /// The numbers by which profilers name an executable's nodes, by node of the template. Where a node is missing, `why`
  /// is the reason, as a sentence.
  /// \param template_graph what the executable was made from.
  virtual std::unordered_map<GraphNodeHandle, std::uint64_t> profiler_ids(GraphHandle template_graph,
                                                                          GraphExecHandle exec, std::string* why) = 0;
};

}  // namespace reprise::backend
