// SPDX-License-Identifier: Apache-2.0
#include "submit.h"

#include <dlfcn.h>

#include <stdexcept>

#include "backend/backend.h"
#include "support.h"

namespace benchmarks {

std::function<void()> bare_launch(reprise::Device device, reprise::GraphExecHandle exec, reprise::StreamHandle stream) {
  if (device.type() == reprise::DeviceType::host) {
    return [&backend = device.backend(), exec, stream] {
      if (backend.graph_launch(exec, stream) != reprise::ErrorCode::success) throw std::runtime_error("launch failed");
    };
  }
  using Launch = int (*)(reprise::GraphExecHandle, reprise::StreamHandle);
  void* const driver = dlopen("libcuda.so.1", RTLD_NOW);
  const auto launch = driver == nullptr ? nullptr : reinterpret_cast<Launch>(dlsym(driver, "cuGraphLaunch"));
  if (launch == nullptr) throw std::runtime_error("cuGraphLaunch was not found in libcuda.so.1");
  return [launch, exec, stream] {
    if (launch(exec, stream) != 0) throw std::runtime_error("cuGraphLaunch failed");
  };
}

double submit_seconds(const reprise::StreamRef& stream, const std::function<void()>& call) {
  constexpr unsigned bursts = 50, calls = 20;
  double sum = 0;
  call();  // not measured: what the side before left in the caches would count
  for (unsigned burst = 0; burst < bursts; ++burst) {
    stream.synchronize();
    sum += seconds([&] {
      for (unsigned i = 0; i < calls; ++i) call();
    });
  }
  stream.synchronize();
  return sum / bursts / calls;
}

}  // namespace benchmarks
