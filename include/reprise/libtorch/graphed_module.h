// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <torch/nn/module.h>
#include <torch/nn/modules/container/any.h>
#include <torch/nn/pimpl.h>

#include <memory>
#include <optional>
#include <ostream>
#include <tuple>
#include <type_traits>
#include <utility>
#include <vector>

#include "reprise/export.h"
#include "reprise/libtorch/graphed_callables.h"
#include "reprise/libtorch/install.h"

/// \file
/// GraphedModule: a graphed callable as a module, for a Sequential or in place of the original.

namespace reprise::libtorch {

namespace detail {

/// A module with the parameters, buffers and children of another one, under the same names, which does all that is
/// virtual by that one, the original, and keeps their memory.
class REPRISE_EXPORT ModuleStandIn : public torch::nn::Module {
 public:
  /// \throws UsageError for a null pointer.
  explicit ModuleStandIn(std::shared_ptr<torch::nn::Module> original);

  void train(bool on = true) override { original_->train(on); }
  bool is_training() const noexcept override { return original_->is_training(); }
  void zero_grad(bool set_to_none = true) override { original_->zero_grad(set_to_none); }
  bool is_serializable() const override { return original_->is_serializable(); }
  void save(torch::serialize::OutputArchive& archive) const override { original_->save(archive); }

  /// Copies the values of the archive into the memory of the parameters and buffers, also from another device.
  /// \throws UsageError if one has another size, or on the same device another type. Then, and if the archive does not
  ///         fit, nothing is changed.
  void load(torch::serialize::InputArchive& archive) override;

  /// Does nothing if parameters and buffers are of this device and type. Whole numbers may stay what they are.
  /// \throws UsageError otherwise: conversions give them other memory.
  void to(torch::Device device, torch::Dtype dtype, bool non_blocking = false) override;
  void to(torch::Dtype dtype, bool non_blocking = false) override;
  void to(torch::Device device, bool non_blocking = false) override;

  /// \throws UsageError always: clone the original, and make a GraphedModule of the clone.
  std::shared_ptr<torch::nn::Module> clone(const std::optional<torch::Device>& device = std::nullopt) const override;

  void pretty_print(std::ostream& stream) const override;

 protected:
  template <class M, class... Args>
  friend struct torch::nn::AnyModuleHolder;
  // Functions that FORWARD_HAS_DEFAULT_ARGS declares.
  bool _forward_has_default_args() override;
  unsigned int _forward_num_required_args() override;
  std::vector<torch::nn::AnyValue> _forward_populate_default_args(
      std::vector<torch::nn::AnyValue>&& arguments) override;

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
/// into the memory that the graphs use. A conversion (`to()`) would move the parameters elsewhere, and is refused
/// unless there is nothing to convert; so is `clone()`. Everything else is done by the original.
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
    std::erase_if(captured_, &detail::GraphedAccess::in_captured_mode<Callable>);
    captured_.push_back(std::move(made));
  }

  /// As GraphedCallable::operator().
  std::remove_cvref_t<Result> forward(Args... arguments) { return of_this_mode()(std::forward<Args>(arguments)...); }

  /// The graphed callable of the mode that the module is in now, for its graphs and static arguments.
  /// \throws UsageError if there is no capture of this mode.
  const Callable& callable() const {
    const Callable& found = of_this_mode();
    if (!detail::GraphedAccess::in_captured_mode(found)) refuse_mode();
    return found;
  }

  const std::shared_ptr<M>& original() const { return original_; }

 private:
  // If there is none, any: it runs the original.
  const Callable& of_this_mode() const {
    for (std::size_t i = 0; i + 1 < captured_.size(); ++i)
      if (detail::GraphedAccess::in_captured_mode(captured_[i])) return captured_[i];
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
