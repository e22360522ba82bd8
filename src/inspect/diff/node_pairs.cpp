// SPDX-License-Identifier: Apache-2.0
#include "inspect/diff/node_pairs.h"

#include <algorithm>
#include <cstdint>
#include <functional>
#include <string>
#include <string_view>

namespace reprise::inspect {
namespace {

// 32 MiB. With more, the work that both graphs have at their beginnings and ends is paired, and the rest is not.
constexpr std::size_t most_cells = std::size_t{1} << 22;

bool does_same_work(const ScannedNode& a, const ScannedNode& b) {
  return a.type == b.type && a.function == b.function &&
         std::ranges::count(a.number, '.') == std::ranges::count(b.number, '.');
}

// A hash of each node's values, in which addresses are replaced by their places in the graph's own memory.
std::vector<std::size_t> hashes(const NodeValues& graph) {
  std::vector<std::size_t> found(graph.nodes.size());
  for (const NodeValue& value : graph.values) {
    const std::string own = value.bytes == 8 ? graph.own.text(value.value) : std::string();
    const std::size_t one = own.empty() ? std::hash<std::uint64_t>()(value.value) : std::hash<std::string>()(own);
    std::size_t& hash = found[value.node];
    hash = (hash ^ one) * 0x9E3779B97F4A7C15U + value.offset;
  }
  return found;
}

/// The best pairs of two ranges of nodes: as many as possible that do the same work, and of these, as many as possible
/// with the same values.
class Alignment {
 public:
  Alignment(const NodeValues& first, const NodeValues& second)
      : first_(first), second_(second), first_hashes_(hashes(first)), second_hashes_(hashes(second)) {}

  std::vector<NodePair> run() {
    std::size_t begin = 0, first_end = first_.nodes.size(), second_end = second_.nodes.size();
    while (begin < first_end && begin < second_end && is_equal(begin, begin)) ++begin;
    while (begin < first_end && begin < second_end && is_equal(first_end - 1, second_end - 1))
      --first_end, --second_end;
    for (std::size_t i = 0; i < begin; ++i) pairs_.push_back({i, i});
    align(begin, first_end, second_end);
    while (first_end < first_.nodes.size()) pairs_.push_back({first_end++, second_end++});
    return std::move(pairs_);
  }

 private:
  bool is_equal(std::size_t i, std::size_t j) const {
    return does_same_work(first_.nodes[i], second_.nodes[j]) && first_hashes_[i] == second_hashes_[j];
  }
  unsigned score(std::size_t i, std::size_t j) const {
    if (!does_same_work(first_.nodes[i], second_.nodes[j])) return 0;
    // One pair more counts for more than all equal values.
    return static_cast<unsigned>(std::min(first_.nodes.size(), second_.nodes.size())) + 1 +
           (first_hashes_[i] == second_hashes_[j] ? 1 : 0);
  }

  // The longest common subsequence, by a table of the best scores of all ends of both ranges.
  void align(std::size_t begin, std::size_t first_end, std::size_t second_end) {
    const std::size_t rows = first_end - begin, columns = second_end - begin;
    if (rows != 0 && columns > most_cells / rows) return align_ends(begin, first_end, second_end);
    std::vector<std::uint64_t> best((rows + 1) * (columns + 1));
    const auto at = [&](std::size_t i, std::size_t j) -> std::uint64_t& {
      return best[(i - begin) * (columns + 1) + (j - begin)];
    };
    for (std::size_t i = first_end; i-- > begin;)
      for (std::size_t j = second_end; j-- > begin;) {
        const unsigned both = score(i, j);
        at(i, j) = std::max({at(i + 1, j), at(i, j + 1), both == 0 ? 0 : at(i + 1, j + 1) + both});
      }
    std::size_t i = begin, j = begin, first_gap = begin, second_gap = begin;
    while (i < first_end && j < second_end) {
      const unsigned both = score(i, j);
      if (both != 0 && at(i, j) == at(i + 1, j + 1) + both) {
        unpaired(first_gap, i, second_gap, j);
        pairs_.push_back({i++, j++});
        first_gap = i, second_gap = j;
      } else if (at(i, j) == at(i + 1, j)) {
        ++i;
      } else {
        ++j;
      }
    }
    unpaired(first_gap, first_end, second_gap, second_end);
  }

  void align_ends(std::size_t begin, std::size_t first_end, std::size_t second_end) {
    std::size_t same = 0;  // at the end
    while (begin < first_end && begin < second_end && does_same_work(first_.nodes[begin], second_.nodes[begin])) {
      pairs_.push_back({begin, begin});
      ++begin;
    }
    while (begin < first_end && begin < second_end &&
           does_same_work(first_.nodes[first_end - 1], second_.nodes[second_end - 1]))
      --first_end, --second_end, ++same;
    unpaired(begin, first_end, begin, second_end);
    for (; same > 0; --same) pairs_.push_back({first_end++, second_end++});
  }

  // Pairs nodes with as many others at the same place if both are at the same levels: they replace them. Else each was
  // added or removed.
  void unpaired(std::size_t first, std::size_t first_end, std::size_t second, std::size_t second_end) {
    const auto depth = [](const ScannedNode& node) { return std::ranges::count(node.number, '.'); };
    const bool as_many = first_end - first == second_end - second;
    const bool replace = as_many && std::equal(first_.nodes.begin() + static_cast<std::ptrdiff_t>(first),
                                               first_.nodes.begin() + static_cast<std::ptrdiff_t>(first_end),
                                               second_.nodes.begin() + static_cast<std::ptrdiff_t>(second),
                                               [&](const auto& a, const auto& b) { return depth(a) == depth(b); });
    if (replace) {
      while (first < first_end) pairs_.push_back({first++, second++});
      return;
    }
    while (first < first_end) pairs_.push_back({first++, NodePair::none});
    while (second < second_end) pairs_.push_back({NodePair::none, second++});
  }

  const NodeValues& first_;
  const NodeValues& second_;
  const std::vector<std::size_t> first_hashes_, second_hashes_;
  std::vector<NodePair> pairs_;
};

}  // namespace

std::vector<NodePair> pair_nodes(const NodeValues& first, const NodeValues& second) {
  if (!std::ranges::equal(first.nodes, second.nodes, does_same_work)) return Alignment(first, second).run();
  std::vector<NodePair> pairs;
  pairs.reserve(first.nodes.size());
  for (std::size_t i = 0; i < first.nodes.size(); ++i) pairs.push_back({i, i});
  return pairs;
}

}  // namespace reprise::inspect
