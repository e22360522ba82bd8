// SPDX-License-Identifier: Apache-2.0
#include "libtorch/optim/subtract_scaled.h"

#include <ATen/core/dispatch/Dispatcher.h>
#include <ATen/ops/_fused_sgd.h>
#include <torch/library.h>

#include <cstddef>
#include <optional>

#include "support/immortal.h"

namespace reprise::libtorch::optim::detail {
namespace {

// On the host device, too, whose fallback calls it when the work runs.
void on_cpu(at::TensorList tensors, at::TensorList others, const at::Tensor& scale) {
  const double number = scale.item<double>();
  for (std::size_t i = 0; i < tensors.size(); ++i) tensors[i].add_(others[i], -number);
}

// A product and sum that are rounded once, as the kernel of at::Tensor::add_ does it. That of addcmul_ would round
// `scale` to a type of 16 bits; the fused step keeps it, and adds in float64 before it rounds.
void on_cuda(at::TensorList tensors, at::TensorList others, const at::Tensor& scale) {
  const c10::ScalarType type = tensors[0].scalar_type();
  if (type != c10::kFloat && type != c10::kDouble) {
    at::_fused_sgd_(tensors, others, {}, /*weight_decay=*/0, /*momentum=*/0, scale.to(c10::kFloat), /*dampening=*/0,
                    /*nesterov=*/false, /*maximize=*/false, /*is_first_step=*/false);
    return;
  }
  const at::Tensor factor = scale.to(type).neg();
  for (std::size_t i = 0; i < tensors.size(); ++i) tensors[i].addcmul_(others[i], factor);
}

struct Operators {
  Operators() {
    library.def("subtract_scaled_(Tensor(a!)[] self, Tensor[] other, Tensor scale) -> ()");
    library.impl("subtract_scaled_", c10::DispatchKey::CPU, &on_cpu);
    library.impl("subtract_scaled_", c10::DispatchKey::CUDA, &on_cuda);
  }
  torch::Library library{torch::Library::FRAGMENT, "reprise", std::nullopt, __FILE__, __LINE__};
};

}  // namespace

void subtract_scaled_(at::TensorList tensors, at::TensorList others, const at::Tensor& scale) {
  static const support::Immortal<Operators> operators;
  static_cast<void>(operators);
  static const auto op = c10::Dispatcher::singleton()
                             .findSchemaOrThrow("reprise::subtract_scaled_", "")
                             .typed<void(at::TensorList, at::TensorList, const at::Tensor&)>();
  op.call(tensors, others, scale);
}

}  // namespace reprise::libtorch::optim::detail
