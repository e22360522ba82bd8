// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <gmock/gmock.h>
#include <torch/torch.h>

#include <chrono>
#include <functional>
#include <thread>
#include <vector>

#include "libtorch/tensor_device.h"
#include "reprise/libtorch/graph.h"
#include "reprise/reprise.h"
#include "tests/libtorch/both_devices/device.h"

// What the tests of tensors on a device of either type share.

namespace reprise::libtorch::test {

using torch::Tensor;

// Tests of what the device of the other type does not have, or does in another way.
#define REPRISE_HOST_ONLY(reason) \
  if (!device_.is_privateuseone()) GTEST_SKIP() << (reason)
#define REPRISE_CUDA_ONLY(reason) \
  if (!device_.is_cuda()) GTEST_SKIP() << (reason)

/// The tested device, for both libraries, and a stream that can be captured.
class OnDevice : public ::testing::Test {
 protected:
  OnDevice() {
    torch::manual_seed(1);
    torch::set_num_threads(1);  // what the CPU computes here to compare with must not wait for busy cores
  }

  Tensor here(const Tensor& tensor) const { return tensor.to(device_); }

  /// Work as a warm-up before a capture: on a stream of its own. Waits for it.
  void on_side_stream(const std::function<void()>& work) const {
    const Stream side;
    side.wait(stream_);
    {
      const StreamGuard guard(side);
      work();
    }
    side.synchronize();
  }

  /// True once the condition is, false if it is not within a minute. The runtime destroys graphs on a thread of its
  /// own.
  static bool eventually(const std::function<bool()>& condition) {
    const auto end = std::chrono::steady_clock::now() + std::chrono::minutes(1);
    while (!condition()) {
      if (std::chrono::steady_clock::now() > end) return false;
      std::this_thread::yield();
    }
    return true;
  }

  const torch::Device device_ = tested_device();
  const Device here_ = device_of_tensors(device_);
  const DeviceGuard device_guard_{here_};
  const Stream stream_;
  const StreamGuard stream_guard_{stream_};
};

/// The addresses of the inputs of a graph.
inline std::vector<const void*> input_addresses(const CUDAGraph& graph) {
  std::vector<const void*> found;
  for (const GraphInput& each : graph.inputs()) found.push_back(each.address);
  return found;
}

/// True if the values are the same, to the last bit.
inline bool same(const Tensor& a, const Tensor& b) {
  return torch::equal(a.cpu(), b.cpu());
}

}  // namespace reprise::libtorch::test
