// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <atomic>

#include "reprise/device.h"
#include "reprise/stream.h"

// What guards do, for a framework that has guards of its own; and frameworks that keep the current streams and the
// current device of a thread themselves.

namespace reprise::backend {

/// Makes a device the calling thread's current one.
void set_current_device(Device device) noexcept;

/// Makes a stream the calling thread's current one of its device; returns the one before. The current device stays.
StreamRef exchange_current_stream(const StreamRef& stream);

/// A framework whose current streams and current device are those of this library, too, for devices of one type. Its
/// functions speak of the calling thread, and do not throw.
struct FrameworkCurrent {
  DeviceType type;
  StreamHandle (*stream)(int device) noexcept;
  void (*set_stream)(int device, StreamHandle stream) noexcept;
  int (*device)() noexcept;
  void (*set_device)(int device) noexcept;
};

/// From now on this library asks and tells the framework. What is current by guards of this library becomes current
/// there: for the calling thread at once, for others when they next ask. Null: there is no framework any more. Returns
/// the one before. The object must live until the process ends.
const FrameworkCurrent* follow(const FrameworkCurrent* framework);

/// Is the calling thread within a guard of a device?
bool is_guarded() noexcept;

namespace current_detail {
inline std::atomic<const FrameworkCurrent*> framework{nullptr};
}

/// The framework that keeps what is current on devices of a type; null if there is none, as in most programs.
inline const FrameworkCurrent* framework_for(DeviceType type) noexcept {
  const FrameworkCurrent* const framework = current_detail::framework.load(std::memory_order_acquire);
  return framework != nullptr && framework->type == type ? framework : nullptr;
}
/// The same, for one device; cheaper where there is none.
inline const FrameworkCurrent* framework_for(const Device& device) noexcept {
  const FrameworkCurrent* const framework = current_detail::framework.load(std::memory_order_acquire);
  return framework != nullptr && framework->type == device.type() ? framework : nullptr;
}

}  // namespace reprise::backend
