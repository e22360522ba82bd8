// SPDX-License-Identifier: Apache-2.0
#include "libtorch/host/output_shapes.h"

#include <ATen/CPUGeneratorImpl.h>
#include <ATen/core/LegacyTypeDispatch.h>
#include <ATen/ops/empty_strided.h>
#include <c10/core/InferenceMode.h>
#include <c10/core/impl/LocalDispatchKeySet.h>

#include <mutex>
#include <optional>
#include <string>
#include <type_traits>
#include <unordered_map>
#include <unordered_set>
#include <utility>

#include "libtorch/host/operator_call.h"
#include "support/immortal.h"

namespace reprise::libtorch {
namespace {

// A stand-in for a tensor of the host device: the same sizes, strides and type. Filled with ones, which most operators
// accept: zeros are no probabilities, and no divisors. Integers are mostly indices: 0 is a valid one.
at::Tensor stand_in(const at::Tensor& tensor, c10::DeviceType where, int integer) {
  if (!is_here(tensor)) {
    if (!tensor.defined()) return tensor;
    return where == c10::DeviceType::Meta && tensor.dim() > 0 ? tensor.to(where) : kept_values(tensor);
  }
  at::Tensor made =
      at::empty_strided(tensor.sizes(), tensor.strides(), at::TensorOptions().dtype(tensor.dtype()).device(where));
  if (where == c10::DeviceType::CPU) made.fill_(c10::isIntegralType(tensor.scalar_type(), true) ? integer : 1);
  return made;
}

torch::jit::Stack stand_ins(std::size_t arguments, const torch::jit::Stack& stack, c10::DeviceType where,
                            int integer = 0) {
  torch::jit::Stack made;
  made.reserve(arguments);
  for (const c10::IValue& value : torch::jit::last(stack, arguments)) {
    if (value.isTensor()) {
      made.emplace_back(stand_in(value.toTensor(), where, integer));
    } else if (value.isTensorList()) {
      c10::List<at::Tensor> list;
      for (const at::Tensor& tensor : value.toTensorVector()) list.push_back(stand_in(tensor, where, integer));
      made.emplace_back(list);
    } else if (value.isOptionalTensorList()) {
      c10::List<std::optional<at::Tensor>> list;
      for (const std::optional<at::Tensor>& tensor : value.toOptionalTensorVector())
        list.push_back(tensor ? std::optional(stand_in(*tensor, where, integer)) : std::nullopt);
      made.emplace_back(list);
    } else if (value.isDevice()) {
      made.emplace_back(c10::Device(where));
    } else if (value.isGenerator()) {
      made.emplace_back();
    } else {
      made.push_back(value);
    }
  }
  return made;
}

// The key of a result as bytes: all that it depends on, or only types and numbers of dimensions. Compared as a whole,
// not by a hash.
class Key {
 public:
  enum class Of { everything, types };
  Key(const OperatorTraits& traits, const torch::jit::Stack& stack, Of of = Of::everything) : of_(of) {
    bytes_.reserve(256);
    add(&traits);
    for (const c10::IValue& value : torch::jit::last(stack, traits.arguments)) add_value(value);
  }
  /// nullopt if an argument cannot be stored in it.
  const std::string* get() const { return complete_ ? &bytes_ : nullptr; }

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
    if (of_ == Of::types) return add(tensor.dim());
    add_list(tensor.sizes());
    for (const std::int64_t stride : tensor.strides()) add(stride);
  }
  void add_value(const c10::IValue& value) {
    if (value.isTensor() || value.isTensorList() || value.isOptionalTensorList()) {
      add(value.isTensor() ? 't' : 'l');
      for_each_tensor(value, [&](const at::Tensor& tensor) { add_tensor(tensor); });
    } else if (value.isNone() || value.isGenerator() || value.isDevice()) {
      add('n');
    } else if (of_ == Of::types) {
      add(value.isInt() ? 'i' : value.isDouble() ? 'd' : 'o');
    } else if (value.isInt()) {
      add('i');
      add(value.toInt());
    } else if (value.isDouble()) {
      add('d');
      add(value.toDouble());
    } else if (value.isBool()) {
      add(value.toBool() ? 'y' : 'x');
    } else if (value.isIntList()) {
      add('I');
      add_list(value.toDimVector());
    } else if (value.isDoubleList()) {
      add('D');
      add_list(value.toDoubleVector());
    } else if (value.isBoolList()) {
      add('B');
      for (const bool each : value.toBoolList()) add(each);
    } else if (value.isString()) {
      add('s');
      add_list(value.toStringRef());
    } else if (value.isComplexDouble()) {
      add('c');
      add(value.toComplexDouble().real());
      add(value.toComplexDouble().imag());
    } else {
      complete_ = false;
    }
  }

