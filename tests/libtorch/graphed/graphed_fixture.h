// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <chrono>
#include <string>
#include <thread>

#include "libtorch/tensor_device.h"
#include "reprise/libtorch/graphed_callables.h"
#include "tests/libtorch/graphed/device.h"
#include "tests/libtorch/host/autocast.h"
#include "tests/libtorch/host/host_device_fixture.h"

// What the tests of graphed callables share.

namespace reprise::libtorch::test {

using torch::Tensor;

// What only the simulated device has: failures on demand, work that is held at a gate.
#define REPRISE_HOST_ONLY(reason) \
  if (!device_.is_privateuseone()) GTEST_SKIP() << (reason)

class GraphedCallables : public ::testing::Test {
 protected:
  GraphedCallables() {
    torch::manual_seed(1);
    torch::set_num_threads(1);  // what the CPU computes here to compare with must not wait for busy cores
  }

  Tensor here(const Tensor& tensor) const { return tensor.to(device_); }
  Tensor random(torch::IntArrayRef sizes) const { return torch::randn(sizes, device_); }
  Tensor needing_gradient(torch::IntArrayRef sizes) const { return random(sizes).requires_grad_(); }

  torch::nn::Linear linear(int in, int out) const {
    torch::nn::Linear made(in, out);
    made->to(device_);
    return made;
  }

  /// The dropout with which a network can be compared to the last bit. On CUDA cuDNN draws that between the layers of a
  /// recurrent network, from a state of its own that nobody can set back.
  double comparable_dropout(const std::string& network, double dropout) const {
    return device_.is_cuda() && (network == "lstm" || network == "gru") ? 0 : dropout;
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

  /// Is no more memory in use than before, once the runtime has let go of graphs that were destroyed? It does so on a
  /// thread of its own.
  static bool all_given_back(const PoolStatistics& before) {
    const auto end = std::chrono::steady_clock::now() + std::chrono::seconds(10);
    while (std::chrono::steady_clock::now() < end) {
      const auto now = memory_of_tensors();
      if (now.allocated_bytes <= before.allocated_bytes && now.reserved_bytes <= before.reserved_bytes) return true;
      std::this_thread::yield();
    }
    return false;
  }

  /// A text about tensors of the first host device, as it is for those of the tested device.
  std::string on_device(std::string text) const {
    const std::string name = "reprise:0";
    for (auto at = text.find(name); at != std::string::npos; at = text.find(name, at)) {
      text.replace(at, name.size(), device_.str());
      at += device_.str().size();
    }
    return text;
  }

  /// Gradients of all parameters of a module, copied; undefined ones too.
  static std::vector<Tensor> gradients_of(const torch::nn::Module& module) {
    std::vector<Tensor> gradients;
    for (const auto& each : module.parameters())
      gradients.push_back(each.grad().defined() ? each.grad().clone() : Tensor());
    return gradients;
  }

  const torch::Device device_ = tested_device();
  const Device here_ = device_of_tensors(device_);
  const DeviceGuard device_guard_{here_};
  const Stream stream_;
  const StreamGuard stream_guard_{stream_};
};

/// Equal but for rounding: sums that were added up in another order.
inline bool close(const Tensor& a, const Tensor& b) {
  return torch::allclose(a.cpu().to(torch::kDouble), b.cpu().to(torch::kDouble), 1e-4, 1e-5);
}

inline GraphedCallableOptions with_gradients(Gradients gradients) {
  GraphedCallableOptions options;
  options.gradients = gradients;
  return options;
}

}  // namespace reprise::libtorch::test
