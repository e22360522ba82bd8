// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <ATen/cuda/CUDAGraph.h>
#include <c10/cuda/CUDACachingAllocator.h>
#include <c10/cuda/CUDAGuard.h>
#include <c10/cuda/CUDAStream.h>
#include <gmock/gmock.h>
#include <torch/torch.h>

#include <chrono>
#include <string>

#include "libtorch/cuda/versions/version.h"
#include "reprise/libtorch/graph.h"
#include "reprise/reprise.h"
#include "tests/support/text_of.h"

// What the tests of CUDA tensors share.

namespace reprise::libtorch::test {

namespace c10_memory = c10::cuda::CUDACachingAllocator;
using reprise::test::text_of;
using torch::Tensor;

inline constexpr std::int64_t mib = std::int64_t{1} << 20;

/// Each test has the first CUDA device, with nothing cached; without one, both_devices/device/cuda.cpp skips it.
class OnCudaDevice : public ::testing::Test {
 protected:
  void SetUp() override {
    torch::manual_seed(1);
    settle();
  }
  void TearDown() override { settle(); }

  Tensor zeros(torch::IntArrayRef sizes) const { return torch::zeros(sizes, device_); }
  Tensor random(torch::IntArrayRef sizes) const { return torch::randn(sizes, device_); }

  Device device() const { return Device::parse("cuda:0"); }

  /// All work is done, and nothing is cached.
  void settle() const {
    torch::cuda::synchronize();
    CachingAllocator::of(device()).empty_cache();
    c10_memory::emptyCache();
  }

  static std::int64_t reserved() { return c10_memory::getDeviceStats(0).reserved_bytes[0].current; }
  static std::int64_t allocated() { return c10_memory::getDeviceStats(0).allocated_bytes[0].current; }
  /// The same, once nothing is cached.
  std::int64_t settled_reserved() const {
    settle();
    return reserved();
  }

  /// True once they have come down to this. The runtime releases graphs that were destroyed on a thread of its own, a
  /// little later.
  bool falls_to(std::int64_t bytes) const {
    const auto end = std::chrono::steady_clock::now() + std::chrono::minutes(1);
    while (settled_reserved() > bytes)
      if (std::chrono::steady_clock::now() > end) return false;
    return true;
  }

  /// The pool of libtorch's allocator that a tensor lies in; {0, 0} for the ordinary one.
  static MempoolId pool_of(const Tensor& tensor) {
    const auto address = reinterpret_cast<std::uintptr_t>(tensor.data_ptr());
    for (const auto& segment : version::snapshot({0, 0}).segments)
      if (address >= segment.address && address - segment.address < segment.total_size)
        return {segment.owner_private_pool_id.first, segment.owner_private_pool_id.second};
    ADD_FAILURE() << "the tensor lies in none of libtorch's memory";
    return {};
  }

  const torch::Device device_{torch::kCUDA, 0};
};

inline MempoolId ours(version::PoolId id) {
  return {id.first, id.second};
}
inline version::PoolId theirs(MempoolId id) {
  return {id.first, id.second};
}

/// The same values, to the last bit?
inline bool same(const Tensor& a, const Tensor& b) {
  return torch::equal(a.cpu(), b.cpu());
}

/// All values are this number?
inline bool all_are(const Tensor& a, double value) {
  return torch::equal(a.cpu(), torch::full_like(a, value, torch::kCPU));
}

}  // namespace reprise::libtorch::test
