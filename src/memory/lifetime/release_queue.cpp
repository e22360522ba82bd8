// SPDX-License-Identifier: Apache-2.0
#include "memory/lifetime/release_queue.h"

#include <condition_variable>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <mutex>
#include <utility>

#include "backend/device_end.h"
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

/// A drain underway, on any thread.
struct Drain {
  std::uint64_t number = 0;
  Drain* next = nullptr;
};

/// A device whose launches only the thread that waits for them takes.
struct Claim {
  const Device device;
  Claim* next = nullptr;
};

template <class Link>
void unlink(Link*& first, const Link& link) noexcept {
  Link** at = &first;
  while (*at != &link) at = &(*at)->next;
  *at = link.next;
}

void simulator_ends(const Device* device, const std::function<void()>* wait_until_idle) noexcept {
  if (device == nullptr)
    ReleaseQueue::drain();
  else
    ReleaseQueue::drain_all(*device, *wait_until_idle);
}

struct Queue {
  Queue() {
    static constinit support::Callback<const Device*, const std::function<void()>*> callback(&simulator_ends);
    backend::pending_release_callbacks.add(callback);
  }

  std::mutex mutex;
  std::condition_variable changed;
  ResourceList waiting;
  Claim* claims = nullptr;
  Drain* drains = nullptr;
  std::uint64_t last_number = 0;  // of a drain
  std::atomic<bool> any{false};   // lets drain() return without the mutex
};

thread_local std::ptrdiff_t own_drains = 0;  // underway on this thread: a resource's destructor may drain

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

// Takes the resources for which `takes` holds, has `release` release what is due, and keeps those that it returns.
// Returns the number of this drain.
template <class Takes, class Release>
std::uint64_t drain_entries(const Takes& takes, const Release& release) {
  Queue& q = queue();
  ResourceList taken;
  Drain drain;
  {
    const std::lock_guard lock(q.mutex);
    ResourceList others;
    while (!q.waiting.empty()) {
      std::unique_ptr<Resources> resources = q.waiting.pop_front();
      ResourceList& list = q.claims == nullptr || takes(ResourceList::after(*resources)) ? taken : others;
      list.push_back(std::move(resources));
    }
    q.waiting.append(others);
    q.any.store(!q.waiting.empty(), std::memory_order_relaxed);
    drain = {++q.last_number, q.drains};
    q.drains = &drain;
  }
  ++own_drains;
  // Without the mutex: a resource's destructor may push or drain itself.
  ResourceList left = release(std::move(taken));
  --own_drains;
  {
    const std::lock_guard lock(q.mutex);
    unlink(q.drains, drain);
    q.waiting.append(left);
    if (!q.waiting.empty()) q.any.store(true, std::memory_order_release);
  }
  q.changed.notify_all();
  return drain.number;
}

void drain_unclaimed(bool wait) noexcept {
  const Queue& q = queue();
  if (!q.any.load(std::memory_order_acquire) || support::forked()) return;
  const auto is_unclaimed = [&](const LastLaunch& after) {
    for (const Claim* claim = q.claims; claim != nullptr; claim = claim->next)
      if (after.is_on(claim->device)) return false;
    return true;
  };
  drain_entries(is_unclaimed, [&](ResourceList taken) { return release_due(std::move(taken), wait); });
}

}  // namespace

void ReleaseQueue::drain() noexcept {
  drain_unclaimed(false);
}

void ReleaseQueue::drain_waiting() noexcept {
  drain_unclaimed(true);
}

void ReleaseQueue::drain_all(const Device& device, const std::function<void()>& wait_until_idle) noexcept {
  Queue& q = queue();
  Claim claim{device};
  {
    const std::lock_guard lock(q.mutex);
    claim.next = q.claims;
    q.claims = &claim;
  }
  const auto takes = [&](const LastLaunch& after) { return after.is_none() || after.is_on(device); };
  bool released = false;
  const auto release = [&](ResourceList taken) {
    wait_until_idle();
    released = !taken.empty();
    while (!taken.empty()) {
      const std::unique_ptr<Resources> resources = taken.pop_front();
      ResourceList::after(*resources) = {};
    }
    return ResourceList();
  };
  const std::uint64_t number = drain_entries(takes, release);
  {
    // The rest is with drains that began before.
    std::unique_lock lock(q.mutex);
    q.changed.wait_for(lock, std::chrono::seconds(5), [&] {
      std::ptrdiff_t before = 0;
      for (const Drain* each = q.drains; each != nullptr; each = each->next)
        if (each->number < number) ++before;
      return before <= own_drains;
    });
  }
  do drain_entries(takes, release);
  while (released);  // resources may hold other graphs
  const std::lock_guard lock(q.mutex);
  unlink(q.claims, claim);
}

bool ReleaseQueue::wait(const std::atomic<bool>& flag, std::chrono::microseconds limit) noexcept {
  if (support::forked()) return flag;
  Queue& q = queue();
  std::unique_lock lock(q.mutex);
  return q.changed.wait_for(lock, limit, [&] { return flag.load(std::memory_order_acquire); });
}

}  // namespace reprise::memory
