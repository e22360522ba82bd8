// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <iterator>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "cache/entry.h"
#include "graph/cuda_graph_impl.h"
#include "inspect/diff/graph_differences.h"
#include "text/format.h"

// The check whether a body still does what the graph of its key does: GraphCacheOptions::check_every.

namespace reprise::caches {

using cache_detail::ResultMemory;
using graphs::GraphAccess;

namespace {

// Returns the differences of two captures of one body, but for addresses: each has its inputs in memory of its own, and
// an address of the first one has no counterpart in the second one. The body itself checks what it uses besides.
std::vector<GraphDifference> own_differences(const cache_detail::OwnGraphs& first,
                                             const cache_detail::OwnGraphs& second) {
  const std::vector<const CUDAGraph*> before = first.graphs(), now = second.graphs();
  std::vector<GraphDifference> all;
  for (std::size_t i = 0; i < std::min(before.size(), now.size()); ++i) {
    std::vector<GraphDifference> some = inspect::differences_but_for_addresses(*before[i], *now[i]);
    std::ranges::move(some, std::back_inserter(all));
  }
  const ComparedNode graph{.number = "0", .name = "another graph", .annotation = {}};  // a backward
  if (before.size() > now.size()) all.push_back({.kind = DifferenceKind::node_removed, .first = graph});
  if (before.size() < now.size()) all.push_back({.kind = DifferenceKind::node_added, .second = graph});
  return all;
}

}  // namespace

// Compares addresses of results only with CacheOutputs::copy: otherwise a node copies the results, and is compared
// with the others of the graph.
std::string Entry::result_differences(const CUDAGraph& again, const BodyResults& results) const {
  if (lender_ == nullptr) return {};
  const bool copies = shared_.options.outputs == CacheOutputs::copy;
  const std::vector<ResultMemory>& before = copies ? in_pool_ : lender_->memory;
  const std::vector<ResultMemory>& now = results.memory;
  if (before.size() != now.size()) return text::format("  results: {}, then {}\n", before.size(), now.size());
  std::vector<inspect::AddressPair> pairs;
  for (std::size_t i = 0; copies && i < before.size(); ++i) pairs.push_back({before[i].data, now[i].data});
  std::vector<bool> same(before.size(), true);
  if (!pairs.empty()) same = inspect::corresponding(graph_, again, pairs);
  std::string text;
  for (std::size_t i = 0; i < before.size(); ++i) {
    if (before[i].bytes != now[i].bytes)
      text += text::format("  result {}: {} bytes, then {}\n", i, before[i].bytes, now[i].bytes);
    else if (before[i].bytes != 0 && !same[i])
      text += text::format("  result {}: {}, then other memory, {}\n", i, before[i].data, now[i].data);
  }
  return text;
}

std::string Entry::check(const Call& call) {
  const auto certain = [](std::vector<GraphDifference> differences) {
    std::erase_if(differences, [](const GraphDifference& each) { return each.perhaps; });
    return inspect::differences_text(differences);
  };
  if (own_ != nullptr) return certain(own_differences(*own_, *capture_itself(call, shared_.pool)));
  set_inputs(call);
  std::vector<InputMemory> at;
  for (std::size_t i = 0; i < inputs_.size(); ++i) {
    const Input& input = inputs_[i];
    at.push_back({input.copied ? input.data() : call.inputs[i].data, input.bytes, input.written});
  }
  CUDAGraph again;
  // Progress marks are in the same memory then.
  GraphAccess::of(again, "GraphCache").listeners.inherit(GraphAccess::of(graph_, "GraphCache").listeners);
  const BodyResults results = capture(again, call, at, /*instantiate=*/false, /*run=*/nullptr);
  return certain(diff(graph_, again)) + result_differences(again, results);
}

}  // namespace reprise::caches
