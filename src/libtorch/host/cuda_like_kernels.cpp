// SPDX-License-Identifier: Apache-2.0
#include "libtorch/host/cuda_like_kernels.h"

#include <ATen/TensorOperators.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/empty_like.h>
#include <ATen/ops/kaiser_window.h>
#include <ATen/ops/max.h>
#include <ATen/ops/median.h>
#include <ATen/ops/min.h>
#include <ATen/ops/nanmedian.h>
#include <ATen/ops/ones_like.h>
#include <ATen/ops/repeat_interleave.h>
#include <c10/core/DeviceGuard.h>
#include <torch/csrc/autograd/custom_function.h>

#include <array>
#include <cstdint>
#include <optional>
#include <tuple>
#include <utility>

#include "libtorch/host/fallback.h"
#include "libtorch/host/host_streams.h"
#include "libtorch/host/kernel_work.h"
#include "libtorch/host/operator_call.h"

namespace reprise::libtorch {
namespace {

using at::Tensor;
using torch::jit::Stack;

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

// --- Sizes and windows

// With a given size there is no wait.
void repeat_interleave(const c10::OperatorHandle& op, Stack* stack) {
  const c10::IValue size = stack->back();
  if (size.isNone()) return fallback(op, stack);
  const Tensor repeats = torch::jit::peek(*stack, 0, 2).toTensor();
  torch::jit::drop(*stack, 2);
  const c10::DeviceGuard guard(repeats.device());
  const std::int64_t count = size.toInt();
  const Tensor made = at::empty({count}, repeats.options());
  const TensorOperand from(repeats), to(made);
  enqueue_kernels(
      current_stream_of(repeats.device()), "aten::repeat_interleave.Tensor",
      [=] { to.on_cpu().copy_(at::repeat_interleave(from.on_cpu(), std::optional(count))); },
      std::array{from.access(false), to.access(true)});
  stack->emplace_back(made);
}

Tensor kaiser_window_beta(std::int64_t length, bool periodic, double beta, std::optional<c10::ScalarType> dtype,
                          std::optional<c10::Layout> layout, std::optional<c10::Device> device,
                          std::optional<bool> pinned) {
  Tensor made = at::empty({length}, dtype, layout, device, pinned, std::nullopt);
  const TensorOperand to(made);
  enqueue_kernels(
      current_stream_of(made.device()), "aten::kaiser_window",
      [=] { to.on_cpu().copy_(at::kaiser_window(length, periodic, beta, at::TensorOptions().dtype(to.dtype))); },
      std::array{to.access(true)});
  return made;
}

Tensor kaiser_window_periodic(std::int64_t length, bool periodic, std::optional<c10::ScalarType> dtype,
                              std::optional<c10::Layout> layout, std::optional<c10::Device> device,
                              std::optional<bool> pinned) {
  return kaiser_window_beta(length, periodic, 12, dtype, layout, device, pinned);
}

Tensor kaiser_window(std::int64_t length, std::optional<c10::ScalarType> dtype, std::optional<c10::Layout> layout,
                     std::optional<c10::Device> device, std::optional<bool> pinned) {
  return kaiser_window_beta(length, true, 12, dtype, layout, device, pinned);
}

// --- A maximum or minimum of all values: its gradient is split equally among all places with that value

template <Tensor (*Of)(const Tensor&)>
struct ValueOfAll : torch::autograd::Function<ValueOfAll<Of>> {
  static Tensor forward(torch::autograd::AutogradContext* context, const Tensor& self) {
    const at::AutoDispatchBelowADInplaceOrView below;
    const Tensor value = Of(self);
    context->save_for_backward({self, value});
    return value;
  }
  static torch::autograd::variable_list backward(torch::autograd::AutogradContext* context,
                                                 torch::autograd::variable_list gradients) {
    const auto saved = context->get_saved_variables();
    const Tensor &self = saved[0], &value = saved[1];
    const Tensor places = (self == value).logical_or(self.isnan().logical_and(value.isnan()));
    return {places * (gradients[0] / places.sum())};
  }
};

template <Tensor (*Of)(const Tensor&)>
Tensor value_of_all(const Tensor& self) {
  return ValueOfAll<Of>::apply(self);
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
  static const c10::OperatorHandle op = c10::Dispatcher::singleton().findSchemaOrThrow("aten::equal", "");
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

}  // namespace

void register_cuda_like_kernels(torch::Library& aten) {
  for (const char* name : {"addr", "addr.out", "all.dims", "all.dims_out", "any.dims", "any.dims_out", "linalg__powsum",
                           "mish_backward", "native_group_norm", "native_layer_norm", "silu_backward"})
    aten.impl(name, torch::CppFunction::makeFromBoxedFunction<&fallback>());
  aten.impl("index.Tensor", torch::CppFunction::makeFromBoxedFunction<&index>());
  aten.impl("_index_put_impl_", torch::CppFunction::makeFromBoxedFunction<&index_put>());
  aten.impl("repeat_interleave.Tensor", torch::CppFunction::makeFromBoxedFunction<&repeat_interleave>());
  aten.impl("equal", &equal);
  aten.impl("native_dropout", &native_dropout);
  aten.impl("native_dropout_backward", &native_dropout_backward);
  aten.impl("kaiser_window", &kaiser_window);
  aten.impl("kaiser_window.periodic", &kaiser_window_periodic);
  aten.impl("kaiser_window.beta", &kaiser_window_beta);
}

void register_cuda_like_autograd(torch::Library& aten_autograd) {
  aten_autograd.impl("max", &value_of_all<&at::max>);
  aten_autograd.impl("min", &value_of_all<&at::min>);
  aten_autograd.impl("median", &value_of_all<&at::median>);
  aten_autograd.impl("nanmedian", &value_of_all<&at::nanmedian>);
}

void register_lazy_views(torch::Library& aten) {
  aten.impl("_copy_from", torch::CppFunction::makeFallthrough());
}

}  // namespace reprise::libtorch
