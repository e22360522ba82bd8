// SPDX-License-Identifier: Apache-2.0
#include "tests/conformance/capability.h"

#include "tests/conformance/recorder/measured.h"

namespace reprise::backend::test {
namespace {

struct Lack {
  DeviceType backend;
  Capability capability;
  const char* why;
};

// "Cannot, because": what is to be fixed is not listed here, but fails.
constexpr Lack lacks[] = {
    {DeviceType::host, Capability::green_contexts, "the host device has no green contexts"},
    {DeviceType::cuda, Capability::parallel_host_functions,
     "CUDA promises no parallel host functions, and runs those of different streams one after the other"},
    {DeviceType::cuda, Capability::destruction_on_a_thread_of_its_own,
     "CUDA destroys at once, on the releasing thread, when nothing else can hold a reference"},
    {DeviceType::cuda, Capability::update_finds_memory_kinds,
     "CUDA takes such an update of unified addresses, and fails when it runs"},
    {DeviceType::cuda, Capability::calls_by_class, "the recorder makes such calls themselves on CUDA"},
};

}  // namespace

std::string why_lacking(const Device& device, Capability capability) {
  if (capability == Capability::two_devices)
    return another_like(device) != nullptr ? "" : "there is no second device of this kind";
  for (const Lack& lack : lacks)
    if (lack.backend == device.type() && lack.capability == capability) return lack.why;
  return {};
}

const char* name_of(Capability capability) {
  switch (capability) {
    case Capability::green_contexts:
      return "green_contexts";
    case Capability::two_devices:
      return "two_devices";
    case Capability::parallel_host_functions:
      return "parallel_host_functions";
    case Capability::destruction_on_a_thread_of_its_own:
      return "destruction_on_a_thread_of_its_own";
    case Capability::update_finds_memory_kinds:
      return "update_finds_memory_kinds";
    case Capability::calls_by_class:
      return "calls_by_class";
  }
  return "?";
}

}  // namespace reprise::backend::test
