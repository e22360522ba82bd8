// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cuda_runtime_api.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <optional>
#include <string>
#include <vector>

#include "reprise/reprise.h"
#include "tests/support/text_of.h"

// What the tests of CUDA's libraries share.

namespace reprise::test {

inline std::vector<Device> cuda_devices() {
  std::vector<Device> found;
  for (const Device device : devices())
    if (device.type() == DeviceType::cuda) found.push_back(device);
  return found;
}

/// Each test has a CUDA device, with a stream that is current; where there is none it is skipped.
class CudaTest : public ::testing::Test {
 protected:
  void SetUp() override {
    const std::vector<Device> found = cuda_devices();
    if (found.empty()) GTEST_SKIP() << "there is no CUDA device here";
    device_ = found.front();
    ASSERT_EQ(cudaSetDevice(device_->index()), cudaSuccess);
    stream_.emplace(*device_);
    guard_.emplace(*stream_);
  }

  Device device() const { return *device_; }
  const Stream& stream() const { return *stream_; }
  CachingAllocator& allocator() const { return CachingAllocator::of(*device_); }

 private:
  std::optional<Device> device_;
  std::optional<Stream> stream_;
  std::optional<StreamGuard> guard_;
};

/// All values, after the work of the current stream.
template <class T>
std::vector<T> read(const Buffer<T>& x) {
  std::vector<T> values(x.size());
  x.read_async(values);
  current_stream().synchronize();
  return values;
}

/// Small whole numbers: sums of their products are exact, in any order.
inline std::vector<float> whole_numbers(std::size_t count, unsigned seed) {
  std::vector<float> values(count);
  for (float& value : values) {
    seed = seed * 1664525U + 1013904223U;
    value = static_cast<float>(static_cast<int>(seed >> 28) - 8);
  }
  return values;
}

}  // namespace reprise::test
