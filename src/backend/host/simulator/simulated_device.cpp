// SPDX-License-Identifier: Apache-2.0
#include <deque>
#include <mutex>

#include "backend/host/host_backend.h"
#include "backend/host/host_runtime.h"
#include "backend/host/host_settings.h"
#include "backend/host/run/seeded_chooser.h"
#include "backend/notifications.h"
#include "reprise/host_simulator.h"
#include "support/forked.h"
#include "support/immortal.h"
#include "text/format.h"

namespace reprise::backend::host {

/// The device of a HostSimulator, on a runtime of its own. It is never destroyed: what outlives its simulator stays
/// valid, and a later simulator with equal options uses it again, once nothing is left on it.
struct SimulatedDevice {
  SimulatedDevice(const HostDeviceOptions& wanted, int number)
      : options(wanted),
        runtime(wanted, {.kind = "host-simulator",
                         .first_index = number,
                         .races = [this](const HostRace& race) { races.push_back(race); }}),
        backend(runtime, *runtime.devices.front(), true) {}

  bool fits(const HostDeviceOptions& wanted) const {
    return !in_use && wanted.memory_bytes == options.memory_bytes && wanted.protect == options.protect &&
           wanted.check_races == options.check_races &&
           wanted.scheduler_seed.has_value() == options.scheduler_seed.has_value();
  }
  /// Drops what is kept for the device. True if nothing is left on it.
  bool vacate() {
    HostDevice& device = *runtime.devices.front();
    if (device.has_sticky_error()) return false;
    simulator_end_callbacks.call(Device(backend));
    const std::lock_guard lock(runtime.mutex);
    return device.memory().free_bytes() == device.memory().total_bytes() && runtime.pinned.empty() &&
           runtime.graphs.empty() && runtime.execs.empty() && runtime.captures.empty();
  }
  void begin(const HostDeviceOptions& wanted) {
    const std::lock_guard lock(runtime.mutex);
    races.clear();
    if (wanted.scheduler_seed) runtime.executor.run_by_steps(std::make_unique<SeededChooser>(*wanted.scheduler_seed));
  }

  const HostDeviceOptions options;
  bool in_use = true;           // by a simulator; guarded by Simulators::mutex
  std::vector<HostRace> races;  // guarded by the runtime's mutex
  HostRuntime runtime;
  HostBackend backend;
};

namespace {

struct Simulators {
  std::mutex mutex;
  std::deque<SimulatedDevice> devices;

  SimulatedDevice& take(const HostDeviceOptions& options) {
    for (std::size_t number = 0;; ++number) {
      SimulatedDevice* device = nullptr;
      {
        const std::lock_guard lock(mutex);
        if (number == devices.size()) return devices.emplace_back(options, static_cast<int>(number));
        device = &devices[number];
        if (!device->fits(options)) continue;
        device->in_use = true;
      }
      if (device->vacate()) return *device;
      park(*device);
    }
  }
  void park(SimulatedDevice& device) {
    const std::lock_guard lock(mutex);
    device.in_use = false;
  }
};

}  // namespace
}  // namespace reprise::backend::host

namespace reprise {

HostSimulator::HostSimulator(const HostDeviceOptions& options) {
  namespace settings = backend::host::settings;
  if (options.memory_bytes < settings::least_memory || options.memory_bytes > settings::most_memory)
    throw UsageError(text::format("HostDeviceOptions::memory_bytes should be from {} to {}, but it is {}",
                                  settings::least_memory, settings::most_memory, options.memory_bytes));
  device_ = &support::Immortal<backend::host::Simulators>::get().take(options);
  device_->begin(options);
}

HostSimulator::~HostSimulator() {
  if (support::forked()) return;
  device_->runtime.wait_until_idle();
  device_->vacate();
  support::Immortal<backend::host::Simulators>::get().park(*device_);
}

Device HostSimulator::device() const noexcept {
  return Device(device_->backend);
}

std::vector<HostRace> HostSimulator::races() const {
  if (device_->runtime.races == nullptr)
    throw UsageError(
        "HostSimulator::races() expected a simulator that looks for races; found one without; set "
        "HostDeviceOptions::check_races when it is made");
  const std::lock_guard lock(device_->runtime.mutex);
  return device_->races;
}

}  // namespace reprise
