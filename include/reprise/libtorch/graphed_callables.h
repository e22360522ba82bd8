// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <torch/nn/module.h>
#include <torch/nn/modules/container/any.h>
#include <torch/nn/pimpl.h>

#include <cstddef>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <tuple>
#include <type_traits>
#include <utility>
#include <vector>

#include "reprise/libtorch/tensor_structures.h"
#include "reprise/memory.h"
#include "reprise/stream.h"

/// \file
/// make_graphed_callables: a part of a network as a graph, forward and backward, in a program that is eager else.

namespace reprise::libtorch {

/// Where the gradients lie that a graphed callable gives to autograd.
enum class Gradients {
  fresh,  ///< in new memory at each backward: they stay what they are, and can be added up over several backwards
  alias,  ///< in memory of the graph, as in PyTorch: the next backward or call of the same pool overwrites them
  /// Those of parameters are added to `.grad` by the graph itself, in memory that is theirs as long as the callable
  /// lives; those of arguments are as with `fresh`. Parameters stay outside of autograd then, and cost a call nothing:
  ///
  /// - A `.grad` that was set to none is not added to, and is there again after the next backward; set to zero, it is
  ///   added to. Another tensor in its place is added to as well, by eager work.
  /// - Hooks of parameters, and of the nodes that accumulate their gradients, are refused.
  /// - torch::autograd::grad(), and a backward for certain tensors only, leave `.grad` alone, and cannot ask for the
  ///   gradients of parameters.
  /// - Whoever keeps a `.grad` over the next backward keeps memory that this one changes.
  accumulate_in_graph,
};

/// Where the results of a graphed callable lie.
enum class Outputs {
  alias,  ///< in memory of the graph. The next call overwrites them, and using them in autograd or a graphed callable
          ///< is an error from then on
  copy,   ///< in new memory at each call
};

/// How graphed callables are made.
struct GraphedCallableOptions {
  int num_warmup_iters = 3;         ///< how often each callable runs eagerly, backward too, before it is captured
  bool allow_unused_input = false;  ///< arguments and parameters that need a gradient and get none are no error
  /// The memory pool of the graphs, for sharing it with others: an id of graph_pool_handle() or of CUDAGraph::pool().
  /// No id: a pool of their own.
  MempoolId pool = {};
  CaptureErrorMode capture_error_mode = CaptureErrorMode::global;  ///< what other calls may do meanwhile
  Gradients gradients = Gradients::fresh;                          ///< where gradients lie
  Outputs outputs = Outputs::alias;                                ///< where results lie
  /// As in GraphOptions, for both graphs: does each call look whether the memory is still there that they use and do
  /// not own, such as parameters, or tensors that a function keeps? If not, DeadInputError.
  bool check_input_liveness = false;
  bool enable_annotations = false;  ///< as in GraphOptions, for both graphs; the backward has those of the forward
  /// In which order the forwards and backwards of several callables will run: +1 is the forward of the first one, -1
  /// its backward. For pipelines, where other forwards come between the two; a callable that has several micro-batches
  /// underway is given several times. Nothing: all forwards, then all backwards in the reverse order.
  std::vector<int> order = {};
};

/// A function, and what it uses besides its arguments; with_parameters() and with_module() make it.
template <class F>
struct FunctionOf {
  F function;                                               ///< is called with the arguments
  std::vector<at::Tensor> parameters;                       ///< tensors that get gradients
  std::vector<std::shared_ptr<torch::nn::Module>> modules;  ///< whose parameters get gradients
};

/// A function that uses tensors which get gradients, besides its arguments.
template <class F>
FunctionOf<F> with_parameters(F function, std::vector<at::Tensor> parameters) {
  return {std::move(function), std::move(parameters), {}};
}

/// A function that uses a module: a holder, a shared_ptr, or an AnyModule. The module's parameters get gradients, its
/// buffers and its training mode are looked after. For modules whose `forward` is not called with the arguments as they
/// are, or does not return a tensor (AnyModule, Sequential).
template <class F, class Module>
FunctionOf<F> with_module(F function, const Module& module) {
  if constexpr (requires { module.ptr(); })
    return {std::move(function), {}, {module.ptr()}};
  else
    return {std::move(function), {}, {module}};
}

namespace detail {

class GraphedFunction;

// A callable, its types erased.
struct GraphedSource {
  std::string name;
  std::function<std::vector<at::Tensor>(const std::vector<at::Tensor>&)> run;
  std::vector<std::shared_ptr<torch::nn::Module>> modules;
  std::vector<at::Tensor> parameters;
  std::vector<at::Tensor> arguments;        // samples, flat
  std::vector<std::size_t> argument_sizes;  // tensors in each argument
};

std::vector<std::shared_ptr<GraphedFunction>> make_graphed(std::vector<GraphedSource> sources,
                                                           const GraphedCallableOptions& options);
bool training_mode_changed(const GraphedFunction& function);
std::vector<at::Tensor> call_graphed(const std::shared_ptr<GraphedFunction>& function,
                                     const std::vector<at::Tensor>& arguments);
const std::vector<at::Tensor>& static_arguments(const GraphedFunction& function);
[[noreturn]] void refuse_structure(const GraphedFunction& function, const std::string& expected,
                                   const std::string& found);

std::string name_of_source(const std::vector<std::shared_ptr<torch::nn::Module>>& modules);

[[noreturn]] void refuse_number(std::size_t callables, std::size_t samples);

template <class C>
struct IsFunctionOf : std::false_type {};
template <class F>
struct IsFunctionOf<FunctionOf<F>> : std::true_type {};

template <class C>
struct IsModulePointer : std::false_type {};
template <class M>
struct IsModulePointer<std::shared_ptr<M>> : std::is_base_of<torch::nn::Module, M> {};

template <class C, class... Args>
decltype(auto) call_source(C& callable, Args&... args) {
  if constexpr (IsFunctionOf<C>::value)
    return callable.function(args...);
  else if constexpr (std::is_same_v<C, torch::nn::AnyModule>)
    return callable.forward(args...);
  else if constexpr (torch::detail::is_module_holder<C>::value || IsModulePointer<C>::value)
    return callable->forward(args...);
  else
    return callable(args...);
}

template <class C>
void describe_source(const C& callable, GraphedSource& source) {
  if constexpr (IsFunctionOf<C>::value) {
    source.parameters = callable.parameters;
    source.modules = callable.modules;
  } else if constexpr (torch::detail::is_module_holder<C>::value || std::is_same_v<C, torch::nn::AnyModule>) {
    source.modules = {callable.ptr()};
  } else if constexpr (IsModulePointer<C>::value) {
    source.modules = {callable};
  }
  source.name = name_of_source(source.modules);
}

// The result of a callable that returns nothing.
struct Nothing {};
template <class F>
void for_each_tensor(Nothing& /*nothing*/, F&& /*f*/) {}

template <class Result>
using KeptResult = std::conditional_t<std::is_void_v<Result>, Nothing, Result>;

template <TensorStructure T>
void clear_tensors(T& structure) {
  for_each_tensor(structure, [](at::Tensor& tensor) { tensor = at::Tensor(); });
}

template <class C, class Arguments>
class GraphedCallableMaker;

// For tests and benchmarks.
struct GraphedAccess {
  template <class Callable>
  static const std::shared_ptr<GraphedFunction>& function_of(const Callable& callable) {
    return callable.state_->function;
  }
};

}  // namespace detail

/// What make_graphed_callables() makes of a callable: called like it, with arguments of the types of the samples, and
/// with the same results and gradients. A handle: copies are the same callable.
///
/// A call runs one graph on the calling thread's current stream, and its backward another one, as one node of
/// autograd. Modules are the same objects as before, parameters and buffers included. While a module, or a part of it,
/// is in another mode (`train()`, `eval()`) than it was when the graph was captured, calls run the original callable.
///
/// Callables that share a pool are used by one thread at a time, on streams that something orders. What a call returned
/// outlives the callable.
template <class Result, class... Args>
class GraphedCallable {
 public:
  /// Calls it. Arguments are copied into the memory that the graph reads, unless they are static_arguments(); those
  /// that the callable changes in place are copied back.
  /// \throws UsageError if arguments do not fit the samples in number, size, type, device or need of gradients (all of
  ///         them are listed); if one is a result that was overwritten since (Outputs::alias); if parameters were
  ///         moved, replaced, added or removed, or need a gradient where they did not, or the other way round; if
  ///         autocast is not as it was; if gradients are wanted and none were at the capture. backward() throws it if
  ///         another call has overwritten what it needs, at the second time, and when it should be differentiated
  ///         itself.
  Result operator()(Args... arguments) const {
    if (detail::training_mode_changed(*state_->function)) return state_->original(arguments...);
    std::tuple<Args...> all(std::move(arguments)...);
    detail::MatchingCollector collector(state_->shape);
    for_each_tensor(all, collector);
    if (!collector.matches()) [[unlikely]]
      refuse(all);
    const std::vector<at::Tensor> tensors = detail::call_graphed(state_->function, collector.tensors);
    if constexpr (!std::is_void_v<Result>) {
      Result result = **state_->result;
      for_each_tensor(result, detail::TensorAssigner(tensors));
      return result;
    }
  }

