// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "reprise/detail/export.h"

/// \file
/// Devices: the list of them, and the current one.

namespace reprise {

namespace backend {
class Backend;
}
class StreamRef;

/// The kind of a device runtime.
enum class DeviceType {
  host,  ///< simulated on threads of this machine
  cuda,  ///< a CUDA device
};

/// Free and total memory of a device, in bytes.
struct MemoryInfo {
  std::size_t free = 0;   ///< not allocated from the driver
  std::size_t total = 0;  ///< the device's memory size
};

/// A device of this process: a small value that can be copied and compared. Devices are opened at first use and live
/// until the process ends. Every function may be called from any thread.
class REPRISE_EXPORT Device {
 public:
  /// The device that a text names: `host` (the same as `host:0`), `host:1`, `cuda`, `cuda:0`.
  /// \throws UsageError if the text is not of this form, or names no device of the process or that of a HostSimulator.
  static Device parse(std::string_view text);

  DeviceType type() const noexcept;
  int index() const noexcept;  ///< among the devices of its type, from 0; of a HostSimulator, its number
  std::string str() const;     ///< the text that parse() takes, for example `host:0`; or `host-simulator:3`
  std::string name() const;    ///< the name of the hardware, or "simulated host device"

  /// Blocks until all work of the device has completed (`cudaDeviceSynchronize`).
  /// \throws BackendError with 900 while a capture is underway on it in any thread and any mode, and invalidates that
  ///         capture.
  void synchronize() const;

  /// Free and total memory. Allowed in a capture.
  MemoryInfo memory_info() const;

  /// The legacy default stream of this device: current in every thread unless a StreamGuard is active.
  StreamRef default_stream() const noexcept;

  /// The device runtime. For internal use.
  backend::Backend& backend() const noexcept { return *backend_; }

  /// For internal use.
  explicit Device(backend::Backend& backend) noexcept : backend_(&backend) {}

  friend bool operator==(const Device&, const Device&) noexcept = default;

 private:
  backend::Backend* backend_;
};

/// All devices of this process but those of HostSimulators, CUDA devices first.
REPRISE_EXPORT std::vector<Device> devices();

/// The device of the environment variable `REPRISE_DEVICE`, else the first CUDA device, else the first host device.
/// Determined once.
/// \throws UsageError if `REPRISE_DEVICE` names no device.
REPRISE_EXPORT Device default_device();

/// The calling thread's current device: the one of the innermost DeviceGuard or StreamGuard, else default_device().
REPRISE_EXPORT Device current_device();

/// Makes a device the calling thread's current one until the end of the scope. Must begin and end on one thread: ended
/// on another one, it changes nothing, with a warning. If a later guard is still there, that one restores what this one
/// would.
class REPRISE_EXPORT DeviceGuard {
 public:
  explicit DeviceGuard(Device device);
  ~DeviceGuard();  ///< restores the previous device
  DeviceGuard(const DeviceGuard&) = delete;
  DeviceGuard& operator=(const DeviceGuard&) = delete;

 private:
  friend class StreamGuard;
  bool is_on_its_thread() const noexcept;

  Device device_;
  std::uint64_t number_;
  const void* thread_;  // stands for the one that it began on
};

}  // namespace reprise
