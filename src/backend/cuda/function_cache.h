// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <mutex>
#include <vector>

#include "reprise/kernel.h"

namespace reprise::backend::cuda {

/// The functions of one device by kernel, for each launch.
///
/// A hash table that only grows. find() takes no lock and may run concurrently with add(): a slot's function is written
/// before its key, and outgrown tables are kept, so that a concurrent reader of one misses at worst.
class FunctionCache {
 public:
  FunctionCache();

  /// Null if the kernel was not added yet.
  FunctionHandle find(const KernelRecord& kernel) const noexcept {
    const Table& table = *table_.load(std::memory_order_acquire);
    for (std::size_t i = hash(kernel);; ++i) {
      const Slot& slot = table.slots[i & table.mask];
      const KernelRecord* const key = slot.key.load(std::memory_order_acquire);
      if (key == &kernel) return slot.function;
      if (key == nullptr) return nullptr;
    }
  }

  /// No-op if the kernel was added already.
  void add(const KernelRecord& kernel, FunctionHandle function);

 private:
  struct Slot {
    std::atomic<const KernelRecord*> key = nullptr;
    FunctionHandle function = nullptr;
  };
  struct Table {
    explicit Table(std::size_t size) : mask(size - 1), slots(new Slot[size]) {}
    std::size_t mask;  ///< the size is a power of two, and never full
    std::unique_ptr<Slot[]> slots;
  };

  static std::size_t hash(const KernelRecord& kernel) noexcept {
    // Records lie far apart; the upper bits of the product depend on all of their address.
    return static_cast<std::size_t>((reinterpret_cast<std::uintptr_t>(&kernel) * 0x9E3779B97F4A7C15ULL) >> 40U);
  }
  static void insert(Table& table, const KernelRecord& kernel, FunctionHandle function);

  std::atomic<const Table*> table_;
  std::mutex mutex_;  ///< guards what follows, and adding
  std::vector<std::unique_ptr<Table>> tables_;
  std::size_t count_ = 0;
};

}  // namespace reprise::backend::cuda