  /// The tensors that the graph reads, in the places of the arguments. Who writes new values into them and calls with
  /// them saves the copies. They live as long as the callable.
  std::tuple<Args...> static_arguments() const {
    std::tuple<Args...> all = state_->arguments;
    for_each_tensor(all, detail::TensorAssigner(detail::static_arguments(*state_->function)));
    return all;
  }

 private:
  template <class C, class Arguments>
  friend class detail::GraphedCallableMaker;
  friend struct detail::GraphedAccess;

  struct State {
    std::function<Result(Args&...)> original;
    std::shared_ptr<std::optional<detail::KeptResult<Result>>> result;  // without tensors
    std::tuple<Args...> arguments;                                      // without tensors
    detail::StructureShape shape;                                       // of the arguments
    std::shared_ptr<detail::GraphedFunction> function;
  };

  [[noreturn]] void refuse(std::tuple<Args...>& arguments) const {
    std::tuple<Args...> samples = state_->arguments;
    detail::StructureText expected, found;
    for_each_tensor(samples, expected);
    for_each_tensor(arguments, found);
    detail::refuse_structure(*state_->function, expected.text, found.text);
  }

  explicit GraphedCallable(std::shared_ptr<const State> state) : state_(std::move(state)) {}

  std::shared_ptr<const State> state_;
};

namespace detail {

template <class C, class... Args>
class GraphedCallableMaker<C, std::tuple<Args...>> {
 public:
  static_assert((TensorStructure<Args> && ...), "an argument is of a type that for_each_tensor() does not take");
  using Result = std::remove_cvref_t<decltype(call_source(std::declval<C&>(), std::declval<Args&>()...))>;
  using Kept = KeptResult<Result>;
  static_assert(TensorStructure<Kept>, "the result is of a type that for_each_tensor() does not take");
  using Made = GraphedCallable<Result, Args...>;

