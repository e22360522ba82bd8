// SPDX-License-Identifier: Apache-2.0
#include <torch/version.h>

#include "tests/libtorch/operators/operator_sweep.h"

// Random operators, those whose results depend on values, and those that do not work.

namespace reprise::libtorch::test::values {
namespace {

const std::vector<Input> any{normal({6, 8})}, chances{uniform({6, 8}, 0.2, 0.8)}, above_zero{positive({6, 8})};

torch::Tensor number(double value) {
  return torch::tensor(value);
}

// The gradients of the sum.
template <class F>
std::function<Outputs(In)> gradient_of(F call) {
  return [=](In x) -> Outputs {
    Tensors leaves;
    for (const auto& each : x) leaves.push_back(each.detach().set_requires_grad(each.is_floating_point()));
    Tensors differentiated;
    for (const auto& each : leaves)
      if (each.requires_grad()) differentiated.push_back(each);
    return torch::autograd::grad({call(leaves).sum()}, differentiated);
  };
}

template <class F>
std::function<Outputs(In)> filled(F fill) {
  return [=](In x) {
    auto y = torch::empty_like(x[0]);
    fill(y);
    return y;
  };
}

}  // namespace

SweptOperators random_operators() {
  using T = torch::Tensor;
  namespace F = torch::nn::functional;
  SweptOperators all{
      swept("dropout", any, [](In x) { return torch::dropout(x[0], 0.5, true); }),
      swept("native_dropout", any, [](In x) { return std::get<0>(torch::native_dropout(x[0], 0.3, true)); }),
      swept("feature_dropout", any, [](In x) { return torch::feature_dropout(x[0], 0.5, true); }),
      swept("alpha_dropout", any, [](In x) { return torch::alpha_dropout(x[0], 0.5, true); }),
      swept("rrelu in training", any, [](In x) { return torch::rrelu(x[0] - 2, 0.1, 0.3, true); }),
      swept("gumbel_softmax", any, [](In x) { return F::gumbel_softmax(x[0]); }),
      swept("scaled_dot_product_attention with dropout", {normal({2, 2, 5, 4})},
            [](In x) { return torch::scaled_dot_product_attention(x[0], x[0], x[0], {}, 0.5); }),
      forward("bernoulli", chances, [](In x) { return x[0].bernoulli(); }),
      forward("bernoulli_ by a number", any, filled([](T& y) { y.bernoulli_(0.3); })),
      forward("bernoulli_ by a tensor", chances, [](In x) { return torch::empty_like(x[0]).bernoulli_(x[0]); }),
      forward("normal_", any, filled([](T& y) { y.normal_(1, 2); })),
      forward("uniform_", any, filled([](T& y) { y.uniform_(-1, 1); })),
      forward("random_", any, filled([](T& y) { y.random_(0, 100); })),
      forward("exponential_", any, filled([](T& y) { y.exponential_(); })),
      forward("geometric_", any, filled([](T& y) { y.geometric_(0.2); })),
      forward("cauchy_", any, filled([](T& y) { y.cauchy_(); })),
      forward("log_normal_", any, filled([](T& y) { y.log_normal_(); })),
      forward("rand", any,
              [](In x) {
                return torch::rand({6, 8}, x[0].options());
              }),
      forward("randn", any,
              [](In x) {
                return torch::randn({6, 8}, x[0].options());
              }),
      forward("randint", any,
              [](In x) {
                return torch::randint(0, 100, {6, 8}, x[0].options());
              }),
      forward("randperm", any, [](In x) { return torch::randperm(20, x[0].options().dtype(torch::kLong)); }),
      forward("rand_like", any, [](In x) { return torch::rand_like(x[0]); }),
      forward("randn_like", any, [](In x) { return torch::randn_like(x[0]); }),
      forward("randint_like", any, [](In x) { return torch::randint_like(x[0], 100); }),
      forward("normal of a tensor", any, [](In x) { return at::normal(x[0], 2.0); }),
      forward("multinomial", above_zero, [](In x) { return torch::multinomial(x[0], 5); }),
      forward("multinomial, with replacement", above_zero, [](In x) { return torch::multinomial(x[0], 9, true); }),
      forward("poisson", {uniform({6, 8}, 5, 20)}, [](In x) { return torch::poisson(x[0]); }),
      forward("binomial", {uniform({6, 8}, 20, 40), uniform({6, 8}, 0.2, 0.8)},
              [](In x) { return torch::binomial(x[0].round(), x[1]); }),
      swept("_standard_gamma", above_zero, [](In x) { return torch::_standard_gamma(x[0]); }),
      forward("_sample_dirichlet", above_zero, [](In x) { return torch::_sample_dirichlet(x[0]); }),
      swept("fractional_max_pool2d with its own samples", {normal({2, 3, 9, 9})},
            [](In x) { return F::fractional_max_pool2d(x[0], F::FractionalMaxPool2dFuncOptions(2).output_size(5)); }),
  };
  for (SweptOperator& op : all) op.draws = true;
  return all;
}

SweptOperators value_dependent_operators() {
  const std::vector<Input> counts{integers({6}, 0, 5)}, matrix{definite(4)};
  SweptOperators all = {
      forward("nonzero", any, [](In x) { return (x[0] > 0).nonzero(); }),
      forward("argwhere", any, [](In x) { return (x[0] > 0).argwhere(); }),
      forward("where of a condition", any, [](In x) { return torch::where(x[0] > 0); }),
      forward("masked_select", any, [](In x) { return x[0].masked_select(x[0] > 0); }),
      forward("index by a mask", any, [](In x) { return x[0].index({x[0] > 0}); }),
      forward("item", {normal({})}, [](In x) { return number(x[0].item<double>()); }),
      forward("is_nonzero", {normal({})}, [](In x) { return number(x[0].is_nonzero()); }),
      forward("equal", {normal({3}), normal({3})}, [](In x) { return number(x[0].equal(x[1])); }),
      forward("allclose", {normal({3}), normal({3})}, [](In x) { return number(x[0].allclose(x[1])); }),
      forward("bincount", counts, [](In x) { return torch::bincount(x[0]); }),
      forward("_unique2", counts, [](In x) { return torch::_unique2(x[0], true, true, true); }),
      forward("unique_consecutive", counts, [](In x) { return torch::unique_consecutive(x[0]); }),
      forward("unique_dim", {integers({6, 2}, 0, 2)}, [](In x) { return torch::unique_dim(x[0], 0); }),
      forward("repeat_interleave", counts, [](In x) { return x[0].repeat_interleave(x[0]); }),
      forward("one_hot of any number of classes", counts, [](In x) { return torch::one_hot(x[0]); }),
      forward("linalg_inv", matrix, [](In x) { return torch::linalg_inv(x[0]); }),
      forward("linalg_cholesky", matrix, [](In x) { return torch::linalg_cholesky(x[0]); }),
      forward("linalg_solve", matrix, [](In x) { return torch::linalg_solve(x[0], x[0]); }),
      forward("linalg_lstsq", {normal({5, 3}), normal({5, 2})},
              [](In x) { return std::get<0>(torch::linalg_lstsq(x[0], x[1])); })
          .within(1e-5),
      forward("cov", any, [](In x) { return torch::cov(x[0]); }),
      forward("corrcoef", any, [](In x) { return torch::corrcoef(x[0]); }),
      forward("cross_entropy_loss, weighted and smoothed", {normal({4, 6}), integers({4}, 0, 6), positive({6})},
              [](In x) { return torch::cross_entropy_loss(x[0], x[1], x[2], torch::Reduction::Mean, -100, 0.1); }),
      forward("ctc_loss", {normal({8, 2, 5}), integers({2, 3}, 1, 5)},
              [](In x) {
                using Lengths = std::vector<std::int64_t>;
                return torch::ctc_loss(x[0].log_softmax(2), x[1], Lengths{8, 7}, Lengths{3, 2});
              }),
      forward("prod, backward", any, gradient_of([](In x) { return x[0].prod(1); })),
      forward("cumprod, backward", any, gradient_of([](In x) { return x[0].cumprod(1); })),
      forward("masked_scatter, backward", {normal({4, 6}), booleans({4, 6}), normal({24})},
              gradient_of([](In x) { return x[0].masked_scatter(x[1], x[2]); })),
      forward("masked_fill with a tensor, backward", {normal({4, 6}), booleans({4, 6}), normal({})},
              gradient_of([](In x) { return x[0].masked_fill(x[1], x[2]); })),
      forward("index_put by a mask", {normal({4, 6}), normal({24})},
              [](In x) { return x[0].index_put({x[0] > -9}, x[1]); }),
      forward("cpu", any, [](In x) { return x[0].cpu() * 1; }),
      forward("copy_ from the CPU", any,
              [](In x) {
                return torch::empty_like(x[0]).copy_(torch::ones({6, 8}));
              }),
  };
#if TORCH_VERSION_MAJOR == 2 && TORCH_VERSION_MINOR <= 11  // with 2.15 a capture takes it
  all.push_back(forward("combinations", {normal({5})}, [](In x) { return torch::combinations(x[0]); }));
#endif
  return all;
}

std::vector<RefusedOperator> refused_operators() {
  // Layouts and types without strides and plain values: the device keeps memory, sizes and strides of a tensor.
  return {
      {forward("to_sparse", any, [](In x) { return x[0].to_sparse(); }), "dense tensors of plain types only"},
      {forward("to_sparse_csr", any, [](In x) { return x[0].to_sparse_csr(); }), "dense tensors of plain types only"},
      {forward("quantize_per_tensor", any,
               [](In x) { return torch::quantize_per_tensor(x[0], 0.1, 0, torch::kQInt8); }),
       "dense tensors of plain types only"},
  };
}

}  // namespace reprise::libtorch::test::values
