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

// Reads a log boundary by boundary. `on_nodes(first, last, states, boundary)` gets the nodes that were new at one,
// before that changes the states.
template <class OnNodes>
void read(const AnnotationLog& log, const OnNodes& on_nodes) {
  std::vector<ThreadState> states;
  std::size_t first = 0;
  for (const Boundary& boundary : log.boundaries) {
    on_nodes(first, boundary.nodes, states, boundary);
    first = boundary.nodes;
    if (boundary.thread == AnnotationLog::no_thread) continue;
    if (states.size() <= boundary.thread) states.resize(boundary.thread + 1);
    states[boundary.thread] = {boundary.in_force, &boundary};
  }
}

std::size_t count_active(const std::vector<ThreadState>& states) {
  return static_cast<std::size_t>(
      std::count_if(states.begin(), states.end(), [](const ThreadState& state) { return state.in_force != 0; }));
}

// The annotation of a node that no thread's stream leads to.
std::size_t fallback(const std::vector<ThreadState>& states, const Boundary& boundary) {
  if (boundary.thread < states.size() && states[boundary.thread].in_force != 0) return states[boundary.thread].in_force;
  const auto active =
      std::find_if(states.begin(), states.end(), [](const ThreadState& state) { return state.in_force != 0; });
  return active != states.end() ? active->in_force : 0;
}

// Certainty of the assignment of a node to a thread.
enum class Confidence : unsigned char { none, ancestor, between_boundaries, certain };

// At equal confidence the claim with fewer nodes wins: a thread that waited for another thread's work also claims that
// work.
struct Claim {
  Confidence confidence = Confidence::certain;
  std::size_t nodes = 0;
  bool beats(const Claim& other) const {
    return confidence != other.confidence ? confidence > other.confidence : nodes < other.nodes;
  }
};

class Assignment {
 public:
  Assignment(const AnnotationLog& log, std::span<const backend::Edge> edges)
      : log_(log), result_(log.nodes.size(), 0), claims_(log.nodes.size()) {
    if (!edges.empty()) index(edges);
  }

  std::vector<std::size_t> run() {
    read(log_, [&](std::size_t first, std::size_t last, const std::vector<ThreadState>& states, const Boundary& b) {
      see_new(first, last, states, b);
      if (b.thread == AnnotationLog::no_thread) {
        for (const ThreadState& state : states) claim(state, b);
      } else if (b.thread < states.size()) {
        claim(states[b.thread], b);
      }
    });
    return std::move(result_);
  }

 private:
  // The dependencies of each node: of node i, before_[begins_[i]] to before_[begins_[i + 1] - 1].
  void index(std::span<const backend::Edge> edges) {
    for (std::size_t i = 0; i < log_.nodes.size(); ++i) places_.emplace(log_.nodes[i], i);
    begins_.assign(log_.nodes.size() + 1, 0);
    std::vector<std::pair<std::size_t, std::size_t>> known;  // to, from
    known.reserve(edges.size());
    for (const backend::Edge& edge : edges) {
      const auto from = places_.find(edge.from), to = places_.find(edge.to);
      if (from != places_.end() && to != places_.end()) known.emplace_back(to->second, from->second);
    }
    for (const auto& edge : known) ++begins_[edge.first + 1];
    for (std::size_t i = 1; i < begins_.size(); ++i) begins_[i] += begins_[i - 1];
    before_.resize(known.size());
    std::vector<std::size_t> next(begins_.begin(), begins_.end() - 1);
    for (const auto& edge : known) before_[next[edge.first]++] = edge.second;
  }
  std::span<const std::size_t> before(std::size_t node) const {
    return std::span(before_).subspan(begins_[node], begins_[node + 1] - begins_[node]);
  }

  void see_new(std::size_t first, std::size_t last, const std::vector<ThreadState>& states, const Boundary& boundary) {
    const std::size_t active = count_active(states);
    if (first == last || active == 0) return;
    const auto begin = static_cast<std::ptrdiff_t>(first), end = static_cast<std::ptrdiff_t>(last);
    std::fill(result_.begin() + begin, result_.begin() + end, fallback(states, boundary));
    if (active > 1) std::fill(claims_.begin() + begin, claims_.begin() + end, Claim{Confidence::none});
  }

  // The thread gets what its streams led to since its last boundary.
  void claim(const ThreadState& state, const Boundary& until) {
    if (state.in_force == 0 || places_.empty()) return;
    const std::size_t first = state.since->nodes;
    const std::vector<std::size_t> mine = ancestors(until, first);
    const std::vector<GraphNodeHandle>& tails = state.since->tails;
    std::vector<bool> between(until.nodes - first, false);
    for (const std::size_t node : mine) {  // in order of creation: what it depends on was seen
      const auto is_mine = [&](std::size_t dependency) {
        return dependency >= first ? between[dependency - first]
                                   : std::find(tails.begin(), tails.end(), log_.nodes[dependency]) != tails.end();
      };
      const auto dependencies = before(node);
      between[node - first] = dependencies.empty() ? tails.empty() : std::ranges::any_of(dependencies, is_mine);
      // At the end of the capture everything leads to its stream, which decides nothing.
      if (!between[node - first] && until.thread == AnnotationLog::no_thread) continue;
      const Claim claim{between[node - first] ? Confidence::between_boundaries : Confidence::ancestor, mine.size()};
      if (!claim.beats(claims_[node])) continue;
      claims_[node] = claim;
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
      for (const std::size_t dependency : before(found[i])) add(dependency);
    std::sort(found.begin(), found.end());
    return found;
  }

  const AnnotationLog& log_;
  std::vector<std::size_t> result_;
  std::vector<Claim> claims_;
  std::unordered_map<GraphNodeHandle, std::size_t> places_;  // empty where edges do not matter
  std::vector<std::size_t> begins_, before_;
};

}  // namespace

bool needs_edges(const AnnotationLog& log) {
  bool needed = false;
  read(log, [&](std::size_t first, std::size_t last, const std::vector<ThreadState>& states, const Boundary&) {
    needed = needed || (first != last && count_active(states) > 1);
  });
  return needed;
}

std::vector<std::size_t> assign_annotations(const AnnotationLog& log, std::span<const backend::Edge> edges) {
  return Assignment(log, edges).run();
}

}  // namespace reprise::inspect
