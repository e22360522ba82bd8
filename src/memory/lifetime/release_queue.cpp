// SPDX-License-Identifier: Apache-2.0
#include "memory/lifetime/release_queue.h"

#include <condition_variable>
#include <cstddef>
#include <mutex>
#include <utility>

#include "backend/notifications.h"
#include "support/forked.h"
#include "support/immortal.h"

namespace reprise::memory {

using Resources = ReleaseQueue::Resources;

/// Resources in order. Needs no memory: the queue is used where none may be left.
class ResourceList {
 public:
  ResourceList() = default;
  ResourceList(ResourceList&& other) noexcept { append(other); }
  ResourceList& operator=(ResourceList&&) = delete;
  // One by one, for lists that are long.
  ~ResourceList() {
    while (!empty()) pop_front().reset();
  }

  bool empty() const noexcept { return first_ == nullptr; }
  void push_back(std::unique_ptr<Resources> resources) noexcept {
    Resources* const added = resources.get();
    (last_ != nullptr ? last_->next_ : first_) = std::move(resources);
    last_ = added;
  }
  std::unique_ptr<Resources> pop_front() noexcept {
    std::unique_ptr<Resources> taken = std::move(first_);
    first_ = std::move(taken->next_);
    if (first_ == nullptr) last_ = nullptr;
    return taken;
  }
  /// Moves all of the other list to the end of this one.
  void append(ResourceList& other) noexcept {
    while (!other.empty()) push_back(other.pop_front());
  }
  static LastLaunch& after(Resources& resources) noexcept { return resources.after_; }

 private:
  std::unique_ptr<Resources> first_;
  Resources* last_ = nullptr;
};

namespace {

struct Queue {
  Queue() {
    static constinit support::Callback<const Device&> callback([](const Device&) noexcept { ReleaseQueue::drain(); });
    backend::simulator_end_callbacks.add(callback);
  }

  std::mutex mutex;
  std::condition_variable changed;
  ResourceList waiting;
  std::atomic<bool> any{false};  // lets drain() return without the mutex
};

// Never destroyed: the driver may call user objects' destructors while static objects are being destroyed.
Queue& queue() {
  static support::Immortal<Queue> instance;
  return *instance;
}

}  // namespace

void ReleaseQueue::push(std::unique_ptr<Resources> resources) noexcept {
  push(std::move(resources), {});
}

void ReleaseQueue::push(std::unique_ptr<Resources> resources, LastLaunch after) noexcept {
  if (support::forked()) [[unlikely]] {
    static_cast<void>(resources.release());
    return;
  }
  Queue& q = queue();
  {
    const std::lock_guard lock(q.mutex);
    if (resources != nullptr && !resources->empty()) {
      resources->after_ = std::move(after);
      q.waiting.push_back(std::move(resources));
      q.any.store(true, std::memory_order_release);
    }
  }
  q.changed.notify_all();
}

namespace {

// The number of running launches that a drain queries: there may be thousands, and each destroyed graph drains.
constexpr std::size_t most_queries = 8;

// Releases what is due of these; returns the others, in the order in which the next drain is to query them.
ResourceList release_due(ResourceList taken, bool wait) {
  ResourceList still_running, not_queried;
  std::size_t queries = 0;
  while (!taken.empty()) {
    std::unique_ptr<Resources> resources = taken.pop_front();
    LastLaunch& after = ResourceList::after(*resources);
    if (wait) after.wait();
    if (!wait && queries == most_queries) {
      not_queried.push_back(std::move(resources));
    } else if (!after.is_over()) {
      still_running.push_back(std::move(resources));
      ++queries;
    }
  }
  not_queried.append(still_running);
  return not_queried;
}

void drain_due(bool wait) noexcept {
  Queue& q = queue();
  if (!q.any.load(std::memory_order_acquire) || support::forked()) return;
  ResourceList taken;
  {
    const std::lock_guard lock(q.mutex);
    taken.append(q.waiting);
    q.any.store(false, std::memory_order_relaxed);
  }
  // Without the mutex: a resource's destructor may push or drain itself.
  ResourceList left = release_due(std::move(taken), wait);
  if (left.empty()) return;
  const std::lock_guard lock(q.mutex);
  q.waiting.append(left);
  q.any.store(true, std::memory_order_release);
}

}  // namespace

void ReleaseQueue::drain() noexcept {
  drain_due(false);
}

void ReleaseQueue::drain_waiting() noexcept {
  drain_due(true);
}

bool ReleaseQueue::wait(const std::atomic<bool>& flag, std::chrono::microseconds limit) noexcept {
  if (support::forked()) return flag;
  Queue& q = queue();
  std::unique_lock lock(q.mutex);
  return q.changed.wait_for(lock, limit, [&] { return flag.load(std::memory_order_acquire); });
}

}  // namespace reprise::memory
