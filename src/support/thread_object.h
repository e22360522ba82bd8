// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <pthread.h>

#include <system_error>

namespace reprise::support {

/// The calling thread's T, made by the first call. Unlike a `thread_local` T, it may be used in the destructor of any
/// `thread_local` or static object: the C++ runtime destroys it after all `thread_local` objects of its thread, and the
/// main thread's never. An object created later still, by the destructor of another library's thread-specific data, is
/// destroyed as well.
template <class T>
class ThreadObject {
 public:
  /// \throws std::system_error if the process has no key for thread-specific data left; std::bad_alloc.
  static T& get() {
    if (object_ == nullptr) [[unlikely]]
      make();
    return *object_;
  }

 private:
  static void make() {
    static const pthread_key_t key = make_key();
    auto* const made = new T;
    if (const int error = pthread_setspecific(key, made); error != 0) {
      delete made;
      throw std::system_error(error, std::generic_category(), "pthread_setspecific");
    }
    object_ = made;
  }
  static pthread_key_t make_key() {
    pthread_key_t key{};
    if (const int error = pthread_key_create(&key, &destroy); error != 0)
      throw std::system_error(error, std::generic_category(), "pthread_key_create");
    return key;
  }
  static void destroy(void* object) {
    object_ = nullptr;
    delete static_cast<T*>(object);
  }

  static inline constinit thread_local T* object_ = nullptr;
};

}  // namespace reprise::support
