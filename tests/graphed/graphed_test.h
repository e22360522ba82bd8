// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <chrono>
#include <string>
#include <thread>

#include "reprise/libtorch/graphed_callables.h"
#include "tests/libtorch/autocast.h"
#include "tests/libtorch/host_device_test.h"

// What the tests of graphed callables share.

namespace reprise::libtorch::test {

using torch::Tensor;

class GraphedCallables : public OnHostDevice {
 protected:
  Tensor random(torch::IntArrayRef sizes) const { return torch::randn(sizes, device_); }
  Tensor needing_gradient(torch::IntArrayRef sizes) const { return random(sizes).requires_grad_(); }

  torch::nn::Linear linear(int in, int out) const {
    torch::nn::Linear made(in, out);
    made->to(device_);
    return made;
  }

  /// What an expression is refused with; empty if it is not.
  template <class F>
  static std::string refusal(F&& f) {
    try {
      f();
    } catch (const UsageError& error) {
      return error.what();
    }
    return "";
  }

  /// What is allocated and reserved once all work is done, and nothing is cached.
  static PoolStatistics memory() {
    const Device device = Device::parse("host");
    device.synchronize();
    CachingAllocator::of(device).empty_cache();
    return CachingAllocator::of(device).statistics();
  }
  /// Is no more memory in use than before, once the runtime has let go of graphs that were destroyed? It does so on a
  /// thread of its own.
  static bool all_given_back(const PoolStatistics& before) {
    const auto end = std::chrono::steady_clock::now() + std::chrono::seconds(10);
    while (std::chrono::steady_clock::now() < end) {
      const auto now = memory();
      if (now.allocated_bytes <= before.allocated_bytes && now.reserved_bytes <= before.reserved_bytes) return true;
      std::this_thread::yield();
    }
    return false;
  }
};

}  // namespace reprise::libtorch::test
