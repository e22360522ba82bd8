// SPDX-License-Identifier: Apache-2.0
#include "libtorch/host/convolution_kernels.h"

#include <ATen/core/Tensor.h>
#include <ATen/core/dispatch/Dispatcher.h>

#include <cstdint>
#include <vector>

#include "libtorch/host/fallback.h"

namespace reprise::libtorch {
namespace {

using at::Tensor;
using torch::jit::Stack;

c10::OperatorHandle operator_named(const char* name) {
  return c10::Dispatcher::singleton().findSchemaOrThrow(name, "");
}

// --- Convolutions: `aten::convolution` calls these on a device unknown to libtorch -----------------------------------

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

// --- Equal -----------------------------------------------------------------------------------------------------------

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

}  // namespace

void register_network_kernels(torch::Library& aten) {
  aten.impl("convolution_overrideable", torch::CppFunction::makeFromBoxedFunction<&convolution>());
  aten.impl("convolution_backward_overrideable", torch::CppFunction::makeFromBoxedFunction<&convolution_backward>());
  aten.impl("equal", &equal);
}

}  // namespace reprise::libtorch