  const Of of_;
  std::string bytes_;
  bool complete_ = true;
};

// Without memory, so that keeping it costs little.
at::Tensor without_values(const at::Tensor& tensor) {
  if (!tensor.defined() || tensor.is_meta()) return tensor;
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
    return called(op, stand_ins(traits.arguments, stack, c10::DeviceType::CPU));
  } catch (c10::Error& error) {
    try {  // ones: zeros fail as divisors of integers, and as numbers that count from one
      return called(op, stand_ins(traits.arguments, stack, c10::DeviceType::CPU, 1));
    } catch (const c10::Error&) {
    }
    error.add_context(traits.name + " refused its arguments, tried with tensors of ones (integers: zeros) on the CPU");
    throw;
  }
}

torch::jit::Stack from_one_run(const c10::OperatorHandle& op, const torch::jit::Stack& stack) {
  torch::jit::Stack results = called_on_cpu(op, stack);
  for (c10::IValue& value : results) {
    if (value.isTensor()) {
      value = without_values(value.toTensor());
    } else if (value.isTensorList()) {
      c10::List<at::Tensor> list;
      for (const at::Tensor& tensor : value.toTensorVector()) list.push_back(without_values(tensor));
      value = list;
    }
  }
  return results;
}

// Kernels with out= resize an output temporarily, and warn of it.
class WithoutResizing final : public c10::WarningHandler {
  void process(const c10::Warning& warning) override {
    if (warning.msg().rfind("An output with one or more elements was resized", 0) != 0) next_->process(warning);
  }
  c10::WarningHandler* const next_ = c10::WarningUtils::get_warning_handler();
};

// Calls accepted by the CPU's kernel, by types: most meta kernels check only sizes.
class KnownTypes {
 public:
  /// \throws c10::Error as the kernel.
  void require(const c10::OperatorHandle& op, const torch::jit::Stack& stack) {
    const std::string key = *Key(traits_of(op), stack, Key::Of::types).get();
    {
      const std::lock_guard lock(mutex_);
      if (known_.contains(key)) return;
    }
    static_cast<void>(called_on_cpu(op, stack));
    const std::lock_guard lock(mutex_);
    known_.insert(key);
  }

 private:
  std::mutex mutex_;
  std::unordered_set<std::string> known_;
};

torch::jit::Stack find(const c10::OperatorHandle& op, const torch::jit::Stack& stack) {
  static support::Immortal<KnownTypes> known_types;
  const c10::InferenceMode no_autograd(false);
  const at::AutoDispatchBelowADInplaceOrView below;
  const c10::impl::ExcludeDispatchKeyGuard no_autocast(c10::autocast_dispatch_keyset);
  WithoutResizing warnings;
  const c10::WarningUtils::WarningHandlerGuard quieter(&warnings);
  // Some in-place operators have meta kernels without checks.
  const bool in_place = op.operator_name().name.back() == '_';
  if (!in_place && (op.hasKernelForDispatchKey(c10::DispatchKey::Meta) ||
                    op.hasKernelForDispatchKey(c10::DispatchKey::CompositeExplicitAutograd))) {
    std::optional<torch::jit::Stack> results;
    try {
      results = called(op, stand_ins(op.schema().arguments().size(), stack, c10::DeviceType::Meta));
    } catch (const c10::NotImplementedError&) {
      // A composite kernel, a part of which has no meta kernel.
    }
    if (results) {
      known_types->require(op, stack);
      return *std::move(results);
    }
  }
  return from_one_run(op, stack);
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
  if (key.get() == nullptr) return find(op, stack);
  {
    const std::lock_guard lock(known->mutex);
    const auto found = known->results.find(*key.get());
    if (found != known->results.end()) return found->second;
  }
  torch::jit::Stack results = find(op, stack);
  const std::lock_guard lock(known->mutex);
  if (known->results.size() >= at_most) known->results.clear();
  return known->results.try_emplace(*key.get(), std::move(results)).first->second;
}

}  // namespace reprise::libtorch
