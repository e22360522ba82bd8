// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <functional>
#include <string>
#include <unordered_map>
#include <vector>

#include "backend/backend.h"
#include "inspect/nodes/graph_walk.h"

namespace reprise::inspect {

/// Executable graphs with one node of a template each, or with a conditional node and the kernels that set its
/// condition. They use what the template owns, and must not outlive it, nor be launched when it is gone.
///
/// A node is added to a graph of its own with the parameters that the driver provides; where it provides none, or none
/// that can be added, the template is cloned, and all other nodes of the clone are destroyed.
///
/// Destroyed when no launch is underway.
class SingleNodes {
 public:
  explicit SingleNodes(backend::Backend& backend) : backend_(backend) {}
  ~SingleNodes();
  SingleNodes(const SingleNodes&) = delete;
  SingleNodes& operator=(const SingleNodes&) = delete;

  /// \param describe of the node, for errors.
  /// \throws UsageError if the node cannot be executed alone; BackendError if the runtime fails.
  GraphExecHandle make(const ScannedNode& node, const std::function<std::string()>& describe);

 private:
  GraphHandle made_graph();
  GraphHandle graph_of(const ScannedNode& node, const std::function<std::string()>& describe);
  GraphHandle cloned(const ScannedNode& node, const std::function<std::string()>& describe);

  backend::Backend& backend_;
  std::vector<GraphHandle> graphs_;
  std::vector<GraphExecHandle> execs_;
};

}  // namespace reprise::inspect
