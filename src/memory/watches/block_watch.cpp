// SPDX-License-Identifier: Apache-2.0
#include "memory/watches/block_watch.h"

#include <algorithm>

#include "memory/allocator_impl.h"
#include "support/immortal.h"

namespace reprise::memory {
namespace {

struct Journals {
  std::mutex mutex;  // guards the list, and what is in the objects; comes after an allocator's
  std::vector<FreeLog*> living;
};

// Never destroyed: a graph in a static object may be abandoned late.
Journals& journals() {
  static support::Immortal<Journals> all;
  return *all;
}

}  // namespace

std::atomic<int> FreeLog::living_{0};

FreeLog::FreeLog(MempoolId own) : own_(own) {
  const std::lock_guard lock(journals().mutex);
  journals().living.push_back(this);
  living_.fetch_add(1, std::memory_order_relaxed);
}

FreeLog::~FreeLog() {
  const std::lock_guard lock(journals().mutex);
  std::erase(journals().living, this);
  living_.fetch_sub(1, std::memory_order_relaxed);
}

bool FreeLog::any_for(MempoolId pool) noexcept {
  const std::lock_guard lock(journals().mutex);
  return std::ranges::any_of(journals().living, [&](const FreeLog* journal) { return journal->own_ != pool; });
}

void FreeLog::note(const std::shared_ptr<BlockWatch>& watch, MempoolId pool) {
  const std::lock_guard lock(journals().mutex);
  for (FreeLog* journal : journals().living)
    if (journal->own_ != pool) journal->freed_[watch->address] = watch;
}

void FreeLog::find(std::span<UsedAddress> addresses) const {
  const std::lock_guard lock(journals().mutex);
  for (const auto& [address, watch] : freed_) {
    const auto begin = reinterpret_cast<std::uintptr_t>(address);
    auto used = std::ranges::lower_bound(addresses, begin, {}, &UsedAddress::value);
    // Memory that was given out again is that of its new owner: who used it in the capture cannot be told.
    for (; used != addresses.end() && used->value - begin < watch->bytes; ++used)
      if (used->watch == nullptr && !used->own) used->watch = watch;
  }
}

bool RetainedBlocks::add(const std::shared_ptr<BlockWatch>& watch) {
  blocks_.reserve(blocks_.size() + 1);
  if (!watch->owner->retain(*watch)) return false;
  blocks_.push_back(watch);
  return true;
}

RetainedBlocks::~RetainedBlocks() {
  for (const auto& watch : blocks_) watch->owner->release(*watch);
}

}  // namespace reprise::memory
