// SPDX-License-Identifier: Apache-2.0
#include "memory/lifetime/release_queue.h"

#include <algorithm>
#include <condition_variable>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <iterator>
#include <mutex>
#include <set>
#include <utility>

#include "backend/device_end.h"
#include "support/immortal.h"

namespace reprise::memory {
namespace {

struct Entry {
  std::unique_ptr<ReleaseQueue::Resources> resources;
  LastLaunch after;
};

void simulator_ends(const Device* device, const std::function<void()>* wait_until_idle) noexcept {
  if (device == nullptr)
    ReleaseQueue::drain();
  else
    ReleaseQueue::drain_all(*device, *wait_until_idle);
}

struct Queue {
  Queue() {
    static constinit support::Listener<const Device*, const std::function<void()>*> listener(&simulator_ends);
    backend::pending_release_listeners.add(listener);
  }

  std::mutex mutex;
  std::condition_variable changed;
  std::vector<Entry> waiting;
  std::vector<Device> claimed;       // whose launches only the thread that waits for them takes
  std::set<std::uint64_t> underway;  // the numbers of drains, on all threads
  std::uint64_t last_number = 0;     // of a drain
  std::atomic<bool> any{false};      // lets drain() return without the mutex
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
  Queue& q = queue();
  {
    const std::lock_guard lock(q.mutex);
    if (resources != nullptr && !resources->empty()) {
      q.waiting.push_back({std::move(resources), std::move(after)});
      q.any.store(true, std::memory_order_release);
    }
  }
  q.changed.notify_all();
}

namespace {

// The number of running launches that a drain queries: there may be thousands, and each destroyed graph drains.
constexpr std::size_t most_queries = 8;

// Releases what is due of these; returns the others, in the order in which the next drain is to query them.
std::vector<Entry> release_due(std::vector<Entry> taken, bool wait) {
  std::vector<Entry> still_running, not_queried;
  for (Entry& entry : taken) {
    if (wait) entry.after.wait();
    if (!wait && still_running.size() == most_queries)
      not_queried.push_back(std::move(entry));
    else if (!entry.after.is_over())
      still_running.push_back(std::move(entry));
    else
      entry.resources.reset();
  }
  for (Entry& entry : still_running) not_queried.push_back(std::move(entry));
  return not_queried;
}

// Takes the entries for which `takes` holds, has `release` release what is due, and keeps those that it returns.
// Returns the number of this drain.
template <class Takes, class Release>
std::uint64_t drain_entries(const Takes& takes, const Release& release) {
  Queue& q = queue();
  std::vector<Entry> taken, others;
  std::uint64_t number = 0;
  {
    const std::lock_guard lock(q.mutex);
    if (q.claimed.empty())
      taken.swap(q.waiting);
    else
      for (Entry& entry : q.waiting) (takes(entry) ? taken : others).push_back(std::move(entry));
    q.waiting.swap(others);
    q.any.store(!q.waiting.empty(), std::memory_order_relaxed);
    number = ++q.last_number;
    q.underway.insert(number);
  }
  ++own_drains;
  // Without the mutex: a resource's destructor may push or drain itself.
  std::vector<Entry> left = release(std::move(taken));
  --own_drains;
  {
    const std::lock_guard lock(q.mutex);
    q.underway.erase(number);
    for (Entry& entry : left) q.waiting.push_back(std::move(entry));
    if (!q.waiting.empty()) q.any.store(true, std::memory_order_release);
  }
  q.changed.notify_all();
  return number;
}

void drain_unclaimed(bool wait) noexcept {
  const Queue& q = queue();
  if (!q.any.load(std::memory_order_acquire)) return;
  const auto is_unclaimed = [&](const Entry& entry) {
    return std::ranges::none_of(q.claimed, [&](const Device& device) { return entry.after.is_on(device); });
  };
  drain_entries(is_unclaimed, [&](std::vector<Entry> taken) { return release_due(std::move(taken), wait); });
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
  {
    const std::lock_guard lock(q.mutex);
    q.claimed.push_back(device);
  }
  const auto takes = [&](const Entry& entry) { return entry.after.is_none() || entry.after.is_on(device); };
  bool released = false;
  const auto release = [&](std::vector<Entry> taken) {
    wait_until_idle();
    released = !taken.empty();
    for (Entry& entry : taken) {
      entry.after = {};
      entry.resources.reset();
    }
    return std::vector<Entry>();
  };
  const std::uint64_t number = drain_entries(takes, release);
  {
    // The rest is with drains that began before.
    std::unique_lock lock(q.mutex);
    q.changed.wait_for(lock, std::chrono::seconds(5),
                       [&] { return std::distance(q.underway.begin(), q.underway.lower_bound(number)) <= own_drains; });
  }
  do drain_entries(takes, release);
  while (released);  // resources may hold other graphs
  const std::lock_guard lock(q.mutex);
  q.claimed.erase(std::ranges::find(q.claimed, device));
}

bool ReleaseQueue::empty() noexcept {
  return !queue().any.load(std::memory_order_acquire);
}

bool ReleaseQueue::wait(const std::atomic<bool>& flag, std::chrono::microseconds limit) noexcept {
  Queue& q = queue();
  std::unique_lock lock(q.mutex);
  return q.changed.wait_for(lock, limit, [&] { return flag.load(std::memory_order_acquire); });
}

}  // namespace reprise::memory