  GraphedCallableMaker(C callable, std::tuple<Args...> samples)
      : state_{nullptr, std::make_shared<std::optional<Kept>>(), samples, {}, nullptr} {
    describe_source(callable, source_);
    TensorCollector collector;
    ShapeRecorder recorder;
    for_each_tensor(samples, collector);
    for_each_tensor(samples, recorder);
    source_.arguments = std::move(collector.tensors);
    state_.shape = std::move(recorder.shape);
    std::apply([this](Args&... each) { (count_tensors(each), ...); }, samples);
    clear_tensors(state_.arguments);

    const auto shared = std::make_shared<C>(std::move(callable));
    state_.original = [shared](Args&... args) -> Result { return call_source(*shared, args...); };
    source_.run = [shared, arguments = state_.arguments, kept = state_.result](const std::vector<at::Tensor>& tensors) {
      std::tuple<Args...> all = arguments;
      for_each_tensor(all, TensorAssigner(tensors));
      const auto call = [&](Args&... each) -> Kept {
        if constexpr (!std::is_void_v<Result>)
          return call_source(*shared, each...);
        else
          return call_source(*shared, each...), Nothing{};
      };
      Kept result = std::apply(call, all);
      TensorCollector results;
      for_each_tensor(result, results);
      clear_tensors(result);
      kept->emplace(std::move(result));
      return std::move(results.tensors);
    };
  }

  GraphedSource take_source() { return std::move(source_); }
  Made finish(std::shared_ptr<GraphedFunction> function) {
    state_.function = std::move(function);
    return Made(std::make_shared<const typename Made::State>(std::move(state_)));
  }

 private:
  template <class T>
  void count_tensors(T& argument) {
    TensorCollector collector;
    for_each_tensor(argument, collector);
    source_.argument_sizes.push_back(collector.tensors.size());
  }

