// SPDX-License-Identifier: Apache-2.0
#include "reprise/libtorch/clip_grad.h"

#include <ATen/TensorOperators.h>
#include <ATen/core/grad_mode.h>
#include <ATen/ops/_foreach_clamp_max.h>
#include <ATen/ops/_foreach_clamp_min.h>
#include <ATen/ops/_foreach_mul.h>
#include <ATen/ops/_foreach_norm.h>
#include <ATen/ops/clamp.h>
#include <ATen/ops/linalg_vector_norm.h>
#include <ATen/ops/stack.h>
#include <ATen/ops/zeros.h>

#include <optional>
#include <unordered_set>
#include <vector>

#include "reprise/error.h"
#include "text/format.h"

namespace reprise::libtorch {
namespace {

// A parameter that two modules share is scaled once: the operators on lists do all of theirs at once.
std::vector<at::Tensor> gradients_of(at::TensorList parameters) {
  std::vector<at::Tensor> gradients;
  std::unordered_set<const c10::TensorImpl*> known;
  for (const at::Tensor& parameter : parameters)
    if (parameter.defined() && parameter.grad().defined() && known.insert(parameter.unsafeGetTensorImpl()).second)
      gradients.push_back(parameter.grad());
  return gradients;
}

// Options of the first parameter; of the CPU if there is none.
at::TensorOptions options_of(at::TensorList parameters) {
  for (const at::Tensor& parameter : parameters)
    if (parameter.defined()) return parameter.options();
  return {};
}

}  // namespace

at::Tensor clip_grad_norm_(at::TensorList parameters, double max_norm, double norm_type) {
  if (!(max_norm >= 0))
    throw UsageError(text::format("clip_grad_norm_: expected max_norm to be zero or more, found {}.", max_norm));
  if (!(norm_type > 0))
    throw UsageError(
        text::format("clip_grad_norm_: expected norm_type to be above zero, for example 2, found {}.", norm_type));
  const at::NoGradGuard no_grad;
  const std::vector<at::Tensor> gradients = gradients_of(parameters);
  if (gradients.empty()) return at::zeros({}, options_of(parameters));
  const std::vector<at::Tensor> norms = at::_foreach_norm(gradients, norm_type);
  at::Tensor total = norms.size() == 1 ? norms[0] : at::linalg_vector_norm(at::stack(norms), norm_type);
  const at::Tensor scale = at::clamp(max_norm / (total + 1e-6), std::nullopt, 1.0);
  at::_foreach_mul_(gradients, scale);
  return total;
}

void clip_grad_value_(at::TensorList parameters, double clip_value) {
  if (!(clip_value >= 0))
    throw UsageError(text::format("clip_grad_value_: expected clip_value to be zero or more, found {}.", clip_value));
  const at::NoGradGuard no_grad;
  const std::vector<at::Tensor> gradients = gradients_of(parameters);
  if (gradients.empty()) return;
  at::_foreach_clamp_min_(gradients, -clip_value);
  at::_foreach_clamp_max_(gradients, clip_value);
}

}  // namespace reprise::libtorch
