// SPDX-License-Identifier: Apache-2.0
#include "inspect/compare/missing_edges.h"

#include <algorithm>
#include <utility>

#include "inspect/compare/step_comparison.h"

namespace reprise::inspect {
namespace {

/// A number from `same` on for which the predicate holds, as for `same`, and does not for the next one, as for `other`.
template <class Predicate>
std::size_t last_same(std::size_t same, std::size_t other, const Predicate& is_same) {
  while (other - same > 1) {
    const std::size_t middle = same + (other - same) / 2;
    (is_same(middle) ? same : other) = middle;
  }
  return same;
}

/// The step at `from` comes `places` earlier.
std::vector<std::size_t> moved_forward(std::vector<std::size_t> order, std::size_t from, std::size_t places) {
  const auto last = order.begin() + static_cast<std::ptrdiff_t>(from) + 1;
  std::rotate(last - 1 - static_cast<std::ptrdiff_t>(places), last - 1, last);
  return order;
}

}  // namespace

MissingEdgeSearch::MissingEdgeSearch(const SteppedGraph& graph, Side side, PairedRuns& runs)
    : graph_(graph),
      side_(side),
      runs_(runs),
      usual_(ordered(graph.steps.before, [](std::size_t step) { return step; })) {}

std::optional<MissingEdge> MissingEdgeSearch::run(int orders, std::uint64_t seed) {
  usual_outcome_ = outcome(usual_);
  repeatable = outcome(usual_) == usual_outcome_;
  if (!repeatable) return std::nullopt;
  OtherOrders others(graph_.steps.before, seed);
  while (tried < orders) {
    const Order other = others.next();
    ++tried;
    if (outcome(other) != usual_outcome_) return search(other);
  }
  return std::nullopt;
}

void MissingEdgeSearch::execute(const Order& order) {
  runs_.begin(side_);
  for (const std::size_t step : order) runs_.launch(side_, step);
  runs_.wait();
}

std::uint64_t MissingEdgeSearch::outcome(const Order& order) {
  execute(order);
  return runs_.digest(side_, runs_.saved());
}

MissingEdge MissingEdgeSearch::search(const Order& other) {
  const auto is_usual = [&](const Order& order) { return outcome(order) == usual_outcome_; };
  const std::size_t count =
      last_same(0, other.size(), [&](std::size_t n) { return is_usual(with_beginning(usual_, other, n)); });
  const Order order = with_beginning(usual_, other, count);
  // In the next one of these orders, this step comes earlier.
  const auto place = static_cast<std::size_t>(std::ranges::find(order, other[count]) - order.begin());
  const std::size_t places =
      last_same(0, place - count, [&](std::size_t n) { return is_usual(moved_forward(order, place, n)); });
  return describe(moved_forward(order, place, places), moved_forward(order, place, places + 1),
                  order[place - places - 1], other[count]);
}

MissingEdge MissingEdgeSearch::describe(const Order& before, const Order& after, std::size_t one, std::size_t other) {
  MissingEdge found;
  found.in_new_capture = side_ == Side::second;
  found.one = graph_.graph.describe(graph_.steps.node[one]);
  found.other = graph_.graph.describe(graph_.steps.node[other]);
  execute(before);
  const MemoryImage usual(runs_.backend(), runs_.stream(), runs_.saved());
  execute(after);
  const MemoryImage unusual(runs_.backend(), runs_.stream(), runs_.saved());
  for (std::size_t i = 0; i < usual.ranges().size(); ++i) {
    const MemoryRange& range = usual.ranges()[i];
    auto bytes = differing_bytes({range.begin, range.begin, range.bytes}, usual.of(i), unusual.of(i), nullptr);
    if (!bytes) continue;
    found.address = reinterpret_cast<const void*>(bytes->range.begin);
    found.bytes = bytes->range.bytes;
    found.first_value = std::move(bytes->first_value);
    found.second_value = std::move(bytes->second_value);
    break;
  }
  return found;
}

}  // namespace reprise::inspect