  typename Made::State state_;
  GraphedSource source_;
};

// Of values, also where the samples are tied references.
template <class... Args>
std::tuple<std::remove_cvref_t<Args>...> as_arguments(const std::tuple<Args...>& samples) {
  return samples;
}
template <class T>
std::tuple<T> as_arguments(T sample) {
  return std::tuple<T>(std::move(sample));
}

template <class C, class Samples>
auto graphed_maker(C callable, Samples samples) {
  using Arguments = decltype(as_arguments(std::move(samples)));
  return GraphedCallableMaker<C, Arguments>(std::move(callable), as_arguments(std::move(samples)));
}

}  // namespace detail

/// Captures a callable as two graphs, its forward and its backward, and returns what replays them (PyTorch's
/// `torch.cuda.make_graphed_callables`):
///
///     torch::nn::Sequential part(...);
///     const auto graphed = reprise::libtorch::make_graphed_callables(part, sample);
///     loss_of(graphed(x)).backward();
///
/// It runs `num_warmup_iters` times on a stream of its own, is captured there, and is as it was before: parameters,
/// gradients, buffers, the samples and the default generator are not changed. Grad mode and autocast are the caller's
/// at this time; the backward is captured without autocast.
///
/// Threads that do this at the same time wait for each other.
///
/// docs/graphed-callables.md says what such a callable must not do.
///
/// \param callable a module with `forward` (holder, shared_ptr or AnyModule), a function of tensors that uses none
///        which get gradients besides its arguments, or one of with_parameters() or with_module().
/// \param samples the arguments, as a tuple, or the one argument if there is but one: of the sizes, types, device and
///        need of gradients that calls will have. Their values are what the warm-up runs on.
/// \param options how.
/// \throws UsageError if the callable or the samples are of a kind that cannot be graphed; it says why. What the
///         callable itself throws goes on, with the callable and the phase (warm-up, capture) in its text. Nothing is
///         changed then.
template <class C, class Samples>
auto make_graphed_callables(C callable, Samples samples, const GraphedCallableOptions& options = {}) {
  auto maker = detail::graphed_maker(std::move(callable), std::move(samples));
  std::vector<detail::GraphedSource> sources;
  sources.push_back(maker.take_source());
  return maker.finish(detail::make_graphed(std::move(sources), options).front());
}

/// Several callables, whose graphs share one pool: a tuple of them, and a tuple of the samples of each. They run in
/// this order, and their backwards in the reverse one, or all in GraphedCallableOptions::order: another order is
/// refused where a graph would find its memory overwritten.
/// \returns a tuple of graphed callables.
template <class... Cs, class... Samples>
auto make_graphed_callables(std::tuple<Cs...> callables, std::tuple<Samples...> samples,
                            const GraphedCallableOptions& options = {}) {
  static_assert(sizeof...(Cs) == sizeof...(Samples), "each callable needs its samples");
  return [&]<std::size_t... I>(std::index_sequence<I...>) {
    std::tuple makers(detail::graphed_maker(std::move(std::get<I>(callables)), std::move(std::get<I>(samples)))...);
    std::vector<detail::GraphedSource> sources;
    (sources.push_back(std::get<I>(makers).take_source()), ...);
    auto made = detail::make_graphed(std::move(sources), options);
    return std::tuple(std::get<I>(makers).finish(std::move(made[I]))...);
  }
  (std::index_sequence_for<Cs...>());
}

/// Several callables of one type, with samples of one type.
/// \returns a vector of graphed callables.
template <class C, class Samples>
auto make_graphed_callables(std::vector<C> callables, std::vector<Samples> samples,
                            const GraphedCallableOptions& options = {}) {
  using Maker = decltype(detail::graphed_maker(std::move(callables.front()), std::move(samples.front())));
  std::vector<Maker> makers;
  std::vector<detail::GraphedSource> sources;
  for (std::size_t i = 0; i < callables.size() && i < samples.size(); ++i)
    sources.push_back(
        makers.emplace_back(detail::graphed_maker(std::move(callables[i]), std::move(samples[i]))).take_source());
  if (callables.size() != samples.size()) detail::refuse_number(callables.size(), samples.size());
  auto made = detail::make_graphed(std::move(sources), options);
  std::vector<typename Maker::Made> all;
  for (std::size_t i = 0; i < made.size(); ++i) all.push_back(makers[i].finish(std::move(made[i])));
  return all;
}

}  // namespace reprise::libtorch
