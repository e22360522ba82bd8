// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "reprise/error.h"
#include "reprise/export.h"
#include "reprise/graph_diff.h"
#include "reprise/graph_types.h"

/// \file
/// Results and errors of CUDAGraph::update() and CUDAGraph::recapture().

namespace reprise {

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
