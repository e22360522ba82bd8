// SPDX-License-Identifier: Apache-2.0
#include "reprise/libtorch/host_device.h"
#include "tests/libtorch/both_devices/device.h"

namespace reprise::libtorch::test {

c10::Device tested_device() {
  return host_device();
}

PoolStatistics memory_of_tensors() {
  const Device device = Device::parse("host");
  device.synchronize();
  CachingAllocator::of(device).empty_cache();
  return CachingAllocator::of(device).statistics();
}

}  // namespace reprise::libtorch::test
