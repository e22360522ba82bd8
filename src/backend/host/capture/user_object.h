// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <atomic>
#include <utility>

namespace reprise::backend::host {

struct HostRuntime;

/// A reference-counted object of the user's. When the last reference is released, its destructor is called on a
/// dedicated thread, as by the driver: never on the releasing thread, and marked so that it cannot call the device.
class UserObject {
 public:
  /// \throws std::bad_alloc
  UserObject(HostRuntime& runtime, void* object, void (*destructor)(void*), unsigned references);
  UserObject(const UserObject&) = delete;
  UserObject& operator=(const UserObject&) = delete;

  void retain(unsigned count) noexcept { references_.fetch_add(count, std::memory_order_relaxed); }
  /// False, without effect, if there are fewer.
  bool release(unsigned count) noexcept;
  /// Calls the destructor and removes the handle. For the dedicated thread, after the last release.
  void destroy();
  /// A new reference, if the object still has one.
  bool try_retain(unsigned count) noexcept;

  /// Waits for the destructors of all objects of the runtime whose last reference was released.
  static void wait_for_destructors(const HostRuntime& runtime);

 private:
  HostRuntime& runtime_;
  void* object_;
  void (*destructor_)(void*);
  std::atomic<unsigned> references_;

  friend class Reaper;
  UserObject* next_ = nullptr;  // whose destructor is called after this one's
};

/// One reference, released by the destructor.
class UserObjectRef {
 public:
  /// Takes over a reference of the caller.
  explicit UserObjectRef(UserObject* object) noexcept : object_(object) {}
  UserObjectRef(const UserObjectRef& other) noexcept : object_(other.object_) {
    if (object_ != nullptr) object_->retain(1);
  }
  UserObjectRef(UserObjectRef&& other) noexcept : object_(std::exchange(other.object_, nullptr)) {}
  UserObjectRef& operator=(UserObjectRef other) noexcept {
    std::swap(object_, other.object_);
    return *this;
  }
  ~UserObjectRef() {
    if (object_ != nullptr) object_->release(1);
  }
  UserObject* get() const noexcept { return object_; }

 private:
  UserObject* object_;
};

}  // namespace reprise::backend::host
