// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "reprise/libtorch/clip_grad.h"
#include "reprise/libtorch/optim.h"
#include "tests/libtorch/both_devices/device_fixture.h"

namespace reprise::libtorch::test {

/// Parameters with gradients that are the same numbers for each optimizer.
class CapturedOptimizers : public OnDevice {
 protected:
  using Parameters = std::vector<Tensor>;
  static constexpr int steps = 50;

  /// Small fractions of both signs, exact in each type; Python computes the same (fused_values.py).
  static Tensor numbers(torch::IntArrayRef sizes, std::int64_t factor, std::int64_t modulus, double divisor) {
    const Tensor counted = torch::arange(c10::multiply_integers(sizes), torch::kLong);
    return (((counted * factor + factor) % modulus) - modulus / 2).to(torch::kDouble).div(divisor).view(sizes);
  }

  /// Parameters of several sizes; one of them lies transposed.
  Parameters make_parameters(c10::ScalarType type = torch::kFloat) const {
    Parameters made;
    for (const auto& sizes : std::vector<std::vector<std::int64_t>>{{133}, {7, 5}, {}})
      made.push_back(numbers(sizes, 37, 101, 64).to(device_, type));
    made[1] = made[1].t().contiguous().t();
    for (Tensor& each : made) {
      each.requires_grad_();
      each.mutable_grad() = torch::zeros_like(each);
    }
    return made;
  }

  static void set_gradients(const Parameters& parameters, int step) {
    for (const Tensor& each : parameters) {
      const Tensor values = numbers(each.sizes(), 2 * step + 29, 97, 128).to(each.scalar_type());
      each.grad().copy_(values);
    }
  }

  static void expect_same(const Parameters& found, const Parameters& expected) {
    for (std::size_t i = 0; i < expected.size(); ++i)
      EXPECT_TRUE(same(found[i].detach(), expected[i].detach()))
          << "parameter " << i << " differs by " << (found[i] - expected[i]).abs().max().item<double>();
  }

  static void expect_close(const Parameters& found, const Parameters& expected) {
    for (std::size_t i = 0; i < expected.size(); ++i)
      EXPECT_TRUE(torch::allclose(found[i].detach().cpu(), expected[i].detach().cpu(), 1e-5, 1e-5))
          << "parameter " << i << " differs by " << (found[i] - expected[i]).abs().max().item<double>();
  }

  static void train(torch::optim::Optimizer& optimizer, const Parameters& parameters, int from = 0, int to = steps) {
    for (int i = from; i < to; ++i) {
      set_gradients(parameters, i);
      optimizer.step();
    }
  }
  void replay(const Parameters& parameters, int from = 0, int to = steps) {
    for (int i = from; i < to; ++i) {
      set_gradients(parameters, i);
      graph_.replay();
    }
  }
  void capture_step(torch::optim::Optimizer& optimizer) {
    graph_.reset();
    capture(graph_, [&] { optimizer.step(); });
  }

  template <class F>
  static std::string refusal(F&& f) {
    try {
      f();
    } catch (const UsageError& error) {
      return error.what();
    }
    return "";
  }

  CUDAGraph graph_;
};

}  // namespace reprise::libtorch::test
