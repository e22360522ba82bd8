// SPDX-License-Identifier: Apache-2.0
#include "memory/watches/block_watch.h"

#include <algorithm>
#include <utility>

#include "backend/backend.h"

namespace reprise::memory {

std::atomic<int> FreeLog::living_{0};
constinit std::mutex FreeLog::mutex_;
constinit FreeLog* FreeLog::first_ = nullptr;

FreeLog::FreeLog(const captures::Capture* capture, Which which) : capture_(capture), which_(which) {
  const std::lock_guard lock(mutex_);
  next_ = std::exchange(first_, this);
  living_.fetch_add(1, std::memory_order_relaxed);
}

FreeLog::~FreeLog() {
  {
    const std::lock_guard lock(mutex_);
    FreeLog** place = &first_;
    while (*place != this) place = &(*place)->next_;
    *place = next_;
    living_.fetch_sub(1, std::memory_order_relaxed);
  }
  for (const auto& watch : kept_) watch->owner->release(*watch);
}

bool FreeLog::records(MempoolId pool) const {
  return (which_ != Which::common || !pool) && (capture_ == nullptr || !capture_->owns(pool));
}

bool FreeLog::keeps(const Device& device, MempoolId pool) const {
  return which_ == Which::kept && !capture_->owns(pool) && backend::same_runtime(capture_->device(), device);
}

bool FreeLog::any_keeps(const Device& device, MempoolId pool) noexcept {
  const std::lock_guard lock(mutex_);
  bool any = false;
  for (const FreeLog* log = first_; log != nullptr; log = log->next_) any |= log->keeps(device, pool);
  return any;
}

void FreeLog::keep(const std::shared_ptr<BlockWatch>& watch, const Device& device, MempoolId pool) {
  const std::lock_guard lock(mutex_);
  for (FreeLog* log = first_; log != nullptr; log = log->next_) {
    if (!log->keeps(device, pool)) continue;
    log->kept_.push_back(watch);
    ++watch->retained;
  }
}

bool FreeLog::empty() const {
  const std::lock_guard lock(mutex_);
  return freed_.empty();
}

bool FreeLog::any_for(MempoolId pool) noexcept {
  const std::lock_guard lock(mutex_);
  bool any = false;
  for (const FreeLog* log = first_; log != nullptr; log = log->next_) any |= log->records(pool);
  return any;
}

void FreeLog::note(const std::shared_ptr<BlockWatch>& watch, MempoolId pool) {
  const std::lock_guard lock(mutex_);
  for (FreeLog* log = first_; log != nullptr; log = log->next_)
    if (log->records(pool)) log->freed_[watch->address] = watch;
}

void FreeLog::find(std::span<UsedAddress> addresses) const {
  const std::lock_guard lock(mutex_);
  for (const auto& [address, watch] : freed_) {
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
