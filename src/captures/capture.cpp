// SPDX-License-Identifier: Apache-2.0
#include "captures/capture.h"

#include <algorithm>

#include "backend/backend.h"
#include "backend/check.h"

namespace reprise::captures {

std::size_t detail::SlotNumber::get() const noexcept {
  static std::atomic<std::size_t> last{0};
  if (const std::size_t known = number_.load(std::memory_order_relaxed); known != 0) return known - 1;
  std::size_t before = 0;
  const std::size_t mine = last.fetch_add(1, std::memory_order_relaxed) + 1;
  // Another thread may have been first; its number counts, and this one is never used.
  return (number_.compare_exchange_strong(before, mine, std::memory_order_relaxed) ? mine : before) - 1;
}

void Capture::add_id(std::uint64_t id) {
  const std::lock_guard lock(mutex_);
  if (!is_over()) ids_.push_back(id);
}

void Capture::query_id() {
  const std::lock_guard lock(mutex_);
  if (is_over() || !ids_.empty()) return;
  backend::CaptureInfo info;
  backend::Checked(device().backend()).stream_capture_info(stream_.native(), &info);
  if (info.status == CaptureStatus::active) ids_.push_back(info.id);
}

bool Capture::has_id(std::uint64_t id) const noexcept {
  const std::lock_guard lock(mutex_);
  return std::ranges::find(ids_, id) != ids_.end();
}

bool Capture::has_ids() const noexcept {
  const std::lock_guard lock(mutex_);
  return !ids_.empty();
}

// Under the mutex.
Capture::Attached& Capture::place(std::size_t number) {
  if (attached_.size() <= number) attached_.resize(number + 1);
  attached_any_.store(true, std::memory_order_relaxed);
  return attached_[number];
}

void Capture::put(std::size_t number, Attached attached) {
  const std::lock_guard lock(mutex_);
  std::swap(place(number), attached);  // what was there is destroyed without the mutex
}

std::shared_ptr<void> Capture::put_first(std::size_t number, Attached attached) {
  const std::lock_guard lock(mutex_);
  Attached& there = place(number);
  if (there.value == nullptr && !is_over()) there = std::move(attached);
  return there.value;
}

std::shared_ptr<void> Capture::value_at(std::size_t number) const noexcept {
  const std::lock_guard lock(mutex_);
  return number < attached_.size() ? attached_[number].value : nullptr;
}

std::shared_ptr<void> Capture::take(std::size_t number) noexcept {
  const std::lock_guard lock(mutex_);
  return number < attached_.size() ? std::exchange(attached_[number], {}).value : nullptr;
}

// Without the mutex during a visit.
template <class Visit>
void Capture::for_each_attached(const Visit& visit) const noexcept {
  if (!attached_any_.load(std::memory_order_relaxed)) return;
  for (std::size_t number = 0;; ++number) {
    Attached attached;
    {
      const std::lock_guard lock(mutex_);
      if (number >= attached_.size()) return;
      attached = attached_[number];
    }
    if (attached.value != nullptr) visit(attached);
  }
}

void Capture::stream_ends(const StreamRef& stream) noexcept {
  for_each_attached([&](const Attached& attached) {
    if (attached.stream_ends != nullptr) attached.stream_ends(attached.value.get(), stream);
  });
}

void Capture::capture_ends() noexcept {
  for_each_attached([&](const Attached& attached) {
    if (attached.capture_ends != nullptr) attached.capture_ends(attached.value.get());
  });
}

void Capture::become_over() noexcept {
  const std::lock_guard lock(mutex_);
  over_.store(true, std::memory_order_relaxed);
  ids_.clear();
}

void Capture::detach_all() noexcept {
  if (!attached_any_.load(std::memory_order_relaxed)) return;
  std::vector<Attached> left;  // destroyed without the mutex
  const std::lock_guard lock(mutex_);
  left.swap(attached_);
}

}  // namespace reprise::captures
