// SPDX-License-Identifier: Apache-2.0
#include "tests/libtorch/operators/operator_sweep.h"

#include <cstring>

namespace reprise::libtorch::test {

Input normal(Sizes sizes, torch::Dtype dtype) {
  return [=] { return torch::randn(sizes, dtype); };
}

Input uniform(Sizes sizes, double low, double high) {
  return [=] { return torch::rand(sizes).mul_(high - low).add_(low); };
}

Input positive(Sizes sizes) {
  return uniform(std::move(sizes), 0.5, 2);
}

Input integers(Sizes sizes, std::int64_t low, std::int64_t high) {
  return [=] { return torch::randint(low, high, sizes, torch::kLong); };
}

Input booleans(Sizes sizes) {
  return [=] { return torch::rand(sizes) > 0.5; };
}

Input permutation(std::int64_t count) {
  return [=] { return torch::randperm(count); };
}

Input definite(std::int64_t size) {
  return [=] {
    const auto factor = torch::randn({size, size});
    return torch::mm(factor, factor.t()).add_(torch::eye(size).mul_(size));
  };
}

Input transposed(Sizes sizes) {
  return [=] { return torch::randn(sizes).transpose(0, 1); };
}

Tensors make_inputs(const SweptOperator& op, std::uint64_t seed) {
  torch::manual_seed(seed);
  Tensors made;
  for (const Input& input : op.inputs) made.push_back(input());
  return made;
}

namespace {

torch::Tensor packed(const torch::Tensor& tensor) {
  return tensor.detach().cpu().resolve_conj().resolve_neg().contiguous();
}

}  // namespace

::testing::AssertionResult matches(const torch::Tensor& expected, const torch::Tensor& found, double tolerance) {
  if (expected.defined() != found.defined())
    return ::testing::AssertionFailure() << (found.defined() ? "defined" : "undefined");
  if (!expected.defined()) return ::testing::AssertionSuccess();
  if (expected.scalar_type() != found.scalar_type())
    return ::testing::AssertionFailure() << "expected " << expected.scalar_type() << ", found " << found.scalar_type();
  if (!expected.sizes().equals(found.sizes()))
    return ::testing::AssertionFailure() << "expected sizes " << expected.sizes() << ", found " << found.sizes();
  const auto wanted = packed(expected), got = packed(found);
  const bool same = tolerance > 0 && (wanted.is_floating_point() || wanted.is_complex())
                        ? torch::allclose(wanted, got, tolerance, tolerance, true)
                        : std::memcmp(wanted.const_data_ptr(), got.const_data_ptr(), wanted.nbytes()) == 0;
  if (same) return ::testing::AssertionSuccess();
  return ::testing::AssertionFailure() << "expected\n" << wanted << "\nfound\n" << got;
}

const std::vector<SweptGroup>& swept_groups() {
  static const std::vector<SweptGroup> groups{
      {"PointwiseFunctions", &pointwise::pointwise_functions},
      {"SpecialFunctions", &pointwise::special_functions},
      {"Arithmetic", &pointwise::arithmetic},
      {"Comparisons", &pointwise::comparisons},
      {"Activations", &pointwise::activations},
      {"Losses", &reductions::losses},
      {"Reductions", &reductions::reductions},
      {"OrdersAndScans", &reductions::orders_and_scans},
      {"MatrixProducts", &matrices::matrix_products},
      {"LinearAlgebra", &matrices::linear_algebra},
      {"Convolutions", &networks::convolutions},
      {"Pooling", &networks::pooling},
      {"Normalisations", &networks::normalisations},
      {"Interpolations", &networks::interpolations},
      {"EmbeddingAndAttention", &networks::embedding_and_attention},
      {"Indexing", &indexing::indexing},
      {"Views", &indexing::views},
      {"JoinsAndCopies", &indexing::joins_and_copies},
      {"Creation", &forms::creation},
      {"InPlaceForms", &forms::in_place_forms},
      {"OutForms", &forms::out_forms},
      {"ListOperators", &forms::list_operators},
      {"FourierAndComplex", &matrices::fourier_and_complex},
      {"Types", &forms::types},
      {"RandomOperators", &values::random_operators},
  };
  return groups;
}

}  // namespace reprise::libtorch::test
