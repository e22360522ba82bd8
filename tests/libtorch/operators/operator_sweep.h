// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <gmock/gmock.h>
#include <torch/torch.h>

#include <cstdint>
#include <functional>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

// Tables of libtorch's operators, and what is required of each on the host device: the CPU's results, eagerly, captured
// and replayed with other inputs, and so for its backward.

namespace reprise::libtorch::test {

using Tensors = std::vector<torch::Tensor>;
using In = const Tensors&;

/// Makes an input on the CPU, from the CPU's default generator.
using Input = std::function<torch::Tensor()>;
using Sizes = std::vector<std::int64_t>;

Input normal(Sizes sizes, torch::Dtype dtype = torch::kFloat);
Input uniform(Sizes sizes, double low, double high);
Input positive(Sizes sizes);                                       ///< 0.5 to 2
Input integers(Sizes sizes, std::int64_t low, std::int64_t high);  ///< of 64 bits, below `high`
Input booleans(Sizes sizes);
Input permutation(std::int64_t count);
Input definite(std::int64_t size);  ///< a symmetric positive definite matrix
Input transposed(Sizes sizes);      ///< normal, not contiguous

/// What an operator returns, as a list.
struct Outputs {
  template <class... T>
  Outputs(const std::tuple<T...>& all) : tensors(std::apply([](auto&... each) { return Tensors{each...}; }, all)) {}
  Outputs(const torch::Tensor& one) : tensors{one} {}
  Outputs(Tensors all) : tensors(std::move(all)) {}
  Tensors tensors;
};

struct SweptOperator {
  std::string name;
  std::vector<Input> inputs;
  std::function<Outputs(In)> call;
  bool differentiated = true;  ///< with respect to all its floating-point inputs
  bool draws = false;          ///< random numbers: its values are not those of the CPU's generator
  bool writes_inputs = false;
  double tolerance = 0;  ///< relative and absolute, against the CPU; 0: the same bits

  SweptOperator within(double difference) && { return tolerance = difference, std::move(*this); }
  SweptOperator writing() && { return writes_inputs = true, std::move(*this); }
};

using SweptOperators = std::vector<SweptOperator>;

/// An entry that is differentiated, and one that is not.
inline SweptOperator swept(std::string name, std::vector<Input> inputs, std::function<Outputs(In)> call) {
  return {std::move(name), std::move(inputs), std::move(call)};
}
inline SweptOperator forward(std::string name, std::vector<Input> inputs, std::function<Outputs(In)> call) {
  return {std::move(name), std::move(inputs), std::move(call), false};
}

struct SweptGroup {
  std::string name;
  SweptOperators (*operators)();
};

/// All that is swept.
const std::vector<SweptGroup>& swept_groups();

// Each source of operators has a namespace, since their inputs have names in common.
namespace pointwise {
SweptOperators pointwise_functions();
SweptOperators special_functions();
SweptOperators arithmetic();
SweptOperators comparisons();
SweptOperators activations();
}  // namespace pointwise
namespace reductions {
SweptOperators reductions();
SweptOperators orders_and_scans();
SweptOperators losses();
}  // namespace reductions
namespace matrices {
SweptOperators matrix_products();
SweptOperators linear_algebra();
SweptOperators fourier_and_complex();
}  // namespace matrices
namespace networks {
SweptOperators convolutions();
SweptOperators pooling();
SweptOperators normalisations();
SweptOperators interpolations();
SweptOperators embedding_and_attention();
}  // namespace networks
namespace indexing {
SweptOperators indexing();
SweptOperators views();
SweptOperators joins_and_copies();
}  // namespace indexing
namespace forms {
SweptOperators creation();
SweptOperators in_place_forms();
SweptOperators out_forms();
SweptOperators list_operators();
SweptOperators types();
}  // namespace forms

/// An operator that does not work on the host device, and what it says.
struct RefusedOperator {
  SweptOperator op;
  std::string error;
};

namespace values {
SweptOperators random_operators();

/// Operators whose results the host can know only after waiting.
SweptOperators value_dependent_operators();

std::vector<RefusedOperator> refused_operators();
}  // namespace values

/// The inputs of an operator, from a seed.
Tensors make_inputs(const SweptOperator& op, std::uint64_t seed);

/// The same type, sizes, and values? As the tolerance says, or to the last bit.
::testing::AssertionResult matches(const torch::Tensor& expected, const torch::Tensor& found, double tolerance);

}  // namespace reprise::libtorch::test
