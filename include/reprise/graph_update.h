// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <functional>
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

/// A list of differences that is made when it is first read, of values that were copied before. Refers to no graph.
/// Copies share it; any thread may read it.
class REPRISE_EXPORT GraphDifferences {
 public:
  using List = std::vector<GraphDifference>;
  using value_type = GraphDifference;
  using size_type = List::size_type;
  using const_reference = const GraphDifference&;
  using const_iterator = List::const_iterator;
  using iterator = const_iterator;

  GraphDifferences() noexcept = default;  ///< empty
  GraphDifferences(List list);            ///< a list that is made already
  /// Calls `make` when the list is first read; empty: there are no differences.
  explicit GraphDifferences(std::function<List()> make);

  /// All of them, which live as long as this object or a copy of it. \throws what making the list throws.
  const List& list() const;
  operator const List&() const { return list(); }  ///< \throws as list(), like all below
  const_iterator begin() const { return list().begin(); }
  const_iterator end() const { return list().end(); }
  bool empty() const { return list().empty(); }
  size_type size() const { return list().size(); }
  const_reference operator[](size_type index) const { return list()[index]; }
  const_reference front() const { return list().front(); }

 private:
  struct Shared;
  std::shared_ptr<Shared> shared_;  // null: empty
};

/// Result of CUDAGraph::recapture().
struct Recapture {
  /// True if the executable was updated; false if a new one takes its place.
  bool in_place = false;
  std::string reason = {};  ///< why a new one was needed, as a sentence; empty if `in_place`
  /// Differences between the capture before and this one, as by diff(); empty if the template of the capture before
  /// was discarded. After an update in place the texts are made when the list is first read.
  GraphDifferences differences = {};
  /// The nodes of this capture that replays leave out after an update in place, since GraphNode::set_enabled() disabled
  /// those in their places; enable them to have all of the new capture. A new executable has all nodes enabled, and
  /// `differences` lists which were not.
  std::vector<ComparedNode> disabled = {};
};

}  // namespace reprise
