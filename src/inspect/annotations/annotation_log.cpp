// SPDX-License-Identifier: Apache-2.0
#include "inspect/annotations/annotation_log.h"

#include <algorithm>
#include <unordered_map>
#include <utility>

namespace reprise::inspect {
namespace {

using Boundary = AnnotationLog::Boundary;

// State of a thread, as the log is read from its beginning to its end.
struct ThreadState {
  std::size_t in_force = 0;
  const Boundary* since = nullptr;  // its last boundary
};

class Assignment {
 public:
  Assignment(const AnnotationLog& log, std::span<const backend::Edge> edges)
      : log_(log), result_(log.nodes.size(), 0), before_(log.nodes.size()), claims_(log.nodes.size(), 0) {
    for (std::size_t i = 0; i < log_.nodes.size(); ++i) places_.emplace(log_.nodes[i], i);
    for (const backend::Edge& edge : edges) {
      const auto from = places_.find(edge.from), to = places_.find(edge.to);
      if (from != places_.end() && to != places_.end()) before_[to->second].push_back(from->second);
    }
  }

  std::vector<std::size_t> run() {
    std::size_t first = 0;
    for (const Boundary& boundary : log_.boundaries) {
      see_new(first, boundary);
      first = boundary.nodes;
      if (boundary.thread == AnnotationLog::no_thread) continue;
      if (states_.size() <= boundary.thread) states_.resize(boundary.thread + 1);
      ThreadState& state = states_[boundary.thread];
      if (state.in_force != 0) claim(state, boundary);
      state = {boundary.in_force, &boundary};
    }
    return std::move(result_);
  }

 private:
  // Nodes from `first` on, which were new at the boundary. Those made while several threads were in scopes can be
  // claimed.
  void see_new(std::size_t first, const Boundary& boundary) {
    std::vector<std::size_t> active;
    for (const ThreadState& state : states_)
      if (state.in_force != 0) active.push_back(state.in_force);
    if (active.empty()) return;
    const bool of_next = boundary.thread < states_.size() && states_[boundary.thread].in_force != 0;
    for (std::size_t i = first; i < boundary.nodes; ++i) {
      result_[i] = of_next ? states_[boundary.thread].in_force : active.front();
      if (active.size() > 1) claims_[i] = log_.nodes.size() + 1;
    }
  }

  // The thread gets what its streams led to since its last boundary, unless another one claims it with fewer nodes: a
  // thread that waited for another thread's work claims that work, too.
  void claim(const ThreadState& state, const Boundary& until) {
    const std::size_t first = state.since->nodes;
    const std::vector<std::size_t> leading_there = ancestors(until, first);
    const std::vector<GraphNodeHandle>& tails = state.since->tails;
    std::vector<bool> between(until.nodes - first, false);
    for (const std::size_t node : leading_there) {  // in order of creation: what it depends on was seen
      const auto is_mine = [&](std::size_t dependency) {
        return dependency >= first ? between[dependency - first]
                                   : std::find(tails.begin(), tails.end(), log_.nodes[dependency]) != tails.end();
      };
      between[node - first] = before_[node].empty() ? tails.empty() : std::ranges::any_of(before_[node], is_mine);
      if (!between[node - first] || leading_there.size() >= claims_[node]) continue;
      claims_[node] = leading_there.size();
      result_[node] = state.in_force;
    }
  }

  // The tails of a boundary and what they depend on, from node `first` on, in order of creation.
  std::vector<std::size_t> ancestors(const Boundary& of, std::size_t first) const {
    std::vector<bool> seen(of.nodes - first, false);
    std::vector<std::size_t> found;
    const auto add = [&](std::size_t node) {
      if (node < first || node >= of.nodes || seen[node - first]) return;
      seen[node - first] = true;
      found.push_back(node);
    };
    for (const GraphNodeHandle tail : of.tails)
      if (const auto place = places_.find(tail); place != places_.end()) add(place->second);
    for (std::size_t i = 0; i < found.size(); ++i)
      for (const std::size_t dependency : before_[found[i]]) add(dependency);
    std::sort(found.begin(), found.end());
    return found;
  }

  const AnnotationLog& log_;
  std::vector<ThreadState> states_;
  std::vector<std::size_t> result_;
  std::unordered_map<GraphNodeHandle, std::size_t> places_;
  std::vector<std::vector<std::size_t>> before_;  // the dependencies of each node
  std::vector<std::size_t> claims_;               // how many nodes a claim must have fewer than; 0: settled
};

}  // namespace

bool needs_edges(const AnnotationLog& log) {
  return std::ranges::any_of(log.boundaries, [](const Boundary& boundary) {
    return boundary.thread != 0 && boundary.thread != AnnotationLog::no_thread;
  });
}

std::vector<std::size_t> assign_annotations(const AnnotationLog& log, std::span<const backend::Edge> edges) {
  return Assignment(log, edges).run();
}

}  // namespace reprise::inspect
