// SPDX-License-Identifier: Apache-2.0
// The wheel of torch 2.11 is built with NDEBUG, and does not set what at::RecordFunction::inputs() checks without it.
#ifndef NDEBUG
#define NDEBUG
#endif
#include "libtorch/operators/operator_inputs.h"

#include <algorithm>
#include <iterator>

#include "backend/check.h"
#include "libtorch/host/operator_call.h"

namespace reprise::libtorch {

using backend::Checked;

void OperatorInputs::began(const RunningOperator& op, const at::RecordFunction& call, const Nodes* tails) {
  const std::lock_guard lock(mutex_);
  intervals_.began(op, tails);
  given_.resize(intervals_.size());
  const std::optional<std::size_t> number = intervals_.number_of(op);
  Ranges* const given = number ? &given_[*number] : nullptr;
  for (const c10::IValue& argument : call.inputs())
    for_each_tensor(argument, [&](const at::Tensor& tensor) { add(tensor, given); });
}

void OperatorInputs::ended(const RunningOperator& op, const End& end) {
  if (op.within != nullptr) return;
  const std::lock_guard lock(mutex_);
  intervals_.ended(op, end);
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
         std::any_of(first, last, [&](const auto& made) { return lies_in(given_[made.second], address); });
}

std::string OperatorInputs::operator_of(GraphNodeHandle node) const {
  const std::lock_guard lock(mutex_);
  const auto [first, last] = made_.equal_range(node);
  if (first == last) return {};
  return intervals_.name(std::min_element(first, last, [](const auto& one, const auto& other) {
                           return one.second < other.second;
                         })->second);
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
  const std::lock_guard lock(mutex_);
  made_ = intervals_.makers(device().backend(), template_graph);
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
