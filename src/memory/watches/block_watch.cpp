// SPDX-License-Identifier: Apache-2.0
#include "memory/watches/block_watch.h"

#include <algorithm>
#include <map>
#include <mutex>

#include "backend/backend.h"
#include "captures/registry.h"

namespace reprise::memory {

struct FreeLog::Entries {
  explicit Entries(Which recorded) : which(recorded) {}

  const Which which;
  std::mutex mutex;
  std::map<std::byte*, std::shared_ptr<BlockWatch>> freed;  // by address, the last one that began there
  std::vector<std::shared_ptr<BlockWatch>> kept;
  bool over = false;  // nothing is kept any more

  static constinit captures::Slot<Entries> slot;
};

constinit captures::Slot<FreeLog::Entries> FreeLog::Entries::slot;
std::atomic<int> FreeLog::living_{0};

FreeLog::FreeLog(captures::Capture& capture, Which which)
    : capture_(capture), entries_(std::make_shared<Entries>(which)) {
  capture.attach(Entries::slot, entries_);
  living_.fetch_add(1, std::memory_order_relaxed);
}

FreeLog::~FreeLog() {
  capture_.detach(Entries::slot);
  living_.fetch_sub(1, std::memory_order_relaxed);
  std::vector<std::shared_ptr<BlockWatch>> kept;
  {
    const std::lock_guard lock(entries_->mutex);
    entries_->over = true;
    kept.swap(entries_->kept);
  }
  for (const auto& watch : kept) watch->owner->release(*watch);
}

// The logs of captures into other pools.
template <class Visit>
void FreeLog::for_each_other(MempoolId pool, const Visit& visit) {
  captures::for_each([&](const captures::Capture& capture) {
    if (capture.owns(pool)) return;
    const auto entries = capture.get(Entries::slot);
    if (entries != nullptr && (entries->which != Which::common || !pool)) visit(*entries);
  });
}

template <class Visit>
void FreeLog::for_each_that_keeps(const Device& device, MempoolId pool, const Visit& visit) {
  captures::for_each([&](const captures::Capture& capture) {
    if (capture.owns(pool) || !backend::same_runtime(capture.device(), device)) return;
    const auto entries = capture.get(Entries::slot);
    if (entries != nullptr && entries->which == Which::kept) visit(*entries);
  });
}

bool FreeLog::any_keeps(const Device& device, MempoolId pool) noexcept {
  bool any = false;
  for_each_that_keeps(device, pool, [&](const Entries&) { any = true; });
  return any;
}

void FreeLog::keep(const std::shared_ptr<BlockWatch>& watch, const Device& device, MempoolId pool) {
  for_each_that_keeps(device, pool, [&](Entries& entries) {
    const std::lock_guard lock(entries.mutex);
    if (entries.over) return;
    entries.kept.push_back(watch);
    ++watch->retained;
  });
}

bool FreeLog::empty() const {
  const std::lock_guard lock(entries_->mutex);
  return entries_->freed.empty();
}

bool FreeLog::any_for(MempoolId pool) noexcept {
  bool any = false;
  for_each_other(pool, [&](Entries&) { any = true; });
  return any;
}

void FreeLog::note(const std::shared_ptr<BlockWatch>& watch, MempoolId pool) {
  for_each_other(pool, [&](Entries& entries) {
    const std::lock_guard lock(entries.mutex);
    entries.freed[watch->address] = watch;
  });
}

void FreeLog::find(std::span<UsedAddress> addresses) const {
  const std::lock_guard lock(entries_->mutex);
  for (const auto& [address, watch] : entries_->freed) {
    const auto begin = reinterpret_cast<std::uintptr_t>(address);
    auto used = std::ranges::lower_bound(addresses, begin, {}, &UsedAddress::value);
    // Memory that was allocated again belongs to its new owner: its user in the capture is unknown.
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
