// SPDX-License-Identifier: Apache-2.0
#include "backend/lifetime/release_queue.h"

#include <condition_variable>
#include <mutex>
#include <utility>

#include "support/immortal.h"

namespace reprise::backend {
namespace {

struct Entry {
  std::unique_ptr<ReleaseQueue::Resources> resources;
  LastLaunch after;
};

struct Queue {
  std::mutex mutex;
  std::condition_variable pushed;
  std::vector<Entry> waiting;
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
  Queue& q = queue();
  {
    const std::lock_guard lock(q.mutex);
    if (resources != nullptr && !resources->empty()) {
      q.waiting.push_back({std::move(resources), std::move(after)});
      q.any.store(true, std::memory_order_release);
    }
  }
  q.pushed.notify_all();
}

namespace {

// The number of running launches that a drain queries: there may be thousands, and each destroyed graph drains.
constexpr std::size_t most_in_vain = 8;

void release_due(bool wait) noexcept {
  Queue& q = queue();
  if (!q.any.load(std::memory_order_acquire)) return;
  std::vector<Entry> taken;
  {
    const std::lock_guard lock(q.mutex);
    taken.swap(q.waiting);
    q.any.store(false, std::memory_order_relaxed);
  }
  // Without the mutex: a resource's destructor may push or drain itself.
  std::vector<Entry> in_vain, not_asked;
  for (Entry& entry : taken) {
    if (wait) entry.after.wait();
    if (!wait && in_vain.size() == most_in_vain)
      not_asked.push_back(std::move(entry));
    else if (!entry.after.is_over())
      in_vain.push_back(std::move(entry));
    else
      while (!entry.resources->empty()) entry.resources->pop_back();
  }
  if (in_vain.empty()) return;
  const std::lock_guard lock(q.mutex);
  for (std::vector<Entry>* later : {&not_asked, &in_vain})  // the next drain queries others
    for (Entry& entry : *later) q.waiting.push_back(std::move(entry));
  q.any.store(true, std::memory_order_release);
}

}  // namespace

void ReleaseQueue::drain() noexcept {
  release_due(false);
}

void ReleaseQueue::drain_waiting() noexcept {
  release_due(true);
}

bool ReleaseQueue::empty() noexcept {
  return !queue().any.load(std::memory_order_acquire);
}

bool ReleaseQueue::wait(const std::atomic<bool>& flag, std::chrono::microseconds limit) noexcept {
  Queue& q = queue();
  std::unique_lock lock(q.mutex);
  return q.pushed.wait_for(lock, limit, [&] { return flag.load(std::memory_order_acquire); });
}

}  // namespace reprise::backend
