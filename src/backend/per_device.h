// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <map>
#include <mutex>
#include <utility>

#include "backend/backend.h"
#include "support/immortal.h"

namespace reprise::backend {

/// One T for each device, made at first use; one such table for each type T in the process. Never destroyed: the driver
/// may be gone by the time of static destructors.
///
/// Thread-safe: functions that are passed run under the table's mutex.
template <class T>
class PerDevice {
 public:
  /// Returns `use(T&)` for the T of a device.
  template <class Use>
  static decltype(auto) use(const Device& device, Use&& use) {
    PerDevice& all = support::Immortal<PerDevice>::get();
    const std::lock_guard lock(all.mutex_);
    return std::forward<Use>(use)(all.by_device_[&device.backend()]);
  }
  /// Returns `use(std::map<const Backend*, T>&)`.
  template <class Use>
  static decltype(auto) use_all(Use&& use) {
    PerDevice& all = support::Immortal<PerDevice>::get();
    const std::lock_guard lock(all.mutex_);
    return std::forward<Use>(use)(all.by_device_);
  }

  static void erase(const Device& device) {
    PerDevice& all = support::Immortal<PerDevice>::get();
    const std::lock_guard lock(all.mutex_);
    all.by_device_.erase(&device.backend());
  }

 private:
  std::mutex mutex_;
  std::map<const Backend*, T> by_device_;
};

}  // namespace reprise::backend
