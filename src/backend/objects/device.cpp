// SPDX-License-Identifier: Apache-2.0
#include "reprise/device.h"

#include "backend/backend.h"
#include "backend/check.h"
#include "backend/framework.h"
#include "backend/objects/open_guards.h"
#include "backend/objects/thread_tag.h"
#include "reprise/detail/public_call.h"
#include "reprise/stream.h"
#include "support/environment.h"
#include "text/format.h"

namespace reprise {
namespace {

// The device of the innermost guard of this thread; null outside of all guards.
thread_local backend::Backend* guarded_backend = nullptr;

/// What was current before a guard began.
struct PreviousDevice {
  backend::Backend* guarded;
  int of_framework;  // -1: no framework keeps the guard's device
};
using OpenDeviceGuards = backend::OpenGuards<PreviousDevice>;

}  // namespace

Device Device::parse(std::string_view text) {
  if (text.starts_with("host-simulator"))
    throw UsageError(text::format(
        "expected the name of a device that any part of a program can open (host, host:1, cuda, cuda:0); found \"{}\"; "
        "the device of a HostSimulator is not found by its name: use HostSimulator::device()",
        text));
  const std::size_t colon = text.find(':');
  const std::string_view type = text.substr(0, colon);
  const auto number =
      colon == std::string_view::npos ? std::optional(std::size_t{0}) : support::whole_number(text.substr(colon + 1));
  if ((type != "host" && type != "cuda") || !number)
    throw UsageError(text::format(
        "expected the name of a device (host, host:1, cuda, cuda:0); found \"{}\"; write the type in small "
        "letters, then, if it is not the first of its type, a colon and its number from 0",
        text));
  const std::vector<backend::Backend*>& all = type == "cuda" ? backend::cuda_backends() : backend::host_backends();
  if (*number < all.size()) return Device(*all[*number]);
  if (type == "host")
    throw UsageError(
        text::format("expected the number of a host device below {}; found \"{}\"; set the environment variable "
                     "REPRISE_HOST_DEVICES to have more of them",
                     all.size(), text));
  if (all.empty())
    throw UsageError(text::format(
        "expected a device of this machine; found \"{}\", and there is no CUDA device: {}; use \"host\", the "
        "simulated device",
        text, backend::cuda_unavailable_reason()));
  throw UsageError(
      text::format("expected the number of a CUDA device below {}; found \"{}\"; nvidia-smi lists the devices, and the "
                   "environment variable CUDA_VISIBLE_DEVICES hides some of them",
                   all.size(), text));
}

DeviceType Device::type() const noexcept {
  return backend_->type();
}

int Device::index() const noexcept {
  return backend_->index();
}

std::string Device::str() const {
  // Every capture notes it.
  const char* const kind = type() == DeviceType::cuda ? "cuda:"
                           : backend_->of_simulator() ? "host-simulator:"
                                                      : "host:";
  return kind + std::to_string(index());
}

std::string Device::name() const {
  return backend_->device_name();
}

void Device::synchronize() const {
  const detail::PublicCall call("Device::synchronize");
  backend::Checked(*backend_).device_synchronize();
}

MemoryInfo Device::memory_info() const {
  const detail::PublicCall call("Device::memory_info");
  MemoryInfo info;
  backend::Checked(*backend_).memory_info(&info);
  return info;
}

StreamRef Device::default_stream() const noexcept {
  return StreamRef(*this, nullptr);
}

std::vector<Device> devices() {
  std::vector<Device> all;
  for (backend::Backend* backend : backend::cuda_backends()) all.emplace_back(*backend);
  for (backend::Backend* backend : backend::host_backends()) all.emplace_back(*backend);
  return all;
}

Device default_device() {
  static const Device device = [] {
    const std::string_view name = support::environment("REPRISE_DEVICE");
    if (name.empty()) {
      const std::vector<backend::Backend*>& cuda = backend::cuda_backends();
      return Device(cuda.empty() ? *backend::host_backends().front() : *cuda.front());
    }
    try {
      return Device::parse(name);
    } catch (const UsageError& error) {
      throw UsageError(text::format("the environment variable REPRISE_DEVICE: {}", error.what()));
    }
  }();
  return device;
}

// Guards determine the type of the current device; its number may come from the framework.
Device current_device() {
  const Device device = guarded_backend != nullptr ? Device(*guarded_backend) : default_device();
  const backend::Framework* const framework = backend::keeper_of_current(device);
  if (framework == nullptr) [[likely]]
    return device;
  const auto& all = device.type() == DeviceType::cuda ? backend::cuda_backends() : backend::host_backends();
  return Device(*all.at(static_cast<std::size_t>(framework->current_device())));
}

DeviceGuard::DeviceGuard(Device device)
    : device_(device), number_(backend::next_guard_number()), thread_(backend::thread_tag()) {
  OpenDeviceGuards& open = OpenDeviceGuards::of_thread();
  open.reserve();
  const backend::Framework* const framework = backend::keeper_of_current(device);
  open.begin(number_, {guarded_backend, framework != nullptr ? framework->current_device() : -1});
  backend::set_current_device(device);
}

bool DeviceGuard::is_on_its_thread() const noexcept {
  return thread_ == backend::thread_tag();
}

DeviceGuard::~DeviceGuard() {
  if (is_on_its_thread()) {
    const auto restore = [](const PreviousDevice& previous) {
      if (previous.of_framework >= 0)
        if (const backend::Framework* const framework = backend::installed_framework())
          framework->set_current_device(previous.of_framework);
      guarded_backend = previous.guarded;
    };
    const auto inherit = [](PreviousDevice& later, const PreviousDevice& previous) {
      later.guarded = previous.guarded;
      if (previous.of_framework >= 0) later.of_framework = previous.of_framework;
    };
    OpenDeviceGuards::of_thread().end(
        number_, [](const PreviousDevice&) { return true; }, inherit, restore);
  } else {
    backend::GuardsEndedElsewhere::add(number_);
    warn(
        "A StreamGuard or DeviceGuard ended on another thread than it began on, and changed nothing: what it made "
        "current stays current on its own thread. End each guard on the thread that made it.");
  }
}

void backend::set_current_device(Device device) noexcept {
  guarded_backend = &device.backend();
  if (const Framework* const framework = keeper_of_current(device)) framework->set_current_device(device.index());
}

// Hands over the device of the innermost guard of this thread.
void backend::framework_detail::hand_over_current_device(const Framework& framework) noexcept {
  if (guarded_backend != nullptr && keeps_current(framework, *guarded_backend))
    framework.set_current_device(guarded_backend->index());
}

}  // namespace reprise
