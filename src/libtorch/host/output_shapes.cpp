// SPDX-License-Identifier: Apache-2.0
#include "libtorch/host/output_shapes.h"

#include <ATen/CPUGeneratorImpl.h>
#include <ATen/core/LegacyTypeDispatch.h>
#include <ATen/ops/empty_strided.h>
#include <c10/core/InferenceMode.h>
#include <c10/core/impl/LocalDispatchKeySet.h>

#include <mutex>
#include <optional>
#include <sstream>
#include <string>
#include <type_traits>
#include <unordered_map>
#include <utility>

#include "libtorch/host/operator_call.h"
#include "support/immortal.h"

namespace reprise::libtorch {
namespace {

// A stand-in on the CPU for a tensor of the host device: the same sizes, strides and type. Filled with ones, which most
// operators accept: zeros are no probabilities, and no divisors. Integers are mostly indices: 0 is a valid one.
at::Tensor stand_in(const at::Tensor& tensor, int integer) {
  if (!is_here(tensor)) return tensor.defined() ? kept_values(tensor) : tensor;
  at::Tensor made = at::empty_strided(tensor.sizes(), tensor.strides(), at::TensorOptions().dtype(tensor.dtype()));
  return made.fill_(c10::isIntegralType(tensor.scalar_type(), true) ? integer : 1);
}

torch::jit::Stack stand_ins(std::size_t arguments, const torch::jit::Stack& stack, int integer) {
  torch::jit::Stack made;
  made.reserve(arguments);
  for (const c10::IValue& value : torch::jit::last(stack, arguments)) {
    if (value.isDevice())
      made.emplace_back(c10::Device(c10::DeviceType::CPU));
    else if (value.isGenerator())
      made.emplace_back();
    else
      made.push_back(with_tensors(value, [&](const at::Tensor& tensor) { return stand_in(tensor, integer); }));
  }
  return made;
}

// The key of a result as bytes: all that it depends on. Compared as a whole, not by a hash.
class Key {
 public:
  Key(const OperatorTraits& traits, const torch::jit::Stack& stack) {
    bytes_.reserve(256);
    add(&traits);
    for (const c10::IValue& value : torch::jit::last(stack, traits.arguments)) add_value(value);
  }
  const std::string& get() const { return bytes_; }

 private:
  template <class T>
  void add(const T& value) {
    static_assert(std::is_trivially_copyable_v<T>);
    bytes_.append(reinterpret_cast<const char*>(&value), sizeof value);
  }
  template <class T>
  void add_list(const T& list) {
    add(list.size());
    for (const auto& each : list) add(each);
  }
  void add_tensor(const at::Tensor& tensor) {
    if (!tensor.defined()) return add('-');
    add(is_here(tensor) ? 'T' : 'C');
    add(tensor.scalar_type());
    add(tensor.unsafeGetTensorImpl()->is_wrapped_number());
    add_list(tensor.sizes());
    for (const std::int64_t stride : tensor.strides()) add(stride);
  }
  void add_value(const c10::IValue& value) {
    if (value.isTensor() || value.isTensorList() || value.isOptionalTensorList()) {
      add(value.isTensor() ? 't' : 'l');
      for_each_tensor(value, [&](const at::Tensor& tensor) { add_tensor(tensor); });
    } else if (value.isNone() || value.isGenerator() || value.isDevice()) {
      add('n');
    } else {
      std::ostringstream text;
      text << value.tagKind() << ' ' << value;
      add_list(text.str());
    }
  }

  std::string bytes_;
};

// Without memory, so that keeping it costs little.
at::Tensor without_values(const at::Tensor& tensor) {
  if (!tensor.defined()) return tensor;
  TORCH_CHECK(tensor.layout() == c10::kStrided && !tensor.is_quantized(),
              "The host device has dense tensors of plain types only, found layout ", tensor.layout(), " of ",
              tensor.scalar_type());
  return at::empty_strided(tensor.sizes(), tensor.strides(), tensor.options().device(at::kMeta));
}

// Keeps the arguments until the results exist: operators with several out= arguments return references to them, which
// libtorch resolves after it has dropped the arguments.
torch::jit::Stack called(const c10::OperatorHandle& op, const torch::jit::Stack& arguments) {
  torch::jit::Stack stack = arguments;
  // The draw of this run must not advance the CPU's default generator.
  if (const auto generator = traits_of(op).generator) stack[*generator] = at::make_generator<at::CPUGeneratorImpl>();
  op.callBoxed(&stack);
  return stack;
}

torch::jit::Stack called_on_cpu(const c10::OperatorHandle& op, const torch::jit::Stack& stack) {
  const OperatorTraits& traits = traits_of(op);
  try {
    return called(op, stand_ins(traits.arguments, stack, 0));
  } catch (c10::Error& error) {
    try {  // ones: zeros fail as divisors of integers, and as numbers that count from one
      return called(op, stand_ins(traits.arguments, stack, 1));
    } catch (const c10::Error&) {
    }
    error.add_context(traits.name + " refused its arguments, tried with tensors of ones (integers: zeros) on the CPU");
    throw;
  }
}

// Kernels with out= resize an output temporarily, and warn of it.
class WithoutResizing final : public c10::WarningHandler {
  void process(const c10::Warning& warning) override {
    if (warning.msg().rfind("An output with one or more elements was resized", 0) != 0) next_->process(warning);
  }
  c10::WarningHandler* const next_ = c10::WarningUtils::get_warning_handler();
};

torch::jit::Stack find(const c10::OperatorHandle& op, const torch::jit::Stack& stack) {
  const c10::InferenceMode no_autograd(false);
  const at::AutoDispatchBelowADInplaceOrView below;
  const c10::impl::ExcludeDispatchKeyGuard no_autocast(c10::autocast_dispatch_keyset);
  WithoutResizing warnings;
  const c10::WarningUtils::WarningHandlerGuard quieter(&warnings);
  torch::jit::Stack results = called_on_cpu(op, stack);
  for (c10::IValue& value : results) value = with_tensors(value, &without_values);
  return results;
}

}  // namespace

torch::jit::Stack output_shapes(const c10::OperatorHandle& op, const torch::jit::Stack& stack) {
  struct Known {
    std::mutex mutex;
    std::unordered_map<std::string, torch::jit::Stack> results;
  };
  static support::Immortal<Known> known;
  constexpr std::size_t at_most = 65536;  // then cleared: programs with ever new sizes must not grow
  const Key key(traits_of(op), stack);
  {
    const std::lock_guard lock(known->mutex);
    const auto found = known->results.find(key.get());
    if (found != known->results.end()) return found->second;
  }
  torch::jit::Stack results = find(op, stack);
  const std::lock_guard lock(known->mutex);
  if (known->results.size() >= at_most) known->results.clear();
  return known->results.try_emplace(key.get(), std::move(results)).first->second;
}

}  // namespace reprise::libtorch
