// SPDX-License-Identifier: Apache-2.0
#include "backend/host/capture/user_object.h"

#include <algorithm>
#include <condition_variable>
#include <deque>
#include <mutex>
#include <thread>

#include "backend/host/host_runtime.h"
#include "backend/host/run/executor.h"
#include "support/immortal.h"

namespace reprise::backend::host {
namespace {

/// Calls destructors, one after the other, on its own thread. Started at the first one; lives until the process ends.
class Reaper {
 public:
  static Reaper& instance() {
    static support::Immortal<Reaper> reaper;
    return *reaper;
  }

  void push(UserObject& object, const HostRuntime& runtime) {
    const std::lock_guard lock(mutex_);
    queue_.push_back({&object, &runtime});
    if (!started_) {
      started_ = true;
      std::thread([this] { work(); }).detach();
    }
    condition_.notify_all();
  }

  void wait_for(const HostRuntime& runtime) {
    std::unique_lock lock(mutex_);
    condition_.wait(lock, [&] {
      return underway_ != &runtime &&
             std::ranges::none_of(queue_, [&](const Entry& entry) { return entry.runtime == &runtime; });
    });
  }

 private:
  struct Entry {
    UserObject* object;
    const HostRuntime* runtime;
  };

  void work() {
    const ExecutingScope executing;
    std::unique_lock lock(mutex_);
    for (;;) {
      condition_.wait(lock, [&] { return !queue_.empty(); });
      const Entry entry = queue_.front();
      queue_.pop_front();
      underway_ = entry.runtime;
      lock.unlock();
      entry.object->destroy();
      lock.lock();
      underway_ = nullptr;
      condition_.notify_all();
    }
  }

  std::mutex mutex_;
  std::condition_variable condition_;
  std::deque<Entry> queue_;
  const HostRuntime* underway_ = nullptr;  // whose destructor is running
  bool started_ = false;
};

}  // namespace

void UserObject::destroy() {
  destructor_(object_);
  HostRuntime& runtime = runtime_;
  const std::lock_guard lock(runtime.mutex);
  runtime.user_objects.erase(this);  // and with that this object
}

void UserObject::wait_for_destructors(const HostRuntime& runtime) {
  Reaper::instance().wait_for(runtime);
}

bool UserObject::release(unsigned count) noexcept {
  unsigned now = references_.load(std::memory_order_relaxed);
  do {
    if (now < count) return false;
  } while (!references_.compare_exchange_weak(now, now - count, std::memory_order_acq_rel));
  if (now == count) Reaper::instance().push(*this, runtime_);
  return true;
}

bool UserObject::try_retain(unsigned count) noexcept {
  unsigned now = references_.load(std::memory_order_relaxed);
  do {
    if (now == 0) return false;
  } while (!references_.compare_exchange_weak(now, now + count, std::memory_order_relaxed));
  return true;
}

}  // namespace reprise::backend::host
