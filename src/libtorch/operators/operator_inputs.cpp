// SPDX-License-Identifier: Apache-2.0
// The wheel of torch 2.11 is built with NDEBUG, and does not set what at::RecordFunction::inputs() checks without it.
#ifndef NDEBUG
#define NDEBUG
#endif
#include "libtorch/operators/operator_inputs.h"

#include <algorithm>
#include <iterator>
#include <unordered_set>

#include "backend/check.h"
#include "libtorch/host/operator_call.h"

namespace reprise::libtorch {

using backend::Checked;

namespace {

// The nodes that come before each node of a graph.
class Graph {
 public:
  Graph(backend::Backend& backend, GraphHandle graph) {
    std::vector<GraphNodeHandle> nodes;
    Checked(backend).graph_nodes(graph, &nodes);
    for (std::size_t i = 0; i < nodes.size(); ++i) nodes_[nodes[i]].place = i;
    std::vector<backend::Edge> edges;
    Checked(backend).graph_edges(graph, &edges);
    for (const backend::Edge& edge : edges) nodes_[edge.to].before.push_back(edge.from);
  }

  /// The nodes between two sets of nodes: ancestors of the second one that were created after the first one.
  std::unordered_set<GraphNodeHandle> between(const std::vector<GraphNodeHandle>& from,
                                              const std::vector<GraphNodeHandle>& to) const {
    std::unordered_set<GraphNodeHandle> found;
    std::size_t last = 0;  // how many there were
    for (const GraphNodeHandle node : from)
      if (const auto at = nodes_.find(node); at != nodes_.end()) last = std::max(last, at->second.place + 1);
    std::vector<GraphNodeHandle> open = to;
    while (!open.empty()) {
      const auto at = nodes_.find(open.back());
      open.pop_back();
      if (at == nodes_.end() || at->second.place < last || !found.insert(at->first).second) continue;
      open.insert(open.end(), at->second.before.begin(), at->second.before.end());
    }
    return found;
  }

 private:
  struct Node {
    std::size_t place = 0;  // in order of creation
    std::vector<GraphNodeHandle> before = {};
  };
  std::unordered_map<GraphNodeHandle, Node> nodes_;
};

}  // namespace

void OperatorInputs::began(const RunningOperator& op, const at::RecordFunction& call, const Nodes* tails) {
  const std::lock_guard lock(mutex_);
  if (tails != nullptr) {
    running_[&op] = outermost_.size();
    outermost_.push_back({op.name, *tails});
  }
  const RunningOperator* outermost = &op;
  while (outermost->within != nullptr) outermost = outermost->within;
  const auto running = running_.find(outermost);
  Ranges* const given = running != running_.end() ? &outermost_[running->second].given : nullptr;
  for (const c10::IValue& argument : call.inputs())
    for_each_tensor(argument, [&](const at::Tensor& tensor) { add(tensor, given); });
}

void OperatorInputs::ended(const RunningOperator& op, const End& end) {
  if (op.within != nullptr) return;
  const std::lock_guard lock(mutex_);
  if (const auto running = running_.extract(&op)) {
    const auto tails = end.capture.dependencies;
    outermost_[running.mapped()].after.assign(tails.begin(), tails.end());
  }
}

void OperatorInputs::add(const at::Tensor& tensor, Ranges* given) {
  if (!tensor.defined() || !tensor.has_storage()) return;
  c10::StorageImpl* const storage = tensor.storage().unsafeGetStorageImpl();
  const auto begin = reinterpret_cast<std::uintptr_t>(storage->_mutable_data_ptr_no_checks().get());
  if (begin == 0) return;
  if (given != nullptr) {
    std::uintptr_t& end = (*given)[begin];
    end = std::max(end, begin + storage->nbytes());
  }
  Memory& memory = memory_[begin];
  memory.begin = begin;
  memory.bytes = std::max(memory.bytes, storage->nbytes());
  const auto is_it = [&](const auto& known) { return known._unsafe_get_target() == storage; };
  if (std::ranges::any_of(memory.storages, is_it)) return;
  memory.storages.push_back(tensor.storage().getWeakStorageImpl());
  if (keeps_ && (storage->device().is_cpu() || has_address(*keeps_, begin)))
    kept_.push_back(memory.storages.back().lock());
}

// Storages are released without the mutex: that calls allocators.
void OperatorInputs::release_kept() noexcept {
  std::vector<c10::intrusive_ptr<c10::StorageImpl>> kept;
  const std::lock_guard lock(mutex_);
  kept.swap(kept_);
}

bool OperatorInputs::lies_in(const Ranges& ranges, std::uintptr_t address) {
  return std::any_of(ranges.begin(), ranges.upper_bound(address),
                     [&](const auto& each) { return address < each.second; });
}

bool OperatorInputs::has_address(const Ranges& apart, std::uintptr_t address) {
  const auto after = apart.upper_bound(address);
  return after != apart.begin() && address < std::prev(after)->second;
}

bool OperatorInputs::has(std::uintptr_t address) const {
  const std::lock_guard lock(mutex_);
  return has_address(ranges_, address);
}

bool OperatorInputs::may_use(GraphNodeHandle node, std::uintptr_t address) const {
  const std::lock_guard lock(mutex_);
  const auto [first, last] = made_.equal_range(node);
  return first == last ||
         std::any_of(first, last, [&](const auto& made) { return lies_in(outermost_[made.second].given, address); });
}

std::string OperatorInputs::operator_of(GraphNodeHandle node) const {
  const std::lock_guard lock(mutex_);
  const auto [first, last] = made_.equal_range(node);
  if (first == last) return {};
  const auto by_number = [](const auto& one, const auto& other) { return one.second < other.second; };
  return outermost_[std::min_element(first, last, by_number)->second].name;
}

WeakStorages OperatorInputs::storages_in(const void* begin, std::size_t bytes) const {
  const std::lock_guard lock(mutex_);
  WeakStorages found;
  const auto first = reinterpret_cast<std::uintptr_t>(begin);
  for (auto at = memory_.lower_bound(first); at != memory_.end() && at->first - first < bytes; ++at)
    for (const auto& storage : at->second.storages) found.push_back(storage);
  return found;
}

std::optional<OperatorInputs::Memory> OperatorInputs::pinned_memory_at(std::uintptr_t address) const {
  const Checked runtime(device().backend());
  backend::PointerInfo info;
  runtime.pointer_info(reinterpret_cast<const void*>(address), &info);
  if (info.kind != backend::MemoryKind::pinned) return std::nullopt;
  const std::lock_guard lock(mutex_);
  const auto after = memory_.upper_bound(address);
  if (after == memory_.begin() || address - std::prev(after)->first >= std::prev(after)->second.bytes)
    return std::nullopt;
  return std::prev(after)->second;
}

void OperatorInputs::look_at(GraphHandle template_graph) {
  close();
  const std::lock_guard lock(mutex_);
  const Graph graph(device().backend(), template_graph);
  for (std::size_t i = 0; i < outermost_.size(); ++i)
    for (const GraphNodeHandle node : graph.between(outermost_[i].before, outermost_[i].after)) made_.emplace(node, i);
  for (const auto& [begin, memory] : memory_) {
    const std::uintptr_t end = begin + memory.bytes;
    const auto last = ranges_.empty() ? ranges_.end() : std::prev(ranges_.end());
    // Memory is split into other blocks again and again.
    if (last != ranges_.end() && begin <= last->second)
      last->second = std::max(last->second, end);
    else
      ranges_.emplace_hint(ranges_.end(), begin, end);
  }
}

}  // namespace reprise::libtorch
