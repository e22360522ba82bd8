// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <memory>
#include <sstream>
#include <string>

#include "reprise/libtorch/graphed_module.h"
#include "tests/libtorch/graphed/graphed_fixture.h"

// What the tests of GraphedModule share.

namespace reprise::libtorch::test {

/// A module with children, a parameter and a buffer of its own, and a buffer of whole numbers (of batch norm).
struct BlockImpl : torch::nn::Module {
  explicit BlockImpl(int width, double dropout = 0)
      : first(register_module("first", torch::nn::Linear(width, width))),
        norm(register_module("norm", torch::nn::BatchNorm1d(width))),
        drop(register_module("drop", torch::nn::Dropout(dropout))),
        scale(register_parameter("scale", torch::rand({width}))),
        shift(register_buffer("shift", torch::rand({width}))) {}
  Tensor forward(const Tensor& x) { return drop(norm(first(x))).relu() * scale + shift; }

  torch::nn::Linear first;
  torch::nn::BatchNorm1d norm;
  torch::nn::Dropout drop;
  Tensor scale, shift;
};
TORCH_MODULE(Block);

class GraphedModules : public GraphedCallables {
 protected:
  Block block(int width, double dropout = 0) const {
    Block made(width, dropout);
    made->to(device_);
    return made;
  }

  template <class Module>
  static std::string saved(const Module& module) {
    std::ostringstream archive;
    torch::save(module, archive);
    return archive.str();
  }
  template <class Module>
  static void load(Module& module, const std::string& archive, std::optional<torch::Device> device = std::nullopt) {
    std::istringstream stream(archive);
    torch::load(module, stream, device);
  }

  /// Parameters and buffers, all with their names.
  static torch::OrderedDict<std::string, Tensor> state_of(const torch::nn::Module& module) {
    auto state = module.named_parameters();
    for (const auto& each : module.named_buffers()) state.insert(each.key(), each.value());
    return state;
  }
  static void expect_same_state(const torch::nn::Module& found, const torch::nn::Module& expected) {
    const auto state = state_of(found), other = state_of(expected);
    EXPECT_EQ(state.keys(), other.keys());
    for (const auto& each : state) EXPECT_TRUE(same(each.value(), other[each.key()])) << each.key();
  }
};

}  // namespace reprise::libtorch::test
