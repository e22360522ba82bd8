// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <torch/nn/module.h>
#include <torch/nn/modules/container/any.h>
#include <torch/nn/modules/container/sequential.h>
#include <torch/nn/pimpl.h>

#include <concepts>
#include <cstddef>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>

#include "reprise/annotations.h"
#include "reprise/export.h"
#include "reprise/libtorch/install.h"

/// \file
/// Annotations with the names of modules.

namespace reprise::libtorch {

/// A scope that annotates with the name of a module, `{{"module", "encoder.0.linear"}}`: the names of the thread's
/// enclosing scopes of this class, joined with dots. Entered by annotated(). Otherwise as `annotate`: where nothing is
/// annotated it does nothing, and does not contribute to the names of inner scopes. Left on another thread, with the
/// warning of `annotate`, it changes no names there.
class [[nodiscard]] REPRISE_EXPORT annotate_module {
 public:
  /// \param name within the enclosing module, as passed to register_module().
  explicit annotate_module(std::string_view name);
  ~annotate_module();
  annotate_module(const annotate_module&) = delete;
  annotate_module& operator=(const annotate_module&) = delete;

  /// True while a capture with annotations is underway in the process. One relaxed load.
  static bool wanted() noexcept { return annotation_detail::annotated_captures.load(std::memory_order_relaxed) != 0; }

 private:
  std::optional<std::size_t> length_;  // of the thread's path before; none if this does nothing
  std::optional<annotate> scope_;
  const void* thread_ = nullptr;
};

/// The result of annotated(). Refers to the module.
template <class Impl>
class Annotated {
 public:
  /// For annotated().
  Annotated(std::string name, std::shared_ptr<Impl> module) : name_(std::move(name)), module_(std::move(module)) {}

  /// Calls the module's `forward`.
  template <class... Arguments>
  decltype(auto) operator()(Arguments&&... arguments) const {
    const annotate_module scope(name_);
    return module_->forward(std::forward<Arguments>(arguments)...);
  }

 private:
  std::string name_;
  std::shared_ptr<Impl> module_;
};

/// For the implementation of annotated().
namespace annotated_detail {

/// The name of a module in a Sequential.
REPRISE_EXPORT std::string name_of_child(const torch::nn::SequentialImpl& sequential, std::size_t number);
/// Runs the modules of a Sequential after the first one on its result, each in a scope of its name.
REPRISE_EXPORT torch::nn::AnyValue forward_rest(torch::nn::SequentialImpl& sequential, torch::nn::AnyValue value);

}  // namespace annotated_detail

/// The same for a Sequential, whose child modules are named, too. They run as in its `forward`.
template <>
class Annotated<torch::nn::SequentialImpl> {
 public:
  /// For annotated().
  Annotated(std::string name, std::shared_ptr<torch::nn::SequentialImpl> module)
      : name_(std::move(name)), module_(std::move(module)) {}

  /// Returns the result of the last module, a Result.
  template <class Result = torch::Tensor, class... Arguments>
  Result operator()(Arguments&&... arguments) const {
    if (!annotate_module::wanted() || module_->is_empty())
      return module_->template forward<Result>(std::forward<Arguments>(arguments)...);
    const annotate_module scope(name_);
    auto first = [&] {
      const annotate_module child(annotated_detail::name_of_child(*module_, 0));
      return module_->begin()->any_forward(std::forward<Arguments>(arguments)...);
    }();
    return annotated_detail::forward_rest(*module_, std::move(first)).template get<Result>();
  }

 private:
  std::string name_;
  std::shared_ptr<torch::nn::SequentialImpl> module_;
};

/// A module that annotates what its `forward` does with a name, `{{"module", name}}`; called like the module. Where
/// nothing is annotated, it does as the module.
///
///     torch::Tensor forward(torch::Tensor x) {                          // of the module around them
///       x = reprise::libtorch::annotated("encoder", encoder_)(x);       // module=encoder
///       return reprise::libtorch::annotated("head", head_)(x);          // module=head
///     }
///
/// The modules in a Sequential are named automatically: `encoder.0`, `encoder.1`. A user's module must name the modules
/// that its `forward` calls, since modules in C++ have no hooks; the names then match `named_modules()`.
template <class Impl>
Annotated<Impl> annotated(std::string name, const torch::nn::ModuleHolder<Impl>& module) {
  return {std::move(name), module.ptr()};
}
template <class Impl>
requires std::derived_from<Impl, torch::nn::Module> Annotated<Impl> annotated(std::string name,
                                                                              std::shared_ptr<Impl> module) {
  return {std::move(name), std::move(module)};
}

}  // namespace reprise::libtorch
