// SPDX-License-Identifier: Apache-2.0
#include "backend/host/simulator/simulated_device.h"

#include <array>
#include <deque>
#include <thread>

#include "backend/device_end.h"
#include "backend/objects/tracked_stream.h"
#include "support/forked.h"
#include "support/immortal.h"
#include "text/format.h"

namespace reprise::backend::host {
namespace {

constexpr std::size_t most_simulators = 16;

struct Simulators {
  Simulators() {
    for (SimulatedDevice& each : all) free.push_back(&each);
  }

  std::mutex mutex;
  std::array<SimulatedDevice, most_simulators> all;
  std::deque<SimulatedDevice*> free;  // the one that was closed first is taken first
  int last_number = -1;
};

// Never destroyed: a simulator may end, and its device be used, until the process does.
Simulators& simulators() {
  static support::Immortal<Simulators> instance;
  return *instance;
}

// Nothing is known of a device that is closed.
class NoMonitor final : public Monitor {
 public:
  CaptureFindings describe_capture(StreamHandle /*stream*/) const override { return {}; }
  std::shared_ptr<void> watch_calls(std::string* why) override { return refuse(why); }
  std::unique_ptr<WorkWatch> watch_work(StreamHandle /*stream*/, GraphNodeHandle /*last*/) override {
    class NoWatch final : public WorkWatch {
      std::optional<CaptureFindings::ObservedCall> first() const override { return std::nullopt; }
    };
    return std::make_unique<NoWatch>();
  }
  std::shared_ptr<NodeWatch> watch_nodes(GraphHandle /*template_graph*/, GraphExecHandle /*exec*/,
                                         std::string* why) override {
    refuse(why);
    return nullptr;
  }
  std::unordered_map<GraphNodeHandle, std::uint64_t> profiler_ids(GraphHandle /*template_graph*/,
                                                                  GraphExecHandle /*exec*/, std::string* why) override {
    refuse(why);
    return {};
  }

 private:
  static std::nullptr_t refuse(std::string* why) {
    *why = "The HostSimulator of the device has ended.";
    return nullptr;
  }
};

Result fail_closed(const SimulatedDevice& device) {
  return {ErrorCode::context_is_destroyed,
          text::format("the HostSimulator of {} has ended, and nothing kept the device open; keep the HostSimulator "
                       "alive while its device is used",
                       Device(const_cast<SimulatedDevice&>(device)).str())};
}

}  // namespace

struct SimulatedDevice::Simulation {
  Simulation(const HostDeviceOptions& options, int number, Backend& face)
      : runtime(options, {.kind = "host-simulator",
                          .first_index = number,
                          .races = [this](const HostRace& race) { races.push_back(race); }}),
        backend(runtime, *runtime.devices.front(), face) {}

  std::vector<HostRace> races;  // guarded by the runtime's mutex
  HostRuntime runtime;
  HostBackend backend;
};

SimulatedDevice& SimulatedDevice::open_free(const HostDeviceOptions& options) {
  if (support::forked())
    throw UsageError(
        "HostSimulator expected a process that may use devices; found a child of fork() whose parent had used one; "
        "fork before the first use of a device, or start another program (exec) in the child");
  pending_release_callbacks.call(nullptr, nullptr);  // they may keep devices open whose simulators have ended
  Simulators& known = simulators();
  SimulatedDevice* device = nullptr;
  int number = 0;
  {
    const std::lock_guard lock(known.mutex);
    if (known.free.empty())
      throw UsageError(
          text::format("HostSimulator expected fewer than {} simulators in the process; found {}, of which some may "
                       "have ended while buffers, streams or graphs still use their devices, as warnings say; destroy "
                       "what is not needed any more before the next simulator is made",
                       most_simulators, most_simulators));
    device = known.free.front();
    known.free.pop_front();
    number = ++known.last_number;
  }
  try {
    device->open(options, number);
  } catch (...) {
    const std::lock_guard lock(known.mutex);
    known.free.push_front(device);
    throw;
  }
  return *device;
}

void SimulatedDevice::open(const HostDeviceOptions& options, int number) {
  simulation_ = std::make_unique<Simulation>(options, number, *this);
  number_.store(number, std::memory_order_relaxed);
  backend_.store(&simulation_->backend, std::memory_order_release);
  begin(Kind::simulator);
}

void SimulatedDevice::end_simulator() noexcept {
  if (support::forked()) return;
  const Device device(*this);
  if (!executing()) {
    const CleaningUp cleaning_up;
    const std::function<void()> wait_until_idle = [this] { simulation_->runtime.wait_until_idle(); };
    pending_release_callbacks.call(&device, &wait_until_idle);
  }
  try {
    if (const std::string users = list(); !users.empty())
      warn(
          text::format("A HostSimulator ended while its device, {}, is still used by {}: the device stays open until "
                       "they are destroyed. Destroy them before the HostSimulator.",
                       device.str(), users));
  } catch (const std::exception&) {
    // No memory for a text.
  }
  end(Kind::simulator);
}

std::vector<HostRace> SimulatedDevice::races() {
  if (support::forked()) return {};
  HostRuntime& runtime = simulation_->runtime;
  if (runtime.races == nullptr)
    throw UsageError(
        "HostSimulator::races() expected a simulator that looks for races; found one without; set "
        "HostDeviceOptions::check_races when it is made");
  const std::lock_guard lock(runtime.mutex);
  return simulation_->races;
}

void SimulatedDevice::close() noexcept {
  if (!executing()) return close_now();
  // The last use ended in an operation, or in the destructor of a user object, which cannot wait for itself.
  try {
    std::thread([this] { close_now(); }).detach();
  } catch (const std::exception& error) {
    warn(text::format("The device of a HostSimulator, {}, stays open until the process ends: {}", Device(*this).str(),
                      error.what()));
  }
}

void SimulatedDevice::close_now() noexcept {
  const CleaningUp cleaning_up;
  const Device device(*this);
  simulation_->runtime.wait_until_idle();
  device_end_callbacks.call(device);
  TrackedStream::device_ends(device);
  backend_.store(nullptr, std::memory_order_release);
  simulation_.reset();
  Simulators& known = simulators();
  const std::lock_guard lock(known.mutex);
  known.free.push_back(this);
}

std::string SimulatedDevice::device_name() const {
  return "simulated host device";
}

Monitor& SimulatedDevice::monitor() noexcept {
  static support::Immortal<NoMonitor> none;
  HostBackend* const open = backend();
  return open != nullptr ? open->monitor() : *none;
}

#define REPRISE_CALL(name, cuda, parameters, arguments)                 \
  Result SimulatedDevice::name parameters {                             \
    HostBackend* const open = backend();                                \
    return open != nullptr ? open->name arguments : fail_closed(*this); \
  }
#include "backend/calls.def"

}  // namespace reprise::backend::host

namespace reprise {

using backend::host::SimulatedDevice;

HostSimulator::HostSimulator(const HostDeviceOptions& options) {
  if (options.devices != 1)
    throw UsageError(
        text::format("HostSimulator expected HostDeviceOptions::devices to be 1, since it simulates one device; found "
                     "{}; make a HostSimulator for each device, or use configure_host_devices()",
                     options.devices));
  backend::host::check_host_device_options(options);
  device_ = &SimulatedDevice::open_free(options);
}

HostSimulator::~HostSimulator() {
  static_cast<SimulatedDevice*>(device_)->end_simulator();
}

Device HostSimulator::device() const noexcept {
  return Device(*device_);
}

std::vector<HostRace> HostSimulator::races() const {
  return static_cast<SimulatedDevice*>(device_)->races();
}

}  // namespace reprise
