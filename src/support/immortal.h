// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <memory>
#include <new>
#include <utility>

namespace reprise::support {

/// A static object that is never destroyed: destructors of other static objects, threads that still run and the
/// driver's callbacks may use it until the process ends.
///
///     static support::Immortal<Table> table(256);  // constructed by the first call, as any local static object is
///     Table& the_only_one = support::Immortal<Table>::get();
///
/// The object lies in static storage, so that a leak checker sees what it owns.
template <class T>
class Immortal {
 public:
  template <class... Arguments>
  explicit Immortal(Arguments&&... arguments) {
    ::new (static_cast<void*>(storage_)) T(std::forward<Arguments>(arguments)...);
  }
  /// The one T of the process, made by the first call.
  static T& get() {
    static Immortal instance;
    return *instance;
  }
  Immortal(const Immortal&) = delete;
  Immortal& operator=(const Immortal&) = delete;

  T& operator*() noexcept { return *std::launder(reinterpret_cast<T*>(storage_)); }
  const T& operator*() const noexcept { return *std::launder(reinterpret_cast<const T*>(storage_)); }
  T* operator->() noexcept { return std::addressof(**this); }
  const T* operator->() const noexcept { return std::addressof(**this); }

 private:
  alignas(T) std::byte storage_[sizeof(T)];
};

}  // namespace reprise::support
