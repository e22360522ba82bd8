// SPDX-License-Identifier: Apache-2.0
#include "libtorch/network_kernels.h"

#include <ATen/TensorOperators.h>
#include <ATen/core/dispatch/Dispatcher.h>
#include <ATen/ops/cat.h>
#include <ATen/ops/sigmoid.h>
#include <ATen/ops/tanh.h>
#include <ATen/ops/zeros_like.h>

#include <optional>
#include <tuple>
#include <vector>

#include "libtorch/fallback.h"

namespace reprise::libtorch {
namespace {

using at::Tensor;
using torch::jit::Stack;

c10::OperatorHandle operator_named(const char* name) {
  return c10::Dispatcher::singleton().findSchemaOrThrow(name, "");
}

// --- Convolutions: `aten::convolution` hands over to these on a device that libtorch does not know -------------------

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

// --- Cells of recurrent networks -------------------------------------------------------------------------------------

// Half types are computed in float, as an accelerator's kernel does.
Tensor widened(const Tensor& tensor) {
  return c10::isReducedFloatingType(tensor.scalar_type()) ? tensor.to(c10::kFloat) : tensor;
}

std::optional<Tensor> widened(const std::optional<Tensor>& tensor) {
  return tensor && tensor->defined() ? std::optional(widened(*tensor)) : std::nullopt;
}

Tensor with_bias(const Tensor& gates, const std::optional<Tensor>& bias) {
  return bias && bias->defined() ? widened(gates) + widened(*bias) : widened(gates);
}

// Of s = sigmoid(x), given the gradient of s.
Tensor sigmoid_gradient(const Tensor& gradient, const Tensor& s) {
  return gradient * s * (1 - s);
}

// Of t = tanh(x), given the gradient of t.
Tensor tanh_gradient(const Tensor& gradient, const Tensor& t) {
  return gradient * (1 - t * t);
}

Tensor sum_over_batch(const Tensor& gates) {
  return gates.sum(0);
}

// The workspace, which the backward pass gets: the four gates after their functions.
std::tuple<Tensor, Tensor, Tensor> lstm_cell(const Tensor& input_gates, const Tensor& hidden_gates, const Tensor& cx,
                                             const std::optional<Tensor>& input_bias,
                                             const std::optional<Tensor>& hidden_bias) {
  const c10::ScalarType type = cx.scalar_type();
  const auto gates = (with_bias(input_gates, input_bias) + with_bias(hidden_gates, hidden_bias)).chunk(4, 1);
  const Tensor in = at::sigmoid(gates[0]), forget = at::sigmoid(gates[1]);
  const Tensor cell = at::tanh(gates[2]), out = at::sigmoid(gates[3]);
  const Tensor cy = forget * widened(cx) + in * cell;
  const Tensor hy = out * at::tanh(cy);
  return {hy.to(type), cy.to(type), at::cat({in, forget, cell, out}, 1).to(input_gates.scalar_type())};
}

// Gradients of the gates (of input and hidden ones alike), of cx, and of each bias.
std::tuple<Tensor, Tensor, Tensor> lstm_cell_backward(const std::optional<Tensor>& grad_hy,
                                                      const std::optional<Tensor>& grad_cy, const Tensor& cx,
                                                      const Tensor& cy, const Tensor& workspace, bool has_bias) {
  const auto of_hy = widened(grad_hy), of_cy = widened(grad_cy);
  if (!of_hy && !of_cy) return {};
  const auto gates = widened(workspace).chunk(4, 1);
  const Tensor &in = gates[0], &forget = gates[1], &cell = gates[2], &out = gates[3];
  const Tensor tanh_cy = at::tanh(widened(cy));
  Tensor into_cy, into_out;
  if (of_hy) {
    into_out = sigmoid_gradient(*of_hy * tanh_cy, out);
    into_cy = tanh_gradient(*of_hy * out, tanh_cy);
    if (of_cy) into_cy = into_cy + *of_cy;
  } else {
    into_out = at::zeros_like(out);
    into_cy = *of_cy;
  }
  const Tensor into_gates =
      at::cat({sigmoid_gradient(into_cy * cell, in), sigmoid_gradient(into_cy * widened(cx), forget),
               tanh_gradient(into_cy * in, cell), into_out},
              1)
          .to(workspace.scalar_type());
  return {into_gates, (into_cy * forget).to(cx.scalar_type()), has_bias ? sum_over_batch(into_gates) : Tensor()};
}

// The workspace, which the backward pass gets: reset, update and new gate, hx, and the hidden part of the new gate
// before it is reset.
std::tuple<Tensor, Tensor> gru_cell(const Tensor& input_gates, const Tensor& hidden_gates, const Tensor& hx,
                                    const std::optional<Tensor>& input_bias, const std::optional<Tensor>& hidden_bias) {
  const auto of_input = with_bias(input_gates, input_bias).chunk(3, 1);
  const auto of_hidden = with_bias(hidden_gates, hidden_bias).chunk(3, 1);
  const Tensor before = widened(hx);
  const Tensor reset = at::sigmoid(of_input[0] + of_hidden[0]), update = at::sigmoid(of_input[1] + of_hidden[1]);
  const Tensor fresh = at::tanh(of_input[2] + reset * of_hidden[2]);
  const Tensor hy = fresh + update * (before - fresh);
  return {hy.to(hx.scalar_type()),
          at::cat({reset, update, fresh, before, of_hidden[2]}, 1).to(input_gates.scalar_type())};
}

// Gradients of the input's gates, the hidden gates, hx, and the two biases.
std::tuple<Tensor, Tensor, Tensor, Tensor, Tensor> gru_cell_backward(const Tensor& grad_hy, const Tensor& workspace,
                                                                     bool has_bias) {
  const Tensor gradient = widened(grad_hy);
  const auto kept = widened(workspace).chunk(5, 1);
  const Tensor &reset = kept[0], &update = kept[1], &fresh = kept[2], &hx = kept[3], &hidden = kept[4];
  const Tensor into_update = sigmoid_gradient(gradient * (hx - fresh), update);
  const Tensor into_fresh = tanh_gradient(gradient * (1 - update), fresh);
  const Tensor into_reset = sigmoid_gradient(into_fresh * hidden, reset);
  const c10::ScalarType type = workspace.scalar_type();
  const Tensor into_input = at::cat({into_reset, into_update, into_fresh}, 1).to(type);
  const Tensor into_hidden = at::cat({into_reset, into_update, into_fresh * reset}, 1).to(type);
  return {into_input, into_hidden, (gradient * update).to(grad_hy.scalar_type()),
          has_bias ? sum_over_batch(into_input) : Tensor(), has_bias ? sum_over_batch(into_hidden) : Tensor()};
}

// --- Equal -----------------------------------------------------------------------------------------------------------

// Taken as the same values, NaN or not, as CUDA's does: attention asks so whether query, key and value are one tensor.
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

}  // namespace

void register_network_kernels(torch::Library& aten) {
  aten.impl("convolution_overrideable", torch::CppFunction::makeFromBoxedFunction<&convolution>());
  aten.impl("convolution_backward_overrideable", torch::CppFunction::makeFromBoxedFunction<&convolution_backward>());
  aten.impl("_thnn_fused_lstm_cell", &lstm_cell);
  aten.impl("_thnn_fused_lstm_cell_backward_impl", &lstm_cell_backward);
  aten.impl("_thnn_fused_gru_cell", &gru_cell);
  aten.impl("_thnn_fused_gru_cell_backward", &gru_cell_backward);
  aten.impl("equal", &equal);
}

}  // namespace reprise::libtorch
