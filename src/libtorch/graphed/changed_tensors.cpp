// SPDX-License-Identifier: Apache-2.0
// The wheel of torch 2.11 is built with NDEBUG, and does not set what at::RecordFunction::inputs() checks without it.
#ifndef NDEBUG
#define NDEBUG
#endif
#include "libtorch/graphed/changed_tensors.h"

#include <ATen/MemoryOverlap.h>
#include <ATen/core/grad_mode.h>

#include <algorithm>
#include <atomic>

#include "libtorch/graphed/capture_guards.h"
#include "libtorch/host/operator_call.h"
#include "reprise/error.h"
#include "text/format.h"

namespace reprise::libtorch {
namespace {

std::atomic<ChangedTensors*> innermost{nullptr};

const c10::StorageImpl* storage_of(const at::Tensor& tensor) {
  return tensor.defined() && tensor.has_storage() ? tensor.storage().unsafeGetStorageImpl() : nullptr;
}

/// The memory of an operator's arguments, which can be read at its beginning alone.
struct Given final : at::ObserverContext {
  std::vector<const c10::StorageImpl*> storages;
};

bool same_place(const at::Tensor& a, const at::Tensor& b) {
  return storage_of(a) == storage_of(b) && a.storage_offset() == b.storage_offset() && a.sizes() == b.sizes() &&
         a.strides() == b.strides() && a.dtype() == b.dtype();
}

}  // namespace

ChangedTensors::ChangedTensors(c10::Device device, const std::vector<at::Tensor>& restored)
    : device_(device), before_(innermost.exchange(this)) {
  for (const at::Tensor& each : restored) others_.insert(storage_of(each));
  handle_ = at::addThreadLocalCallback(at::RecordFunctionCallback(&begins, &ends)
                                           .needsInputs(true)
                                           .needsOutputs(true)
                                           .scopes({at::RecordScope::FUNCTION}));
}

ChangedTensors::~ChangedTensors() {
  at::removeCallback(handle_);
  innermost.store(before_);
  try {
    restore();
  } catch (const std::exception& error) {
    warn_not_restored(error);
  }
}

void ChangedTensors::next_run(bool captures) {
  const std::lock_guard lock(mutex_);
  ++run_;
  captures_ = captures;
}

std::unique_ptr<at::ObserverContext> ChangedTensors::begins(const at::RecordFunction& call) {
  ChangedTensors* const changed = innermost.load();
  if (changed == nullptr) return nullptr;
  const std::lock_guard lock(changed->mutex_);
  const at::DisableRecordFunctionGuard unobserved;
  const c10::ArrayRef<const c10::IValue> inputs = call.inputs();
  for (const std::size_t each : changed->mutable_arguments(call))
    if (each < inputs.size())
      for_each_tensor(inputs[each], [&](const at::Tensor& tensor) { changed->note_change(tensor); });
  auto given = std::make_unique<Given>();
  for (const c10::IValue& each : inputs)
    for_each_tensor(each, [&](const at::Tensor& tensor) { given->storages.push_back(storage_of(tensor)); });
  return given;
}

const std::vector<std::size_t>& ChangedTensors::mutable_arguments(const at::RecordFunction& call) {
  const auto [known, is_new] = mutable_arguments_.try_emplace(call.name());
  if (!is_new) return known->second;
  const std::optional<c10::FunctionSchema> schema = call.operator_schema();
  for (std::size_t i = 0; schema && i < schema->arguments().size(); ++i)
    if (schema->is_mutable({c10::SchemaArgType::input, i})) known->second.push_back(i);
  return known->second;
}

void ChangedTensors::ends(const at::RecordFunction& call, at::ObserverContext* context) {
  ChangedTensors* const changed = innermost.load();
  const auto* const given = static_cast<const Given*>(context);
  if (changed == nullptr || given == nullptr) return;
  const std::lock_guard lock(changed->mutex_);
  for (const c10::IValue& output : call.outputs())
    for_each_tensor(output, [&](const at::Tensor& tensor) {
      // A view, or the argument itself, is of older memory.
      if (std::ranges::find(given->storages, storage_of(tensor)) == given->storages.end())
        changed->others_.insert(storage_of(tensor));
    });
}

void ChangedTensors::note_change(const at::Tensor& tensor) {
  const auto* const storage = storage_of(tensor);
  if (run_ == 0 || storage == nullptr || tensor.device() != device_ || others_.contains(storage)) return;
  bool is_known = false;
  for (Changed& each : changed_) {
    if (storage_of(each.tensor) == storage && each.last_run != run_) {
      each.is_state = true;
      each.last_run = run_;
    }
    is_known = is_known || same_place(each.tensor, tensor);
  }
  if (is_known || captures_ || at::has_internal_overlap(tensor) == at::MemOverlap::Yes) return;
  const at::NoGradGuard no_grad;
  const at::Tensor detached = tensor.detach();
  const auto version = tensor.is_inference() ? 0 : static_cast<std::uint32_t>(tensor._version());
  changed_.push_back({detached, detached.clone(), version, run_, false});
}

// The last one that was changed first: its values may be those after the change of another view of its memory.
void ChangedTensors::restore() {
  for (; !changed_.empty(); changed_.pop_back()) {
    const Changed& last = changed_.back();
    if (!last.is_state) continue;
    write_back(last.tensor, last.values);
    if (!last.tensor.is_inference()) set_version(last.tensor, last.version);
  }
}

}  // namespace reprise::libtorch
