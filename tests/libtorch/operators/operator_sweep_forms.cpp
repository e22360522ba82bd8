// SPDX-License-Identifier: Apache-2.0
#include "tests/libtorch/operators/operator_sweep.h"

// New tensors, in-place and out= forms, lists of tensors, types.

namespace reprise::libtorch::test::forms {
namespace {

const std::vector<Input> any{normal({4, 6})}, two{normal({4, 6}), normal({4, 6})},
    three{normal({4, 6}), normal({4, 6}), positive({4, 6})};

// In place on a copy, so that it can be differentiated.
template <class F>
std::function<Outputs(In)> on_copy(F change) {
  return [=](In x) {
    auto y = x[0].clone();
    change(y, x);
    return y;
  };
}

torch::Tensor none_like(const torch::Tensor& x) {
  return torch::empty({0}, x.options());
}

// The operands of the lists, in halves.
Tensors first(In x) {
  return {x[0], x[1]};
}
Tensors second(In x) {
  return {x[2], x[3]};
}
Tensors copies(const Tensors& of) {
  Tensors made;
  for (const auto& each : of) made.push_back(each.clone());
  return made;
}

}  // namespace

SweptOperators creation() {
  return {
      forward("arange", any, [](In x) { return torch::arange(2, 20, 3, x[0].options()); }),
      forward("arange of integers", any, [](In x) { return torch::arange(7, x[0].options().dtype(torch::kLong)); }),
      forward("linspace", any, [](In x) { return torch::linspace(0, 1, 7, x[0].options()); }),
      forward("logspace", any, [](In x) { return torch::logspace(0, 1, 7, 10, x[0].options()); }),
      forward("eye", any, [](In x) { return torch::eye(3, 5, x[0].options()); }),
      forward("zeros", any,
              [](In x) {
                return torch::zeros({2, 3}, x[0].options());
              }),
      forward("ones", any,
              [](In x) {
                return torch::ones({2, 3}, x[0].options());
              }),
      forward("full", any,
              [](In x) {
                return torch::full({2, 3}, 1.5, x[0].options());
              }),
      forward("zeros_like", any, [](In x) { return torch::zeros_like(x[0]); }),
      forward("ones_like", any, [](In x) { return torch::ones_like(x[0].t()); }),
      forward("full_like", any, [](In x) { return torch::full_like(x[0], 7); }),
      forward("new_zeros", any, [](In x) { return x[0].new_zeros({3}); }),
      forward("new_full", any, [](In x) { return x[0].new_full({3}, 2); }),
      forward("scalar_tensor", any, [](In x) { return torch::scalar_tensor(3.5, x[0].options()); }),
      forward("tril_indices", any,
              [](In x) { return torch::tril_indices(3, 4, 0, x[0].options().dtype(torch::kLong)); }),
      forward("triu_indices", any,
              [](In x) { return torch::triu_indices(3, 4, 1, x[0].options().dtype(torch::kLong)); }),
      forward("hann_window", any, [](In x) { return torch::hann_window(8, x[0].options()); }),
      forward("kaiser_window", any, [](In x) { return torch::kaiser_window(8, x[0].options()); }),
      forward("complex zeros", any,
              [](In x) {
                return torch::zeros({2, 3}, x[0].options().dtype(torch::kComplexFloat));
              }),
  };
}

SweptOperators in_place_forms() {
  using T = torch::Tensor;
  const std::vector<Input> rows{normal({4, 6}), permutation(4), normal({4, 6})},
      masked{normal({4, 6}), booleans({4, 6})};
  return {
      forward("add_ to the input", two, [](In x) { return x[0].add_(x[1]); }).writing(),
      forward("relu_ of the input", any, [](In x) { return x[0].relu_(); }).writing(),
      forward("sigmoid_ of a part of the input", any, [](In x) { return x[0].slice(1, 0, 6, 2).sigmoid_(); }).writing(),
      forward("transpose_ of a view of the input", any,
              [](In x) {
                return x[0].view({4, 6}).t_().mul_(2);
              })
          .writing(),
      swept("add_", two, on_copy([](T& y, In x) { y.add_(x[1], 0.5); })),
      swept("sub_", two, on_copy([](T& y, In x) { y -= x[1]; })),
      swept("mul_", two, on_copy([](T& y, In x) { y *= x[1]; })),
      swept("div_", three, on_copy([](T& y, In x) { y /= x[2]; })),
      swept("pow_", any, on_copy([](T& y, In) { y.pow_(2); })),
      swept("exp_", any, on_copy([](T& y, In) { y.exp_(); })),
      swept("tanh_", any, on_copy([](T& y, In) { y.tanh_(); })),
      swept("clamp_", any, on_copy([](T& y, In) { y.clamp_(-0.5, 0.5); })),
      swept("copy_", two, on_copy([](T& y, In x) { y.copy_(x[1]); })),
      swept("copy_ of one row to all", {normal({4, 6}), normal({6})}, on_copy([](T& y, In x) { y.copy_(x[1]); })),
      swept("copy_ of another type", {normal({4, 6}), normal({4, 6}, torch::kDouble)},
            on_copy([](T& y, In x) { y.copy_(x[1]); })),
      swept("fill_ of a part", any, on_copy([](T& y, In) { y.select(0, 1).fill_(3); })),
      swept("fill_ with a tensor", {normal({4, 6}), normal({})}, on_copy([](T& y, In x) { y.fill_(x[1]); })),
      swept("zero_ of a part", any, on_copy([](T& y, In) { y.slice(1, 2, 4).zero_(); })),
      swept("lerp_", two, on_copy([](T& y, In x) { y.lerp_(x[1], 0.25); })),
      swept("addcmul_", three, on_copy([](T& y, In x) { y.addcmul_(x[1], x[2]); })),
      swept("addcdiv_", three, on_copy([](T& y, In x) { y.addcdiv_(x[1], x[2]); })),
      swept("addmm_", {normal({3, 5}), normal({3, 4}), normal({4, 5})},
            on_copy([](T& y, In x) { y.addmm_(x[1], x[2]); })),
      swept("index_put_", rows, on_copy([](T& y, In x) { y.index_put_({x[1]}, x[2]); })),
      swept("index_put_ of a number", rows, on_copy([](T& y, In x) { y.index_put_({x[1].slice(0, 0, 2)}, 2.5); })),
      swept("index_put_ of a slice", two, on_copy([](T& y, In x) { y.index_put_({1}, x[1].select(0, 2)); })),
      swept("index_add_", rows, on_copy([](T& y, In x) { y.index_add_(0, x[1], x[2]); })),
      swept("index_fill_", rows, on_copy([](T& y, In x) { y.index_fill_(0, x[1].slice(0, 0, 2), 3); })),
      swept("scatter_", {normal({4, 6}), integers({1, 6}, 0, 4), normal({1, 6})},
            on_copy([](T& y, In x) { y.scatter_(0, x[1], x[2]); })),
      swept("scatter_add_", {normal({4, 6}), integers({4, 6}, 0, 4), normal({4, 6})},
            on_copy([](T& y, In x) { y.scatter_add_(0, x[1], x[2]); })),
      swept("masked_fill_", masked, on_copy([](T& y, In x) { y.masked_fill_(x[1], 7); })),
      swept("fill_diagonal_", any, on_copy([](T& y, In) { y.fill_diagonal_(1); })),
      swept("cumsum_", any, on_copy([](T& y, In) { y.cumsum_(1); })),
      swept("tril_", any, on_copy([](T& y, In) { y.tril_(); })),
      swept("unsqueeze_", any, on_copy([](T& y, In) { y.unsqueeze_(0).mul_(2); })),
      forward("logical_and_", masked, on_copy([](T& y, In x) { y.gt(0).logical_and_(x[1]); })),
      forward("resize_ to more", any, on_copy([](T& y, In) {
                y.resize_({5, 6}).slice(0, 4).fill_(1);
              })),
      forward("set_", two,
              [](In x) {
                return x[0].view({4, 6}).set_(x[1]).add(1);
              })
          .writing(),
  };
}

SweptOperators out_forms() {
  return {
      forward("add_out", two,
              [](In x) {
                auto y = torch::empty_like(x[0]);
                return torch::add_out(y, x[0], x[1]);
              }),
      forward("mul_out, sized by the operator", two,
              [](In x) {
                auto y = none_like(x[0]);
                return torch::mul_out(y, x[0], x[1]);
              }),
      forward("exp_out of another type", any,
              [](In x) {
                auto y = torch::empty({4, 6}, x[0].options().dtype(torch::kDouble));
                return torch::exp_out(y, x[0]);
              }),
      forward("add_out into a transposed tensor", two,
              [](In x) {
                auto y = torch::empty({6, 4}, x[0].options()).t();
                return torch::add_out(y, x[0], x[1]);
              }),
      forward("mm_out", two,
              [](In x) {
                auto y = none_like(x[0]);
                return torch::mm_out(y, x[0], x[1].t());
              }),
      forward("bmm_out", {normal({2, 3, 4}), normal({2, 4, 5})},
              [](In x) {
                auto y = none_like(x[0]);
                return torch::bmm_out(y, x[0], x[1]);
              }),
      forward("sum_out", any,
              [](In x) {
                auto y = none_like(x[0]);
                return torch::sum_out(y, x[0], 1);
              }),
      forward("cat_out", two,
              [](In x) {
                auto y = none_like(x[0]);
                return torch::cat_out(y, {x[0], x[1]});
              }),
      forward("stack_out", two,
              [](In x) {
                auto y = none_like(x[0]);
                return torch::stack_out(y, {x[0], x[1]});
              }),
      forward("sort_out", any,
              [](In x) {
                auto y = none_like(x[0]), places = none_like(x[0]).to(torch::kLong);
                return Outputs(torch::sort_out(y, places, x[0]));
              }),
      forward("max_out", any,
              [](In x) {
                auto y = torch::empty({4}, x[0].options()), places = y.to(torch::kLong);
                return Outputs(torch::max_out(y, places, x[0], 1));
              }),
      forward("topk_out", any,
              [](In x) {
                auto y = none_like(x[0]), places = y.to(torch::kLong);
                return Outputs(torch::topk_out(y, places, x[0], 2));
              }),
      forward("index_select_out", {normal({4, 6}), integers({3}, 0, 4)},
              [](In x) {
                auto y = none_like(x[0]);
                return torch::index_select_out(y, x[0], 0, x[1]);
              }),
      forward("gather_out", {normal({4, 6}), integers({4, 6}, 0, 4)},
              [](In x) {
                auto y = none_like(x[0]);
                return torch::gather_out(y, x[0], 0, x[1]);
              }),
      forward("softmax_out", any,
              [](In x) {
                auto y = none_like(x[0]);
                return torch::softmax_out(y, x[0], 1);
              }),
      forward("cumsum_out", any,
              [](In x) {
                auto y = none_like(x[0]);
                return torch::cumsum_out(y, x[0], 1);
              }),
      forward("linspace_out", any,
              [](In x) {
                auto y = none_like(x[0]);
                return torch::linspace_out(y, 0, 1, 5);
              }),
      forward("arange_out", any,
              [](In x) {
                auto y = none_like(x[0]);
                return torch::arange_out(y, 5);
              }),
      forward("eye_out", any,
              [](In x) {
                auto y = none_like(x[0]);
                return torch::eye_out(y, 3);
              }),
      forward("mse_loss_out", two,
              [](In x) {
                auto y = none_like(x[0]);
                return torch::mse_loss_out(y, x[0], x[1]);
              }),
      forward("lt_out", two,
              [](In x) {
                auto y = none_like(x[0]).to(torch::kBool);
                return torch::lt_out(y, x[0], x[1]);
              }),
      forward("linalg_vector_norm_out", any,
              [](In x) {
                auto y = none_like(x[0]);
                return torch::linalg_vector_norm_out(y, x[0]);
              }),
  };
}

SweptOperators list_operators() {
  const std::vector<Input> four{normal({3}), normal({2, 4}), positive({3}), positive({2, 4})};
  const auto on_copies = [](auto change) {
    return [=](In x) {
      Tensors y = copies(first(x));
      change(y, x);
      return y;
    };
  };
  return {
      swept("_foreach_add", four, [](In x) { return torch::_foreach_add(first(x), second(x), 2); }),
      swept("_foreach_add of a number", four, [](In x) { return torch::_foreach_add(first(x), 2); }),
      swept("_foreach_mul", four, [](In x) { return torch::_foreach_mul(first(x), second(x)); }),
      swept("_foreach_div", four, [](In x) { return torch::_foreach_div(first(x), second(x)); }),
      swept("_foreach_sqrt", four, [](In x) { return torch::_foreach_sqrt(second(x)); }),
      swept("_foreach_neg", four, [](In x) { return torch::_foreach_neg(first(x)); }),
      swept("_foreach_lerp", four, [](In x) { return torch::_foreach_lerp(first(x), second(x), 0.3); }),
      swept("_foreach_addcmul", four, [](In x) { return torch::_foreach_addcmul(first(x), second(x), second(x), 3); }),
      swept("_foreach_addcdiv", four, [](In x) { return torch::_foreach_addcdiv(first(x), first(x), second(x), 3); }),
      swept("_foreach_norm", four, [](In x) { return torch::_foreach_norm(first(x)); }),
      swept("_foreach_maximum", four, [](In x) { return torch::_foreach_maximum(first(x), second(x)); }),
      swept("_foreach_add_", four, on_copies([](Tensors& y, In x) { torch::_foreach_add_(y, second(x)); })),
      forward("_foreach_mul_ by a tensor", four,
              on_copies([](Tensors& y, In x) { torch::_foreach_mul_(y, x[0].select(0, 0)); })),
      forward("_foreach_zero_", four, on_copies([](Tensors& y, In) { torch::_foreach_zero_(y); })),
      forward("_foreach_copy_", four, on_copies([](Tensors& y, In x) { torch::_foreach_copy_(y, second(x)); })),
      forward("_foreach_addcdiv_", four,
              on_copies([](Tensors& y, In x) { torch::_foreach_addcdiv_(y, first(x), second(x), -0.1); })),
      forward("_fused_adam_", four,
              [](In x) {
                Tensors y = copies(first(x)), mean = copies(first(x)), square = copies(second(x)),
                        steps{torch::ones({}, x[0].options()), torch::ones({}, x[0].options())};
                torch::_fused_adam_(y, second(x), mean, square, {}, steps, 0.1, 0.9, 0.99, 0, 1e-8, false, false);
                return Tensors{y[0], y[1], mean[0], square[1], steps[0]};
              }),
      forward("_fused_sgd_", four,
              [](In x) {
                Tensors y = copies(first(x)), momentum = copies(first(x));
                torch::_fused_sgd_(y, second(x), momentum, 0, 0.9, 0.1, 0, false, false, false);
                return y;
              }),
      forward("_amp_foreach_non_finite_check_and_unscale_", four,
              [](In x) {
                Tensors y = copies(first(x));
                auto found = torch::zeros({1}, x[0].options()), scale = torch::full({1}, 0.5, x[0].options());
                torch::_amp_foreach_non_finite_check_and_unscale_(y, found, scale);
                return Tensors{y[0], y[1], found};
              }),
  };
}

SweptOperators types() {
  const std::vector<Input> halves{normal({3, 4}, torch::kHalf), normal({3, 4}, torch::kHalf)},
      brains{normal({3, 4}, torch::kBFloat16), normal({4, 5}, torch::kBFloat16)},
      whole{integers({3, 4}, -9, 9), integers({3, 4}, 1, 9)};
  return {
      swept("to(kDouble)", any, [](In x) { return x[0].to(torch::kDouble); }),
      swept("to(kHalf) of a transposed tensor", any, [](In x) { return x[0].t().to(torch::kHalf); }),
      swept("to(kBFloat16)", any, [](In x) { return x[0].to(torch::kBFloat16); }),
      swept("to(kComplexFloat)", any, [](In x) { return x[0].to(torch::kComplexFloat); }),
      forward("to(kInt)", any, [](In x) { return (x[0] * 10).to(torch::kInt); }),
      forward("to(kBool)", any, [](In x) { return x[0].round().to(torch::kBool); }),
      forward("to(kByte)", whole, [](In x) { return x[1].to(torch::kByte); }),
      swept("type_as", {normal({4}), normal({2}, torch::kDouble)}, [](In x) { return x[0].type_as(x[1]) * 2; }),
      swept("sum of two types", {normal({3, 4}), integers({3, 4}, -9, 9)}, [](In x) { return x[0] + x[1]; }),
      forward("sum of a bool and an integer", {booleans({3, 4}), integers({3, 4}, -9, 9)},
              [](In x) { return x[0] + x[1]; }),
      swept("half-precision product", halves, [](In x) { return x[0] * x[1]; }),
      swept("half-precision sum", halves, [](In x) { return x[0].sum(1); }),
      swept("bfloat16 matrix product", brains, [](In x) { return x[0].mm(x[1]); }),
      swept("bfloat16 softmax", brains, [](In x) { return x[0].softmax(1); }),
      forward("integer sum", whole, [](In x) { return x[0].sum(1); }),
      forward("integer product", whole, [](In x) { return x[0] * x[1] - 3; }),
      forward("integer division", whole, [](In x) { return x[0].div(x[1]); }),
      forward("integer clamp", whole, [](In x) { return x[0].clamp(-2, 3); }),
      forward("8-bit arithmetic", whole, [](In x) { return x[0].to(torch::kChar) * x[1].to(torch::kChar); }),
      forward("integer sort", whole, [](In x) { return x[0].sort(0, true); }),
      forward("bool sum", {booleans({3, 4})}, [](In x) { return x[0].sum(); }),
      forward("bool any and all", {booleans({3, 4})},
              [](In x) {
                return Tensors{x[0].any(1), x[0].all()};
              }),
  };
}

}  // namespace reprise::libtorch::test::forms
