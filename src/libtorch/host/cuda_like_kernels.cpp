// SPDX-License-Identifier: Apache-2.0
#include "libtorch/host/cuda_like_kernels.h"

#include <ATen/TensorOperators.h>
#include <ATen/ops/empty_like.h>
#include <ATen/ops/ones_like.h>
#include <c10/core/DeviceGuard.h>

#include <array>
#include <cstdint>
#include <optional>
#include <tuple>
#include <utility>
#include <vector>

#include "libtorch/host/fallback.h"
#include "libtorch/host/host_streams.h"
#include "libtorch/host/kernel_work.h"
#include "libtorch/host/operator_call.h"

namespace reprise::libtorch {
namespace {

using at::Tensor;
using torch::jit::Stack;

c10::OperatorHandle operator_named(const char* name) {
  return c10::Dispatcher::singleton().findSchemaOrThrow(name, "");
}

// --- Indices: those of the CPU are copied; masks become indices, whose number the host has to wait for

bool is_mask(const Tensor& index) {
  return index.scalar_type() == c10::kBool || index.scalar_type() == c10::kByte;
}

void require_shape_of(const Tensor& self, std::int64_t dimension, const Tensor& mask) {
  for (std::int64_t i = 0; i < mask.dim(); ++i)
    TORCH_CHECK_INDEX(dimension + i < self.dim() && mask.size(i) == self.size(dimension + i), "The shape of the mask ",
                      mask.sizes(), " does not match the shape of the indexed tensor ", self.sizes(),
                      " from dimension ", dimension, " on");
}

void prepare_indices(const Tensor& self, c10::IValue& argument, bool expand_masks) {
  TORCH_CHECK(is_here(self), "expected the indexed tensor on the device of its indices, found it on ", self.device());
  c10::List<std::optional<Tensor>> indices;
  std::int64_t dimension = 0;
  for (const std::optional<Tensor>& given : argument.toOptionalTensorVector()) {
    if (!given || !given->defined()) {
      indices.push_back(given);
      ++dimension;
      continue;
    }
    const Tensor index = is_here(*given) ? *given : given->to(self.device());
    if (is_mask(index)) require_shape_of(self, dimension, index);
    dimension += is_mask(index) ? index.dim() : 1;
    if (!is_mask(index) || !expand_masks) {
      indices.push_back(index);
      continue;
    }
    const Tensor places = index.nonzero();
    for (std::int64_t i = 0; i < index.dim(); ++i) indices.push_back(places.select(1, i));
  }
  argument = indices;
}

void index(const c10::OperatorHandle& op, Stack* stack) {
  const std::size_t arguments = op.schema().arguments().size();
  prepare_indices(torch::jit::peek(*stack, 0, arguments).toTensor(), torch::jit::peek(*stack, 1, arguments), true);
  fallback(op, stack);
}

// One value for all places of a mask is written without their number.
void index_put(const c10::OperatorHandle& op, Stack* stack) {
  const std::size_t arguments = op.schema().arguments().size();
  const bool expand_masks = torch::jit::peek(*stack, 2, arguments).toTensor().numel() != 1;
  prepare_indices(torch::jit::peek(*stack, 0, arguments).toTensor(), torch::jit::peek(*stack, 1, arguments),
                  expand_masks);
  fallback(op, stack);
}

// --- Equal, which need not always wait

// The same tensor counts as equal, NaN or not, as on CUDA: attention compares query, key and value in this way.
bool is_same_memory(const Tensor& a, const Tensor& b) {
  return a.scalar_type() == b.scalar_type() && a.is_alias_of(b) && a.storage_offset() == b.storage_offset() &&
         a.strides().equals(b.strides()) && a.is_conj() == b.is_conj() && a.is_neg() == b.is_neg();
}

bool equal(const Tensor& a, const Tensor& b) {
  TORCH_CHECK(a.device() == b.device(), "aten::equal: expected tensors on one device, found ", a.device(), " and ",
              b.device());
  if (!a.sizes().equals(b.sizes())) return false;
  if (a.numel() == 0 || is_same_memory(a, b)) return true;
  static const c10::OperatorHandle op = operator_named("aten::equal");
  Stack stack{a, b};
  fallback(op, &stack);
  return stack.back().toBool();
}

// --- Dropout in training: one operator, which libtorch calls on accelerators only

std::tuple<Tensor, Tensor> native_dropout(const Tensor& input, double p, std::optional<bool> train) {
  if (!train.value_or(true) || p == 0) return {input.clone(), at::ones_like(input, input.options().dtype(c10::kBool))};
  const double scale = p == 1 ? 0 : 1 / (1 - p);
  Tensor mask = at::empty_like(input, input.options().dtype(c10::kBool)).bernoulli_(1 - p);
  return {input.mul(mask).mul_(scale), mask};
}

Tensor native_dropout_backward(const Tensor& gradient, const Tensor& mask, double scale) {
  return gradient.mul(mask).mul_(scale);
}

// --- The fused cells of LSTM and GRU, which libtorch calls on accelerators only: operators with derivatives of their
// own. Half types are computed in float, as an accelerator's kernel does. Only a fused backward needs a workspace.

Tensor gates_of(const Tensor& gates, const std::optional<Tensor>& bias) {
  const auto widened = [](const Tensor& tensor) {
    return c10::isReducedFloatingType(tensor.scalar_type()) ? tensor.to(c10::kFloat) : tensor;
  };
  return bias && bias->defined() ? widened(gates) + widened(*bias) : widened(gates);
}

std::tuple<Tensor, Tensor, Tensor> lstm_cell(const Tensor& input_gates, const Tensor& hidden_gates, const Tensor& cx,
                                             const std::optional<Tensor>& input_bias,
                                             const std::optional<Tensor>& hidden_bias) {
  const auto gates = (gates_of(input_gates, input_bias) + gates_of(hidden_gates, hidden_bias)).chunk(4, 1);
  const Tensor cy = gates[1].sigmoid() * cx + gates[0].sigmoid() * gates[2].tanh();
  const Tensor hy = gates[3].sigmoid() * cy.tanh();
  return {hy.to(cx.scalar_type()), cy.to(cx.scalar_type()), Tensor()};
}

std::tuple<Tensor, Tensor> gru_cell(const Tensor& input_gates, const Tensor& hidden_gates, const Tensor& hx,
                                    const std::optional<Tensor>& input_bias, const std::optional<Tensor>& hidden_bias) {
  const auto of_input = gates_of(input_gates, input_bias).chunk(3, 1);
  const auto of_hidden = gates_of(hidden_gates, hidden_bias).chunk(3, 1);
  const Tensor fresh = (of_input[2] + (of_input[0] + of_hidden[0]).sigmoid() * of_hidden[2]).tanh();
  const Tensor hy = fresh + (of_input[1] + of_hidden[1]).sigmoid() * (hx - fresh);
  return {hy.to(hx.scalar_type()), Tensor()};
}

// --- Convolutions: libtorch calls an operator of another name on a device unknown to it, of which the CPU has no
// kernel

void convolution(const c10::OperatorHandle& /*op*/, Stack* stack) {
  static const c10::OperatorHandle of_the_cpu = operator_named("aten::convolution");
  fallback(of_the_cpu, stack);
}

void convolution_backward(const c10::OperatorHandle& /*op*/, Stack* stack) {
  static const c10::OperatorHandle of_the_cpu = operator_named("aten::convolution_backward");
  constexpr std::ptrdiff_t arguments = 10, before_bias_sizes = 3;
  const std::vector<std::int64_t> bias_sizes{torch::jit::peek(*stack, 0, arguments).toTensor().size(1)};
  stack->insert(stack->end() - arguments + before_bias_sizes, c10::IValue(bias_sizes));
  fallback(of_the_cpu, stack);
}

void register_cells(torch::Library& aten) {
  aten.impl("_thnn_fused_lstm_cell", &lstm_cell);
  aten.impl("_thnn_fused_gru_cell", &gru_cell);
}

}  // namespace

void register_cuda_like_kernels(torch::Library& aten) {
  for (const char* name : {"addr", "addr.out", "all.dims", "all.dims_out", "any.dims", "any.dims_out", "kaiser_window",
                           "kaiser_window.beta", "kaiser_window.periodic", "linalg__powsum", "mish_backward",
                           "native_group_norm", "native_layer_norm", "silu_backward"})
    aten.impl(name, torch::CppFunction::makeFromBoxedFunction<&fallback>());
  aten.impl("index.Tensor", torch::CppFunction::makeFromBoxedFunction<&index>());
  aten.impl("_index_put_impl_", torch::CppFunction::makeFromBoxedFunction<&index_put>());
  register_cells(aten);
  aten.impl("convolution_overrideable", torch::CppFunction::makeFromBoxedFunction<&convolution>());
  aten.impl("convolution_backward_overrideable", torch::CppFunction::makeFromBoxedFunction<&convolution_backward>());
  aten.impl("equal", &equal);
  aten.impl("native_dropout", &native_dropout);
  aten.impl("native_dropout_backward", &native_dropout_backward);
}

void register_cuda_like_autograd(torch::Library& aten_autograd) {
  register_cells(aten_autograd);
}

void register_lazy_views(torch::Library& aten) {
  aten.impl("_copy_from", torch::CppFunction::makeFallthrough());
}

}  // namespace reprise::libtorch
