// SPDX-License-Identifier: Apache-2.0
#include "libtorch/operators/tensor_inputs.h"

#include <optional>

#include "libtorch/operators/storage_watch.h"
#include "support/immortal.h"

namespace reprise::libtorch {
namespace {

class PinnedMemory final : public StorageOwner {
 public:
  static PinnedMemory& get() {
    static support::Immortal<PinnedMemory> instance;  // graphs may be there until the process ends
    return *instance;
  }

  bool needs_query() const noexcept override { return true; }
  void query(memory::BlockWatch& watch) noexcept override {
    std::vector<c10::intrusive_ptr<c10::StorageImpl>> found;
    const std::lock_guard lock(mutex_);
    found.push_back(living(static_cast<StorageWatch&>(watch), found));
    if (found.back() == nullptr) watch.freed.store(true, std::memory_order_release);
  }
  bool is_given_out_again(const memory::BlockWatch& /*watch*/) override { return false; }  // unknown
};

}  // namespace

void TensorInputs::find(std::span<memory::UsedAddress> addresses) {
  std::shared_ptr<StorageWatch> last;  // addresses are in ascending order
  for (memory::UsedAddress& used : addresses) {
    if (used.in_allocator || !operators_->has(used.value)) continue;
    const auto* const address = reinterpret_cast<const std::byte*>(used.value);
    if (last == nullptr || address >= last->address + last->bytes) {
      std::optional<OperatorInputs::Memory> memory = operators_->pinned_memory_at(used.value);
      if (!memory) continue;
      auto* const begin = reinterpret_cast<std::byte*>(memory->begin);
      last = std::shared_ptr<StorageWatch>(
          new StorageWatch{{&PinnedMemory::get(), begin, memory->bytes, {}}, std::move(memory->storages)});
    }
    used.in_allocator = true;
    used.watch = last;
  }
}

}  // namespace reprise::libtorch
