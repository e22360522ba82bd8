// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <torch/nn/module.h>
#include <torch/nn/modules/container/any.h>
#include <torch/nn/pimpl.h>

#include <memory>
#include <optional>
#include <tuple>
#include <type_traits>
#include <utility>
#include <vector>

#include "reprise/detail/export.h"
#include "reprise/libtorch/detail/install.h"
#include "reprise/libtorch/graphed_callables.h"

/// \file
/// GraphedModule: a graphed callable as a module, for a Sequential or in place of the original.

namespace reprise::libtorch {

namespace detail {

/// A module with the parameters, buffers and children of another one, the original, under the same names, whose memory
/// it keeps in a load.
class REPRISE_EXPORT ModuleStandIn : public torch::nn::Module {
 public:
  /// \throws UsageError for a null pointer.
  explicit ModuleStandIn(std::shared_ptr<torch::nn::Module> original);

  void train(bool on = true) override { original_->train(on); }
  bool is_training() const noexcept override { return original_->is_training(); }

  /// Copies the values of the archive into the memory of the parameters and buffers, also from another device or type.
  /// \throws UsageError if one has another size. Then, and if the archive does not fit, nothing is changed.
  void load(torch::serialize::InputArchive& archive) override;

  /// \throws UsageError always: clone the original, and make a GraphedModule of the clone.
  std::shared_ptr<torch::nn::Module> clone(const std::optional<torch::Device>& device = std::nullopt) const override;

 protected:
  [[noreturn]] void refuse_mode() const;

 private:
  void clone_(torch::nn::Module& other, const std::optional<torch::Device>& device) override;

  std::shared_ptr<torch::nn::Module> original_;
};

template <class Forward>
struct SignatureOf;
template <class Result, class C, class... Args>
struct SignatureOf<Result (C::*)(Args...)> {
  using Signature = Result(Args...);
};
template <class Result, class C, class... Args>
struct SignatureOf<Result (C::*)(Args...) const> {
  using Signature = Result(Args...);
};

template <class M>
concept HasOneForward = requires {
  &M::forward;
};

// The types of a module's forward. A template, as that of a Sequential, is called with a tensor and returns one.
template <class M>
struct ForwardOf {
  using Signature = at::Tensor(at::Tensor);
};
template <HasOneForward M>
struct ForwardOf<M> : SignatureOf<decltype(&M::forward)> {};

template <class M>
struct ImplOf {
  using Impl = M;
};
template <class M>
requires torch::detail::is_module_holder<M>::value struct ImplOf<M> {
  using Impl = typename M::ContainedType;
};

}  // namespace detail

template <class M, class Signature = typename detail::ForwardOf<M>::Signature>
class GraphedModuleImpl;

/// The module that a GraphedModule holds.
///
/// A stand-in for the original, with its `forward`, which replays graphs, and with its parameters, buffers and
/// children, the same objects under the same names: an archive saved from one loads into the other. `load()` copies
/// into the memory that the graphs use. `clone()` is refused. A conversion (`to()`) moves the parameters elsewhere, and
/// the next call is refused: convert first, and make the GraphedModule afterwards.
///
/// `train()` and `eval()` switch between the captures, of which there may be one for each mode: that of the
/// constructor, and those of capture(). In a mode without one the original runs.
///
/// Threads, streams and lifetimes are those of GraphedCallable.
template <class M, class Result, class... Args>
class GraphedModuleImpl<M, Result(Args...)> : public detail::ModuleStandIn {
 public:
  using Callable = GraphedCallable<std::remove_cvref_t<Result>, std::remove_cvref_t<Args>...>;
  /// The arguments of `forward`; a single one may be passed as it is.
  using Samples = std::tuple<std::remove_cvref_t<Args>...>;

  /// Captures the original in the mode that it is in, by make_graphed_callables().
  /// \param original a holder or shared_ptr.
  /// \param samples arguments like those of later calls.
  /// \param options those of make_graphed_callables().
  GraphedModuleImpl(const torch::nn::ModuleHolder<M>& original, Samples samples,
                    const GraphedCallableOptions& options = {})
      : ModuleStandIn(original.is_empty() ? nullptr : original.ptr()), original_(original.ptr()) {
    capture(std::move(samples), options);
  }

  /// Captures the original in the mode that it is in now, in addition to those of other modes. A capture of this mode
  /// is replaced; if make_graphed_callables() throws, it stays.
  void capture(Samples samples, const GraphedCallableOptions& options = {}) {
    Callable made = make_graphed_callables(original_, std::move(samples), options);
    std::erase_if(captured_, &is_of_this_mode);
    captured_.push_back(std::move(made));
  }

  /// As GraphedCallable::operator().
  std::remove_cvref_t<Result> forward(Args... arguments) { return of_this_mode()(std::forward<Args>(arguments)...); }

  /// The graphed callable of the mode that the module is in now, for its graphs and static arguments.
  /// \throws UsageError if there is no capture of this mode.
  const Callable& callable() const {
    const Callable& found = of_this_mode();
    if (!is_of_this_mode(found)) refuse_mode();
    return found;
  }

  const std::shared_ptr<M>& original() const { return original_; }

 private:
  static bool is_of_this_mode(const Callable& callable) {
    return detail::GraphedAccess::function(callable).in_captured_mode();
  }

  // If there is none, any: it runs the original.
  const Callable& of_this_mode() const {
    for (std::size_t i = 0; i + 1 < captured_.size(); ++i)
      if (is_of_this_mode(captured_[i])) return captured_[i];
    return captured_.back();
  }

  std::shared_ptr<M> original_;
  std::vector<Callable> captured_;  // never empty
};

/// A graphed callable that is a module: a holder, to be used as that of the original.
///
///     MLP mlp(...);
///     mlp->to(device);
///     torch::nn::Sequential network(torch::nn::Linear(784, 256), reprise::libtorch::GraphedModule(mlp, sample),
///                                   torch::nn::Linear(256, 10));
///
/// The constructors are those of GraphedModuleImpl. `sample` needs a gradient (`requires_grad_()`) if what calls pass
/// has one, as here, in the middle of a network.
template <class M>
class GraphedModule : public torch::nn::ModuleHolder<GraphedModuleImpl<typename detail::ImplOf<M>::Impl>> {
 public:
  using Impl = GraphedModuleImpl<typename detail::ImplOf<M>::Impl>;
  using torch::nn::ModuleHolder<Impl>::ModuleHolder;
};

template <class M, class Samples>
GraphedModule(M, Samples, const GraphedCallableOptions& = {}) -> GraphedModule<M>;
template <class M, class Samples>
GraphedModule(std::shared_ptr<M>, Samples, const GraphedCallableOptions& = {}) -> GraphedModule<M>;

}  // namespace reprise::libtorch
