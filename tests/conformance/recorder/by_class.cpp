// SPDX-License-Identifier: Apache-2.0
#include "tests/conformance/recorder/by_class.h"

#include <mutex>

#include "backend/host/capture/host_capture.h"
#include "backend/host/host_runtime.h"
#include "backend/rules/cuda_calls.h"

namespace reprise::backend::test {
namespace {

bool works_on_a_stream(CallClass call_class) {
  switch (call_class) {
    case CallClass::always_allowed:
    case CallClass::potentially_unsafe:
    case CallClass::event_wait:
    case CallClass::device_wait:
      return false;
    default:
      return true;
  }
}

}  // namespace

Result obey_rules(const Backend& host_device, const std::string& cuda_name, StreamHandle stream, EventHandle event) {
  const CudaCall* const call = find_cuda_call(cuda_name);
  const CallClass call_class = call != nullptr ? call->call_class : CallClass::always_allowed;
  host::HostRuntime& runtime = host::HostRuntime::instance();
  const std::scoped_lock lock(runtime.mutex);
  host::HostDevice& device = *runtime.devices.at(static_cast<std::size_t>(host_device.index()));
  host::CallSite site{Call::device_synchronize, &device};
  if (works_on_a_stream(call_class)) site.stream = runtime.find(stream, device);
  if (event != nullptr) site.event = runtime.find(event);
  return check_capture_rules(runtime, site, call_class, cuda_name.c_str());
}

}  // namespace reprise::backend::test
