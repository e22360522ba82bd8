// SPDX-License-Identifier: Apache-2.0
#include "backend/host/capture/user_object.h"

#include <condition_variable>
#include <deque>
#include <mutex>
#include <thread>

#include "backend/host/host_device.h"
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

  void push(UserObject& object) {
    const std::lock_guard lock(mutex_);
    queue_.push_back(&object);
    if (!started_) {
      started_ = true;
      std::thread([this] { work(); }).detach();
    }
    condition_.notify_one();
  }

 private:
  void work() {
    const ExecutingScope executing;
    std::unique_lock lock(mutex_);
    for (;;) {
      condition_.wait(lock, [&] { return !queue_.empty(); });
      UserObject* const object = queue_.front();
      queue_.pop_front();
      lock.unlock();
      object->destroy();
      lock.lock();
    }
  }

  std::mutex mutex_;
  std::condition_variable condition_;
  std::deque<UserObject*> queue_;
  bool started_ = false;
};

}  // namespace

void UserObject::destroy() {
  destructor_(object_);
  HostRuntime& runtime = HostRuntime::instance();
  const std::lock_guard lock(runtime.mutex);
  runtime.user_objects.erase(this);  // and with that this object
}

bool UserObject::release(unsigned count) noexcept {
  unsigned now = references_.load(std::memory_order_relaxed);
  do {
    if (now < count) return false;
  } while (!references_.compare_exchange_weak(now, now - count, std::memory_order_acq_rel));
  if (now == count) Reaper::instance().push(*this);
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
