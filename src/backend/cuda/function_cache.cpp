// SPDX-License-Identifier: Apache-2.0
#include "backend/cuda/function_cache.h"

namespace reprise::backend::cuda {

FunctionCache::FunctionCache() {
  tables_.push_back(std::make_unique<Table>(256));
  table_.store(tables_.back().get(), std::memory_order_release);
}

void FunctionCache::insert(Table& table, const KernelRecord& kernel, FunctionHandle function) {
  std::size_t i = hash(kernel);
  while (table.slots[i & table.mask].key.load(std::memory_order_relaxed) != nullptr) ++i;
  Slot& slot = table.slots[i & table.mask];
  slot.function = function;
  slot.key.store(&kernel, std::memory_order_release);
}

void FunctionCache::add(const KernelRecord& kernel, FunctionHandle function) {
  const std::scoped_lock lock(mutex_);
  if (find(kernel) != nullptr) return;
  Table* table = tables_.back().get();
  const std::size_t size = table->mask + 1;
  if (2 * (count_ + 1) > size) {
    auto larger = std::make_unique<Table>(2 * size);
    for (std::size_t i = 0; i < size; ++i) {
      const Slot& slot = table->slots[i];
      if (const KernelRecord* key = slot.key.load(std::memory_order_relaxed)) insert(*larger, *key, slot.function);
    }
    table = larger.get();
    tables_.push_back(std::move(larger));
    insert(*table, kernel, function);
    table_.store(table, std::memory_order_release);
  } else {
    insert(*table, kernel, function);
  }
  ++count_;
}

}  // namespace reprise::backend::cuda
