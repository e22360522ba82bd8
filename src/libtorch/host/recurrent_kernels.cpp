// SPDX-License-Identifier: Apache-2.0
#include "libtorch/host/recurrent_kernels.h"

#include <ATen/TensorOperators.h>
#include <ATen/ops/cat.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/empty_like.h>
#include <ATen/ops/sigmoid.h>
#include <ATen/ops/tanh.h>
#include <ATen/ops/zeros_like.h>
#include <c10/core/DeviceGuard.h>

#include <functional>
#include <optional>
#include <tuple>
#include <utility>
#include <vector>

#include "libtorch/host/host_streams.h"
#include "libtorch/host/kernel_work.h"
#include "libtorch/host/operator_call.h"

namespace reprise::libtorch {
namespace {

using at::Tensor;

using Tensors = std::vector<Tensor>;

Tensor of(const std::optional<Tensor>& tensor) {
  return tensor.value_or(Tensor());
}

std::optional<Tensor> optional(const Tensor& tensor) {
  return tensor.defined() ? std::optional(tensor) : std::nullopt;
}

template <class Tuple>
Tensors as_list(Tuple&& tuple) {
  return std::apply([](auto&&... each) { return Tensors{each...}; }, std::forward<Tuple>(tuple));
}

// Submits one operation that computes `outputs` from `inputs` on the CPU; undefined ones stay undefined.
void as_one(const char* name, const Tensors& inputs, const Tensors& outputs,
            std::function<Tensors(const Tensors&)> compute) {
  std::vector<MemoryAccess> accesses;
  const auto operands = [&](const Tensors& tensors, bool written) {
    std::vector<std::optional<TensorOperand>> kept;
    for (const Tensor& tensor : tensors) {
      kept.push_back(tensor.defined() ? std::optional<TensorOperand>(std::in_place, tensor) : std::nullopt);
      if (kept.back() && tensor.numel() > 0) accesses.push_back(kept.back()->access(written));
    }
    return kept;
  };
  auto in = operands(inputs, false);
  auto out = operands(outputs, true);
  const c10::DeviceGuard guard(inputs.back().defined() ? inputs.back().device() : inputs.front().device());
  enqueue_kernels(
      current_stream_of(guard.current_device()), name,
      [in = std::move(in), out = std::move(out), compute = std::move(compute)] {
        Tensors values;
        for (const auto& each : in) values.push_back(each ? each->on_cpu() : Tensor());
        const Tensors results = compute(values);
        for (std::size_t i = 0; i < out.size(); ++i)
          if (out[i]) out[i]->on_cpu().copy_(results.at(i));
      },
      accesses);
}

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

// The gradient of x, given that of s = sigmoid(x).
Tensor sigmoid_gradient(const Tensor& gradient, const Tensor& s) {
  return gradient * s * (1 - s);
}

// The gradient of x, given that of t = tanh(x).
Tensor tanh_gradient(const Tensor& gradient, const Tensor& t) {
  return gradient * (1 - t * t);
}

Tensor sum_over_batch(const Tensor& gates) {
  return gates.sum(0);
}

// The workspace, passed to the backward pass: the four gates after their functions.
std::tuple<Tensor, Tensor, Tensor> lstm_cell_values(const Tensor& input_gates, const Tensor& hidden_gates,
                                                    const Tensor& cx, const std::optional<Tensor>& input_bias,
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
std::tuple<Tensor, Tensor, Tensor> lstm_cell_backward_values(const std::optional<Tensor>& grad_hy,
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

// The workspace, passed to the backward pass: reset, update and new gate, hx, and the hidden part of the new gate
// before it is reset.
std::tuple<Tensor, Tensor> gru_cell_values(const Tensor& input_gates, const Tensor& hidden_gates, const Tensor& hx,
                                           const std::optional<Tensor>& input_bias,
                                           const std::optional<Tensor>& hidden_bias) {
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
std::tuple<Tensor, Tensor, Tensor, Tensor, Tensor> gru_cell_backward_values(const Tensor& grad_hy,
                                                                            const Tensor& workspace, bool has_bias) {
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

// A cell is one operation, as it is one kernel on CUDA.

std::tuple<Tensor, Tensor, Tensor> lstm_cell(const Tensor& input_gates, const Tensor& hidden_gates, const Tensor& cx,
                                             const std::optional<Tensor>& input_bias,
                                             const std::optional<Tensor>& hidden_bias) {
  std::tuple results{at::empty_like(cx, at::MemoryFormat::Contiguous), at::empty_like(cx, at::MemoryFormat::Contiguous),
                     at::empty_like(input_gates, at::MemoryFormat::Contiguous)};
  const auto& [hy, cy, workspace] = results;
  as_one("aten::_thnn_fused_lstm_cell", {input_gates, hidden_gates, cx, of(input_bias), of(hidden_bias)},
         {hy, cy, workspace}, [](const Tensors& in) {
           return as_list(lstm_cell_values(in[0], in[1], in[2], optional(in[3]), optional(in[4])));
         });
  return results;
}

std::tuple<Tensor, Tensor, Tensor> lstm_cell_backward(const std::optional<Tensor>& grad_hy,
                                                      const std::optional<Tensor>& grad_cy, const Tensor& cx,
                                                      const Tensor& cy, const Tensor& workspace, bool has_bias) {
  if (!of(grad_hy).defined() && !of(grad_cy).defined()) return {};
  std::tuple results{at::empty_like(workspace), at::empty_like(cx, at::MemoryFormat::Contiguous),
                     has_bias ? at::empty({workspace.size(1)}, workspace.options()) : Tensor()};
  const auto& [gates, grad_cx, bias] = results;
  as_one("aten::_thnn_fused_lstm_cell_backward_impl", {of(grad_hy), of(grad_cy), cx, cy, workspace},
         {gates, grad_cx, bias}, [has_bias](const Tensors& in) {
           return as_list(lstm_cell_backward_values(optional(in[0]), optional(in[1]), in[2], in[3], in[4], has_bias));
         });
  return results;
}

std::tuple<Tensor, Tensor> gru_cell(const Tensor& input_gates, const Tensor& hidden_gates, const Tensor& hx,
                                    const std::optional<Tensor>& input_bias, const std::optional<Tensor>& hidden_bias) {
  std::tuple results{at::empty_like(hx, at::MemoryFormat::Contiguous),
                     at::empty({hx.size(0), 5 * hx.size(1)}, input_gates.options())};
  const auto& [hy, workspace] = results;
  as_one("aten::_thnn_fused_gru_cell", {input_gates, hidden_gates, hx, of(input_bias), of(hidden_bias)},
         {hy, workspace}, [](const Tensors& in) {
           return as_list(gru_cell_values(in[0], in[1], in[2], optional(in[3]), optional(in[4])));
         });
  return results;
}

std::tuple<Tensor, Tensor, Tensor, Tensor, Tensor> gru_cell_backward(const Tensor& grad_hy, const Tensor& workspace,
                                                                     bool has_bias) {
  const std::int64_t batch = grad_hy.size(0), hidden = grad_hy.size(1);
  const auto bias = [&] { return has_bias ? at::empty({3 * hidden}, workspace.options()) : Tensor(); };
  std::tuple results{at::empty({batch, 3 * hidden}, workspace.options()),
                     at::empty({batch, 3 * hidden}, workspace.options()),
                     at::empty_like(grad_hy, at::MemoryFormat::Contiguous), bias(), bias()};
  const auto& [input, hidden_gates, grad_hx, input_bias, hidden_bias] = results;
  as_one("aten::_thnn_fused_gru_cell_backward", {grad_hy, workspace},
         {input, hidden_gates, grad_hx, input_bias, hidden_bias},
         [has_bias](const Tensors& in) { return as_list(gru_cell_backward_values(in[0], in[1], has_bias)); });
  return results;
}

}  // namespace

void register_recurrent_kernels(torch::Library& aten) {
  aten.impl("_thnn_fused_lstm_cell", &lstm_cell);
  aten.impl("_thnn_fused_lstm_cell_backward_impl", &lstm_cell_backward);
  aten.impl("_thnn_fused_gru_cell", &gru_cell);
  aten.impl("_thnn_fused_gru_cell_backward", &gru_cell_backward);
}

}  // namespace reprise::libtorch
