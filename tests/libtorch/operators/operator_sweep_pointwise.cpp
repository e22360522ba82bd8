// SPDX-License-Identifier: Apache-2.0
#include "tests/libtorch/operators/operator_sweep.h"

// Operators that take each value by itself.

namespace reprise::libtorch::test::pointwise {
namespace {

const std::vector<Input> any{normal({3, 5})}, above_zero{positive({3, 5})}, within_one{uniform({3, 5}, -0.9, 0.9)},
    strided{transposed({5, 3})}, two{normal({3, 5}), normal({3, 5})}, broadcast{normal({2, 3, 5}), normal({3, 1})},
    both_above_zero{positive({3, 5}), positive({3, 5})}, flags{booleans({3, 5}), booleans({3, 5})},
    whole{integers({3, 5}, 1, 40), integers({3, 5}, 1, 40)},
    equal_at_times{integers({3, 5}, 0, 3), integers({3, 5}, 0, 3)};

}  // namespace

SweptOperators pointwise_functions() {
  return {
      swept("abs", any, [](In x) { return x[0].abs(); }),
      swept("neg", any, [](In x) { return x[0].neg(); }),
      swept("exp", any, [](In x) { return x[0].exp(); }),
      swept("exp of a transposed tensor", strided, [](In x) { return x[0].exp(); }),
      swept("exp2", any, [](In x) { return x[0].exp2(); }),
      swept("expm1", any, [](In x) { return x[0].expm1(); }),
      swept("log", above_zero, [](In x) { return x[0].log(); }),
      swept("log2", above_zero, [](In x) { return x[0].log2(); }),
      swept("log10", above_zero, [](In x) { return x[0].log10(); }),
      swept("log1p", above_zero, [](In x) { return x[0].log1p(); }),
      swept("sqrt", above_zero, [](In x) { return x[0].sqrt(); }),
      swept("rsqrt", above_zero, [](In x) { return x[0].rsqrt(); }),
      swept("square", any, [](In x) { return x[0].square(); }),
      swept("reciprocal", above_zero, [](In x) { return x[0].reciprocal(); }),
      swept("sin", any, [](In x) { return x[0].sin(); }),
      swept("cos", any, [](In x) { return x[0].cos(); }),
      swept("tan", within_one, [](In x) { return x[0].tan(); }),
      swept("asin", within_one, [](In x) { return x[0].asin(); }),
      swept("acos", within_one, [](In x) { return x[0].acos(); }),
      swept("atan", any, [](In x) { return x[0].atan(); }),
      swept("sinh", any, [](In x) { return x[0].sinh(); }),
      swept("cosh", any, [](In x) { return x[0].cosh(); }),
      swept("tanh", any, [](In x) { return x[0].tanh(); }),
      swept("asinh", any, [](In x) { return x[0].asinh(); }),
      swept("acosh", {uniform({3, 5}, 1.5, 3)}, [](In x) { return x[0].acosh(); }),
      swept("atanh", within_one, [](In x) { return x[0].atanh(); }),
      swept("sign", any, [](In x) { return x[0].sign(); }),
      swept("floor", any, [](In x) { return x[0].floor(); }),
      swept("ceil", any, [](In x) { return x[0].ceil(); }),
      swept("round", any, [](In x) { return x[0].round(); }),
      swept("round to decimals", any, [](In x) { return x[0].round(1); }),
      swept("trunc", any, [](In x) { return x[0].trunc(); }),
      swept("frac", any, [](In x) { return x[0].frac(); }),
      swept("deg2rad", any, [](In x) { return x[0].deg2rad(); }),
      swept("rad2deg", any, [](In x) { return x[0].rad2deg(); }),
      swept("nan_to_num", {[] {
              return torch::randn({3, 5}).log();
            }},
            [](In x) { return x[0].nan_to_num(7); }),
      swept("clamp", any, [](In x) { return x[0].clamp(-0.5, 0.5); }),
      swept("clamp_min", any, [](In x) { return x[0].clamp_min(0.1); }),
      swept("clamp between tensors", {normal({3, 5}), uniform({3, 1}, -1, 0), uniform({5}, 0, 1)},
            [](In x) { return x[0].clamp(x[1], x[2]); }),
      forward("isnan", {[] {
                return torch::randn({3, 5}).log();
              }},
              [](In x) { return x[0].isnan(); }),
      forward("isinf", any, [](In x) { return (1 / x[0].floor()).isinf(); }),
      forward("isfinite", any, [](In x) { return (1 / x[0].floor()).isfinite(); }),
      forward("signbit", any, [](In x) { return x[0].signbit(); }),
      forward("logical_not", any, [](In x) { return x[0].logical_not(); }),
      forward("bitwise_not", whole, [](In x) { return x[0].bitwise_not(); }),
  };
}

SweptOperators special_functions() {
  return {
      swept("sigmoid", any, [](In x) { return x[0].sigmoid(); }),
      swept("logit", {uniform({3, 5}, 0.1, 0.9)}, [](In x) { return x[0].logit(); }),
      swept("erf", any, [](In x) { return x[0].erf(); }),
      swept("erfc", any, [](In x) { return x[0].erfc(); }),
      swept("erfinv", within_one, [](In x) { return x[0].erfinv(); }),
      swept("lgamma", above_zero, [](In x) { return x[0].lgamma(); }),
      swept("digamma", above_zero, [](In x) { return x[0].digamma(); }),
      swept("polygamma", above_zero, [](In x) { return x[0].polygamma(2); }),
      swept("mvlgamma", {uniform({3, 5}, 3, 5)}, [](In x) { return x[0].mvlgamma(2); }),
      swept("i0", any, [](In x) { return x[0].i0(); }),
      swept("sinc", any, [](In x) { return x[0].sinc(); }),
      swept("special_entr", above_zero, [](In x) { return torch::special_entr(x[0]); }),
      swept("special_ndtri", {uniform({3, 5}, 0.1, 0.9)}, [](In x) { return torch::special_ndtri(x[0]); }),
      swept("special_log_ndtr", any, [](In x) { return torch::special_log_ndtr(x[0]); }),
      swept("special_erfcx", any, [](In x) { return torch::special_erfcx(x[0]); }),
      swept("special_i1", any, [](In x) { return torch::special_i1(x[0]); }),
      forward("special_bessel_j0", any, [](In x) { return torch::special_bessel_j0(x[0]); }),
      swept("special_xlog1py", both_above_zero, [](In x) { return torch::special_xlog1py(x[0], x[1]); }),
      forward("special_zeta", {uniform({3, 5}, 2, 4), positive({3, 5})},
              [](In x) { return torch::special_zeta(x[0], x[1]); }),
      forward("igamma", both_above_zero, [](In x) { return torch::igamma(x[0], x[1]); }),
  };
}

SweptOperators arithmetic() {
  return {
      swept("add", two, [](In x) { return x[0] + x[1]; }),
      swept("add, broadcast", broadcast, [](In x) { return x[0] + x[1]; }),
      swept("add, scaled", two, [](In x) { return x[0].add(x[1], 2.5); }),
      swept("add of a number", any, [](In x) { return x[0] + 3; }),
      swept("add of a CPU scalar", any, [](In x) { return x[0] + torch::tensor(0.25); }),
      swept("sub", two, [](In x) { return x[0] - x[1]; }),
      swept("rsub", any, [](In x) { return 1 - x[0]; }),
      swept("mul", broadcast, [](In x) { return x[0] * x[1]; }),
      swept("div", {normal({3, 5}), positive({3, 5})}, [](In x) { return x[0] / x[1]; }),
      swept("div, rounded", {normal({3, 5}), positive({3, 5})}, [](In x) { return x[0].div(x[1], "trunc"); }),
      forward("floor_divide", whole, [](In x) { return x[0].floor_divide(x[1]); }),
      swept("remainder", {normal({3, 5}), positive({3, 5})}, [](In x) { return x[0].remainder(x[1]); }),
      swept("fmod", {normal({3, 5}), positive({3, 5})}, [](In x) { return x[0].fmod(x[1]); }),
      swept("pow", {positive({3, 5}), normal({3, 5})}, [](In x) { return x[0].pow(x[1]); }),
      swept("pow of a number", any, [](In x) { return x[0].pow(3); }),
      swept("pow to a number's base", any, [](In x) { return torch::pow(2, x[0]); }),
      swept("float_power", above_zero, [](In x) { return x[0].float_power(1.5); }),
      swept("atan2", two, [](In x) { return x[0].atan2(x[1]); }),
      swept("hypot", two, [](In x) { return x[0].hypot(x[1]); }),
      swept("maximum", two, [](In x) { return torch::maximum(x[0], x[1]); }),
      swept("minimum", two, [](In x) { return torch::minimum(x[0], x[1]); }),
      swept("fmax", two, [](In x) { return torch::fmax(x[0], x[1]); }),
      swept("fmin", two, [](In x) { return torch::fmin(x[0], x[1]); }),
      swept("logaddexp", two, [](In x) { return torch::logaddexp(x[0], x[1]); }),
      swept("logaddexp2", two, [](In x) { return torch::logaddexp2(x[0], x[1]); }),
      swept("xlogy", both_above_zero, [](In x) { return torch::xlogy(x[0], x[1]); }),
      swept("copysign", two, [](In x) { return x[0].copysign(x[1]); }),
      forward("nextafter", two, [](In x) { return x[0].nextafter(x[1]); }),
      swept("lerp", {normal({3, 5}), normal({3, 5}), normal({5})}, [](In x) { return x[0].lerp(x[1], x[2]); }),
      swept("lerp by a number", two, [](In x) { return x[0].lerp(x[1], 0.3); }),
      swept("addcmul", {normal({3, 5}), normal({5}), normal({3, 1})},
            [](In x) { return x[0].addcmul(x[1], x[2], 0.5); }),
      swept("addcdiv", {normal({3, 5}), normal({5}), positive({3, 1})},
            [](In x) { return x[0].addcdiv(x[1], x[2], 0.5); }),
      forward("heaviside", two, [](In x) { return x[0].heaviside(x[1]); }),
      swept("ldexp", two, [](In x) { return torch::ldexp(x[0], x[1].detach().round()); }),
      swept("dist", two, [](In x) { return x[0].dist(x[1], 3); }),
      forward("gcd", whole, [](In x) { return x[0].gcd(x[1]); }),
      forward("lcm", whole, [](In x) { return x[0].lcm(x[1]); }),
  };
}

SweptOperators comparisons() {
  return {
      forward("eq", equal_at_times, [](In x) { return x[0] == x[1]; }),
      forward("ne", equal_at_times, [](In x) { return x[0] != x[1]; }),
      forward("lt", broadcast, [](In x) { return x[0] < x[1]; }),
      forward("le", broadcast, [](In x) { return x[0] <= x[1]; }),
      forward("gt", two, [](In x) { return x[0] > x[1]; }),
      forward("ge of a number", any, [](In x) { return x[0] >= 0.25; }),
      forward("logical_and", flags, [](In x) { return x[0].logical_and(x[1]); }),
      forward("logical_or", flags, [](In x) { return x[0].logical_or(x[1]); }),
      forward("logical_xor", two, [](In x) { return x[0].round().logical_xor(x[1].round()); }),
      forward("bitwise_and", whole, [](In x) { return x[0] & x[1]; }),
      forward("bitwise_or", whole, [](In x) { return x[0] | x[1]; }),
      forward("bitwise_xor", flags, [](In x) { return x[0] ^ x[1]; }),
      forward("bitwise_left_shift", whole, [](In x) { return torch::bitwise_left_shift(x[0], x[1] % 7); }),
      forward("bitwise_right_shift", whole, [](In x) { return torch::bitwise_right_shift(x[0], x[1] % 4); }),
      forward("isclose", two, [](In x) { return torch::isclose(x[0], x[1], 0, 0.5); }),
      forward("isin", equal_at_times, [](In x) { return torch::isin(x[0], x[1].slice(0, 0, 1)); }),
      swept("where", two, [](In x) { return torch::where(x[0] > 0, x[0], x[1]); }),
      swept("where with a number", any, [](In x) { return torch::where(x[0] > 0, x[0], 2.5); }),
  };
}

SweptOperators activations() {
  namespace F = torch::nn::functional;
  return {
      swept("relu", any, [](In x) { return x[0].relu(); }),
      swept("relu6", any, [](In x) { return torch::relu6(x[0]); }),
      swept("leaky_relu", any, [](In x) { return torch::leaky_relu(x[0], 0.1); }),
      swept("elu", any, [](In x) { return torch::elu(x[0]); }),
      swept("celu", any, [](In x) { return torch::celu(x[0]); }),
      swept("selu", any, [](In x) { return torch::selu(x[0]); }),
      swept("gelu", any, [](In x) { return torch::gelu(x[0]); }),
      swept("gelu by tanh", any, [](In x) { return torch::gelu(x[0], "tanh"); }),
      swept("silu", any, [](In x) { return torch::silu(x[0]); }),
      swept("mish", any, [](In x) { return torch::mish(x[0]); }),
      swept("softplus", any, [](In x) { return torch::softplus(x[0]); }),
      swept("softsign", any, [](In x) { return F::softsign(x[0]); }),
      swept("tanhshrink", any, [](In x) { return F::tanhshrink(x[0]); }),
      swept("hardtanh", any, [](In x) { return torch::hardtanh(x[0]); }),
      swept("hardsigmoid", any, [](In x) { return torch::hardsigmoid(x[0]); }),
      swept("hardswish", any, [](In x) { return torch::hardswish(x[0]); }),
      swept("hardshrink", any, [](In x) { return torch::hardshrink(x[0]); }),
      swept("softshrink", any, [](In x) { return torch::softshrink(x[0]); }),
      swept("threshold", any, [](In x) { return torch::threshold(x[0], 0.1, 7); }),
      swept("prelu", {normal({3, 5}), uniform({5}, 0, 1)}, [](In x) { return torch::prelu(x[0], x[1]); }),
      swept("rrelu, evaluated", any, [](In x) { return torch::rrelu(x[0]); }),
      swept("glu", {normal({3, 6})}, [](In x) { return torch::glu(x[0]); }),
      swept("log_sigmoid", any, [](In x) { return torch::log_sigmoid(x[0]); }),
      swept("softmax", any, [](In x) { return x[0].softmax(1); }),
      swept("softmax of the first dimension", any, [](In x) { return x[0].softmax(0); }),
      swept("softmax in another type", any, [](In x) { return x[0].softmax(1, torch::kDouble); }),
      swept("log_softmax", any, [](In x) { return x[0].log_softmax(1); }),
      swept("softmin", any, [](In x) { return F::softmin(x[0], F::SoftminFuncOptions(1)); }),
      swept("normalize", any, [](In x) { return F::normalize(x[0]); }),
      swept("cosine_similarity", two, [](In x) { return torch::cosine_similarity(x[0], x[1]); }),
  };
}

}  // namespace reprise::libtorch::test::pointwise
