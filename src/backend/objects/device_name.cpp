// SPDX-License-Identifier: Apache-2.0
#include "backend/objects/device_name.h"

#include <charconv>
#include <system_error>

#include "reprise/error.h"
#include "text/format.h"

namespace reprise::backend {

DeviceName parse_device_name(std::string_view text) {
  if (text.starts_with("host-simulator")) {
    throw UsageError(text::format(
        "expected the name of a device that any part of a program can open (host, host:1, cuda, cuda:0); found \"{}\"; "
        "the device of a HostSimulator is not found by its name: use HostSimulator::device()",
        text));
  }
  const std::size_t colon = text.find(':');
  const std::string_view type = text.substr(0, colon);
  DeviceName name{text, type == "cuda" ? DeviceType::cuda : DeviceType::host};
  bool understood = type == "host" || type == "cuda";
  if (colon != std::string_view::npos) {
    const char* const begin = text.data() + colon + 1;
    const char* const end = text.data() + text.size();
    const auto [rest, error] = std::from_chars(begin, end, name.index);
    understood = understood && error == std::errc{} && rest == end;
  }
  if (!understood) {
    throw UsageError(text::format(
        "expected the name of a device (host, host:1, cuda, cuda:0); found \"{}\"; write the type in small "
        "letters, then, if it is not the first of its type, a colon and its number from 0",
        text));
  }
  return name;
}

void expect_cuda_device(const DeviceName& name, std::size_t count, std::string_view unavailable) {
  if (count == 0) {
    throw UsageError(text::format(
        "expected a device of this machine; found \"{}\", and there is no CUDA device: {}; use \"host\", the "
        "simulated device",
        name.text, unavailable));
  }
  if (name.index >= count) {
    throw UsageError(text::format(
        "expected the number of a CUDA device below {}; found \"{}\"; nvidia-smi lists the devices, and the "
        "environment variable CUDA_VISIBLE_DEVICES hides some of them",
        count, name.text));
  }
}

void expect_host_device(const DeviceName& name, std::size_t count) {
  if (name.index >= count) {
    throw UsageError(
        text::format("expected the number of a host device below {}; found \"{}\"; set the environment variable "
                     "REPRISE_HOST_DEVICES to have more of them",
                     count, name.text));
  }
}

}  // namespace reprise::backend
