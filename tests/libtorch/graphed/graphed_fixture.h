// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdlib>
#include <string>

#include "reprise/libtorch/graphed_callables.h"
#include "tests/libtorch/both_devices/device_fixture.h"
#include "tests/libtorch/host/autocast.h"

// What the tests of graphed callables share.

namespace reprise::libtorch::test {

class GraphedCallables : public OnDevice {
 protected:
  GraphedCallables() {
    if (!device_.is_cuda()) return;
    // Eager and graphed work are compared to the last bit: the same algorithms, whatever workspace there is.
    at::globalContext().setDeterministicCuDNN(true);
    at::globalContext().setDeterministicAlgorithms(true, /*warn_only=*/true);
    setenv("CUBLAS_WORKSPACE_CONFIG", ":4096:8", 0);  // read at the first use
  }

  Tensor random(torch::IntArrayRef sizes) const { return torch::randn(sizes, device_); }
  Tensor needing_gradient(torch::IntArrayRef sizes) const { return random(sizes).requires_grad_(); }

  torch::nn::Linear linear(int in, int out) const {
    torch::nn::Linear made(in, out);
    made->to(device_);
    return made;
  }

  /// The dropout with which a network can be compared to the last bit. On CUDA cuDNN draws that between the layers of a
  /// recurrent network, from a state of its own that cannot be reset.
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

  /// True once no more memory is in use than before.
  static bool all_released(const PoolStatistics& before) {
    return eventually([&] {
      const auto now = memory_of_tensors();
      return now.allocated_bytes <= before.allocated_bytes && now.reserved_bytes <= before.reserved_bytes;
    });
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
