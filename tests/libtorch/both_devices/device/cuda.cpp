// SPDX-License-Identifier: Apache-2.0
#include <c10/cuda/CUDACachingAllocator.h>
#include <c10/cuda/CUDAFunctions.h>
#include <gtest/gtest.h>

#include "tests/libtorch/both_devices/device.h"

namespace reprise::libtorch::test {
namespace {

class OnCuda : public ::testing::Environment {
 public:
  void SetUp() override {
    if (c10::cuda::device_count() == 0) GTEST_SKIP() << "there is no CUDA device";
  }
};

const auto* const environment = ::testing::AddGlobalTestEnvironment(new OnCuda);

}  // namespace

c10::Device tested_device() {
  return {c10::kCUDA, 0};
}

PoolStatistics memory_of_tensors() {
  const Device device = Device::parse("cuda:0");
  device.synchronize();
  CachingAllocator::of(device).empty_cache();
  c10::cuda::CUDACachingAllocator::emptyCache();
  const auto stats = c10::cuda::CUDACachingAllocator::getDeviceStats(0);
  PoolStatistics all = CachingAllocator::of(device).statistics();
  all.allocated_bytes += static_cast<std::uint64_t>(stats.allocated_bytes[0].current);
  all.reserved_bytes += static_cast<std::uint64_t>(stats.reserved_bytes[0].current);
  return all;
}

}  // namespace reprise::libtorch::test
