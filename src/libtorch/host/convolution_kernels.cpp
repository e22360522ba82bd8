// SPDX-License-Identifier: Apache-2.0
#include "libtorch/host/convolution_kernels.h"

#include <ATen/core/Tensor.h>
#include <ATen/core/dispatch/Dispatcher.h>

#include <cstdint>
#include <vector>

#include "libtorch/host/fallback.h"

namespace reprise::libtorch {
namespace {

using torch::jit::Stack;

c10::OperatorHandle operator_named(const char* name) {
  return c10::Dispatcher::singleton().findSchemaOrThrow(name, "");
}

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

}  // namespace

void register_convolution_kernels(torch::Library& aten) {
  aten.impl("convolution_overrideable", torch::CppFunction::makeFromBoxedFunction<&convolution>());
  aten.impl("convolution_backward_overrideable", torch::CppFunction::makeFromBoxedFunction<&convolution_backward>());
}

}  // namespace reprise::libtorch
