// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <atomic>
#include <memory>
#include <string>
#include <vector>

#include "backend/host/host_backend.h"
#include "backend/objects/device_uses.h"
#include "reprise/host_simulator.h"

namespace reprise::backend::host {

/// The device of a HostSimulator. There are 16 in a process, never destroyed, each of which serves one simulator after
/// another: a Device value of one that has ended gets errors, and no memory that was freed.
///
///     free -> open -> closing -> free ...
///
/// `open` from the simulator's beginning to the end of the last use, see DeviceUses. While it is open it passes every
/// call on to a HostBackend on a runtime of its own; else calls return `context_is_destroyed`.
///
/// Thread-safe.
class SimulatedDevice final : public Backend, public DeviceUses {
 public:
  SimulatedDevice() noexcept : Backend(this) {}

  /// Opens the one that was closed first. The caller has its first use, of kind `simulator`.
  /// \throws UsageError if none is free; Error if there are not enough addresses for its memory.
  static SimulatedDevice& open_free(const HostDeviceOptions& options);

  /// The simulator ends: waits for the device, reports what uses it besides, and ends the use.
  void end_simulator() noexcept;

  /// \throws UsageError if they are not looked for.
  std::vector<HostRace> races();

  DeviceType type() const noexcept override { return DeviceType::host; }
  int index() const noexcept override { return number_.load(std::memory_order_relaxed); }
  std::string device_name() const override;
  Monitor& monitor() noexcept override;
#define REPRISE_CALL(name, cuda, parameters, arguments) Result name parameters override;
#include "backend/calls.def"

 private:
  struct Simulation;

  void open(const HostDeviceOptions& options, int number);
  void close() noexcept override;
  void close_now() noexcept;
  HostBackend* backend() const noexcept {
    return backend_.load(std::memory_order_acquire);
  }

  std::atomic<int> number_{0};                  // counts the simulators of the process
  std::atomic<HostBackend*> backend_{nullptr};  // null unless open
  std::unique_ptr<Simulation> simulation_;      // null when free
};

}  // namespace reprise::backend::host
