// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "reprise/handles.h"

namespace reprise::backend {

/// What one node took in a launch, in nanoseconds of the device's clock.
struct NodeTime {
  /// The node of the template; null if that cannot be told.
  GraphNodeHandle node = nullptr;
  std::string name;  ///< a kernel's, else CUDA's word for the type of node
  std::uint64_t start_ns = 0;
  std::uint64_t end_ns = 0;
};

/// Times the nodes of an executable's launches, see Backend::watch_nodes. One thread at a time.
class NodeWatch {
 public:
  virtual ~NodeWatch() = default;
  /// Those of the last launch since the watch began, which must be done; in any order. Nodes that the device cannot
  /// time, or that were switched off, are not there. `notes` gets a sentence for all else that is missing.
  virtual std::vector<NodeTime> take(std::vector<std::string>* notes) = 0;
};

}  // namespace reprise::backend
