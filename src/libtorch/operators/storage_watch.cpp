// SPDX-License-Identifier: Apache-2.0
#include "libtorch/operators/storage_watch.h"

#include <utility>

namespace reprise::libtorch {

using Storage = c10::intrusive_ptr<c10::StorageImpl>;

Storage StorageOwner::living(const StorageWatch& watch, std::vector<Storage>& others) {
  for (const auto& each : watch.storages) {
    Storage storage = each.lock();
    if (storage == nullptr) continue;
    const auto* const begin = static_cast<const std::byte*>(storage->_mutable_data_ptr_no_checks().get());
    if (begin >= watch.address && begin < watch.address + watch.bytes) return storage;
    others.push_back(std::move(storage));
  }
  return {};
}

bool StorageOwner::retain(memory::BlockWatch& base) {
  auto& watch = static_cast<StorageWatch&>(base);
  std::vector<Storage> others;
  const std::lock_guard lock(mutex_);
  if (watch.freed.load(std::memory_order_relaxed)) return false;
  if (watch.kept == nullptr) watch.kept = living(watch, others);
  if (watch.kept == nullptr) return false;
  watch.retained += 1;
  return true;
}

void StorageOwner::release(memory::BlockWatch& base) noexcept {
  auto& watch = static_cast<StorageWatch&>(base);
  Storage storage;
  const std::lock_guard lock(mutex_);
  if (--watch.retained == 0) storage = std::move(watch.kept);
}

}  // namespace reprise::libtorch
