// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "reprise/error.h"
#include "reprise/export.h"
#include "reprise/graph_diff.h"

/// \file
/// Results and errors of CUDAGraph::update() and CUDAGraph::recapture().

namespace reprise {

/// Why CUDA cannot update an executable to another graph: `CUgraphExecUpdateResult`; the numbers are CUDA's.
enum class UpdateResult {
  success = 0,
  error = 1,
  topology_changed = 2,             ///< other nodes, or other dependencies
  node_type_changed = 3,            ///< a node is of another type
  function_changed = 4,             ///< a kernel is another one (drivers before 11.2)
  parameters_changed = 5,           ///< a parameter differs that an update cannot change
  not_supported = 6,                ///< a node is of a kind that cannot be updated
  unsupported_function_change = 7,  ///< a kernel is another one, for which CUDA would need another executable
  attributes_changed = 8,           ///< an attribute of a kernel differs, such as its cluster
};

/// An executable cannot be updated to another graph. Both graphs are as before.
class REPRISE_EXPORT GraphUpdateError : public Error {
 public:
  /// \param what the whole text.
  /// \param result the reason.
  /// \param differences between the two graphs, as diff() lists them.
  GraphUpdateError(const std::string& what, UpdateResult result, std::vector<GraphDifference> differences)
      : Error(what),
        result_(result),
        differences_(std::make_shared<const std::vector<GraphDifference>>(std::move(differences))) {}

  /// The reason; never `success`.
  UpdateResult result() const noexcept { return result_; }
  /// All differences between the graphs, as by diff(). They live as long as this exception or a copy of it.
  const std::vector<GraphDifference>& differences() const noexcept { return *differences_; }

 private:
  UpdateResult result_;
  std::shared_ptr<const std::vector<GraphDifference>> differences_;  // so that copying an exception cannot throw
};

/// What CUDAGraph::recapture() did.
struct Recapture {
  /// True if the executable was updated; false if a new one takes its place.
  bool in_place = false;
  std::string reason = {};  ///< why a new one was needed, as a sentence; empty if `in_place`
  /// What differs between the capture before and this one, as by diff(); empty if the template of the capture before
  /// was discarded.
  std::vector<GraphDifference> differences = {};
};

}  // namespace reprise
