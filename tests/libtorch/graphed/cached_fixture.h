// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <vector>

#include "tests/libtorch/graphed/graphed_fixture.h"

// What the tests of callables with a cache share.

namespace reprise::libtorch::test {

class CachedCallables : public GraphedCallables {
 protected:
  /// Two layers with a function between them that depends on the length of the sequence.
  struct ModelImpl : torch::nn::Module {
    ModelImpl() : first(register_module("first", torch::nn::Linear(4, 8))), norm(register_module("norm", make())) {}
    static torch::nn::LayerNorm make() { return torch::nn::LayerNorm(torch::nn::LayerNormOptions({8})); }
    Tensor forward(const Tensor& x) {
      ++runs;
      return norm(torch::relu(first(x))).sum(0) / static_cast<double>(x.size(0));
    }
    torch::nn::Linear first;
    torch::nn::LayerNorm norm;
    int runs = 0;  // on the host
  };
  TORCH_MODULE(Model);

  Model model() const {
    torch::manual_seed(4);
    Model made;
    made->to(device_);
    return made;
  }
  /// The result and the gradients of a model for one input.
  template <class F>
  std::vector<Tensor> trained(ModelImpl& of, const F& forward, const Tensor& x) const {
    of.zero_grad();
    const Tensor input = x.detach().clone().requires_grad_();
    const Tensor y = forward(input);
    (y * y).sum().backward();
    std::vector<Tensor> all{y.detach().clone(), input.grad()};
    for (const Tensor& each : gradients_of(of)) all.push_back(each);
    return all;
  }
};

}  // namespace reprise::libtorch::test
