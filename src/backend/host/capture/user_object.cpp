// SPDX-License-Identifier: Apache-2.0
#include "backend/host/capture/user_object.h"

#include <condition_variable>
#include <mutex>
#include <new>
#include <system_error>
#include <thread>

#include "backend/host/host_runtime.h"
#include "backend/host/run/executor.h"
#include "support/immortal.h"

namespace reprise::backend::host {

/// Calls destructors, one after the other, on its own thread. Started with the first object, since the release of one
/// must not fail; lives until the process ends. If the system starts no thread, a wait for the destructors calls them.
class Reaper {
 public:
  void start_ahead() {
    const std::lock_guard lock(mutex_);
    start();
  }

  void push(UserObject& object) noexcept {
    const std::lock_guard lock(mutex_);
    (last_ != nullptr ? last_->next_ : first_) = &object;
    last_ = &object;
    try {
      start();
    } catch (const std::bad_alloc&) {
    }
    condition_.notify_all();
  }

  void wait_for(const HostRuntime& runtime) {
    std::unique_lock lock(mutex_);
    if (first_ != nullptr && !start()) {
      while (first_ != nullptr) call_first(lock);
      return;
    }
    condition_.wait(lock, [&] {
      if (underway_ == &runtime) return false;
      for (const UserObject* object = first_; object != nullptr; object = object->next_)
        if (&object->runtime_ == &runtime) return false;
      return true;
    });
  }

 private:
  // With the mutex held, as what follows. False: there is no thread, and the system starts none now.
  // Throws std::bad_alloc.
  bool start() {
    if (started_) return true;
    try {
      std::thread([this] { work(); }).detach();
      started_ = true;
    } catch (const std::system_error&) {
    }
    return started_;
  }

  void work() {
    std::unique_lock lock(mutex_);
    for (;;) {
      condition_.wait(lock, [&] { return first_ != nullptr; });
      call_first(lock);
    }
  }

  void call_first(std::unique_lock<std::mutex>& lock) {
    UserObject& object = *first_;
    first_ = object.next_;
    if (first_ == nullptr) last_ = nullptr;
    underway_ = &object.runtime_;
    lock.unlock();
    {
      const ExecutingScope executing;
      object.destroy();
    }
    lock.lock();
    underway_ = nullptr;
    condition_.notify_all();
  }

  std::mutex mutex_;
  std::condition_variable condition_;
  UserObject* first_ = nullptr;
  UserObject* last_ = nullptr;
  const HostRuntime* underway_ = nullptr;  // whose destructor is running
  bool started_ = false;
};

UserObject::UserObject(HostRuntime& runtime, void* object, void (*destructor)(void*), unsigned references)
    : runtime_(runtime), object_(object), destructor_(destructor), references_(references) {
  support::Immortal<Reaper>::get().start_ahead();
}

void UserObject::destroy() {
  destructor_(object_);
  HostRuntime& runtime = runtime_;
  const std::lock_guard lock(runtime.mutex);
  runtime.user_objects.erase(this);  // and with that this object
}

void UserObject::wait_for_destructors(const HostRuntime& runtime) {
  support::Immortal<Reaper>::get().wait_for(runtime);
}

bool UserObject::release(unsigned count) noexcept {
  unsigned now = references_.load(std::memory_order_relaxed);
  do {
    if (now < count) return false;
  } while (!references_.compare_exchange_weak(now, now - count, std::memory_order_acq_rel));
  if (now == count) support::Immortal<Reaper>::get().push(*this);
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
