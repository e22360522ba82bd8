// SPDX-License-Identifier: Apache-2.0
#include "captures/capture.h"

#include <algorithm>

#include "backend/capture_query.h"
#include "reprise/error.h"

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

void Capture::add_body(std::shared_ptr<const Body> body) {
  const std::lock_guard lock(mutex_);
  if (is_over()) return;
  if (body->repeats) {
    const Body* outermost = body.get();
    while (outermost->outer != nullptr) outermost = outermost->outer.get();
    nodes_with_loops_.push_back(outermost->node);
  }
  bodies_.reserve(bodies_.size() + 1);
  open_bodies_.push_back(body.get());
  if (body->repeats) open_loops_.fetch_add(1, std::memory_order_relaxed);
  bodies_.push_back(std::move(body));
}

void Capture::body_ends(const Body& body) noexcept {
  const std::lock_guard lock(mutex_);
  if (std::erase(open_bodies_, &body) != 0 && body.repeats) open_loops_.fetch_sub(1, std::memory_order_relaxed);
}

bool Capture::is_outside_open_loop(const StreamRef& stream) const noexcept {
  if (open_loops_.load(std::memory_order_relaxed) == 0) return false;
  const std::lock_guard lock(mutex_);
  const auto used = std::ranges::find(used_in_bodies_, stream, &std::pair<StreamRef, StreamRef>::first);
  const StreamRef& of_body = used != used_in_bodies_.end() ? used->second : stream;
  const auto mine = std::ranges::find(open_bodies_, of_body, [](const Body* body) { return body->stream; });
  const auto is_within = [&](const Body* loop) {
    const Body* body = mine != open_bodies_.end() ? *mine : nullptr;
    while (body != nullptr && body != loop) body = body->outer.get();
    return body != nullptr;
  };
  return !std::ranges::all_of(open_bodies_, [&](const Body* body) { return !body->repeats || is_within(body); });
}

void Capture::use_in_body(const StreamRef& stream, const Body& body) {
  if (stream == body.stream) return;
  const std::lock_guard lock(mutex_);
  const auto known = std::ranges::find(used_in_bodies_, stream, &std::pair<StreamRef, StreamRef>::first);
  if (known == used_in_bodies_.end())
    used_in_bodies_.emplace_back(stream, body.stream);
  else if (known->second != body.stream)
    throw UsageError(
        "Memory was requested for a stream that was forked off the bodies of two conditional nodes of one capture. "
        "Bodies may run at the same time or repeatedly: memory freed in one body could be in use in the other. Use "
        "another stream in each body, or allocate on the stream that is passed to the body.");
}

bool Capture::leaves_body(const StreamRef& stream) noexcept {
  const std::lock_guard lock(mutex_);
  const auto used = std::ranges::find(used_in_bodies_, stream, &std::pair<StreamRef, StreamRef>::first);
  if (used == used_in_bodies_.end()) return false;
  if (std::ranges::any_of(open_bodies_, [&](const Body* body) { return body->stream == used->second; })) return false;
  used_in_bodies_.erase(used);
  return true;
}

bool Capture::has_loops() const noexcept {
  const std::lock_guard lock(mutex_);
  return !nodes_with_loops_.empty();
}

bool Capture::repeats(GraphNodeHandle node) const noexcept {
  const std::lock_guard lock(mutex_);
  return std::ranges::find(nodes_with_loops_, node) != nodes_with_loops_.end();
}

std::shared_ptr<const Body> Capture::body(std::uint64_t id) const noexcept {
  const std::lock_guard lock(mutex_);
  const auto found = std::ranges::find(bodies_, id, [](const auto& body) { return body->id; });
  return found != bodies_.end() ? *found : nullptr;
}

void Capture::query_id() {
  const std::lock_guard lock(mutex_);
  if (is_over() || !ids_.empty()) return;
  const backend::CaptureInfo info = backend::capture_info(stream_);
  if (info.status == CaptureStatus::active) ids_.push_back(info.id);
}

std::uint64_t Capture::id() {
  query_id();
  const std::lock_guard lock(mutex_);
  return ids_.empty() ? 0 : ids_.front();
}

bool Capture::has_id(std::uint64_t id) const noexcept {
  const std::lock_guard lock(mutex_);
  return std::ranges::find(ids_, id) != ids_.end() ||
         std::ranges::any_of(bodies_, [&](const auto& body) { return body->id == id; });
}

bool Capture::has_ids() const noexcept {
  const std::lock_guard lock(mutex_);
  return !ids_.empty();
}

std::vector<MempoolId> Capture::pools() const {
  const std::lock_guard lock(mutex_);
  std::vector<MempoolId> all = {pool_};
  all.insert(all.end(), pools_of_children_.begin(), pools_of_children_.end());
  return all;
}

void Capture::add_pools(const std::vector<MempoolId>& of_child) {
  const std::lock_guard lock(mutex_);
  pools_of_children_.insert(pools_of_children_.end(), of_child.begin(), of_child.end());
}

bool Capture::owns(MempoolId pool) const noexcept {
  if (pool == pool_) return true;
  const std::lock_guard lock(mutex_);
  return std::ranges::find(pools_of_children_, pool) != pools_of_children_.end();
}

// Under the mutex.
Capture::Attached& Capture::place(std::size_t number) {
  if (attached_.size() <= number) attached_.resize(number + 1);
  attached_to_.fetch_or(bit(number), std::memory_order_relaxed);
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
template <class End, class Visit>
void Capture::for_each_attached(End Attached::*end, const Visit& visit) const noexcept {
  if (attached_to_.load(std::memory_order_relaxed) == 0) return;
  for (std::size_t number = 0;; ++number) {
    Attached attached;
    {
      const std::lock_guard lock(mutex_);
      while (number < attached_.size() && (attached_[number].value == nullptr || attached_[number].*end == nullptr))
        ++number;
      if (number >= attached_.size()) return;
      attached = attached_[number];
    }
    visit(attached);
  }
}

void Capture::stream_ends(const StreamRef& stream) noexcept {
  {
    const std::lock_guard lock(mutex_);
    std::erase_if(used_in_bodies_, [&](const auto& used) { return used.first == stream; });
  }
  for_each_attached(&Attached::stream_ends,
                    [&](const Attached& attached) { attached.stream_ends(attached.value.get(), stream); });
}

void Capture::capture_ends() noexcept {
  for_each_attached(&Attached::capture_ends,
                    [&](const Attached& attached) { attached.capture_ends(attached.value.get()); });
}

void Capture::become_over() noexcept {
  const std::lock_guard lock(mutex_);
  over_.store(true, std::memory_order_relaxed);
  ids_.clear();
  open_loops_.store(0, std::memory_order_relaxed);
  open_bodies_.clear();
  bodies_.clear();
}

void Capture::detach_all() noexcept {
  if (attached_to_.load(std::memory_order_relaxed) == 0) return;
  std::vector<Attached> left;  // destroyed without the mutex
  const std::lock_guard lock(mutex_);
  left.swap(attached_);
}

}  // namespace reprise::captures
