// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <torch/nn/module.h>
#include <torch/nn/modules/container/any.h>
#include <torch/nn/pimpl.h>

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <tuple>
#include <type_traits>
#include <utility>
#include <vector>

#include "reprise/detail/export.h"
#include "reprise/graph.h"
#include "reprise/libtorch/detail/install.h"
#include "reprise/libtorch/detail/tensor_structures.h"
#include "reprise/memory.h"
#include "reprise/stream.h"

/// \file
/// make_graphed_callables: a part of a network as a graph, forward and backward, in an otherwise eager program.

namespace reprise::libtorch {

/// The memory of the gradients that a graphed callable returns to autograd.
enum class Gradients {
  fresh,  ///< new memory at each backward: they stay valid, and can be accumulated over several backwards
  alias,  ///< memory of the graph, as in PyTorch: the next backward or call of the same pool overwrites them
};

/// The memory of the results of a graphed callable.
enum class Outputs {
  alias,  ///< memory of the graph. The next call overwrites them, and using them in autograd or a graphed callable is
          ///< an error from then on
  copy,   ///< new memory at each call
};

/// Options of make_graphed_callables().
struct GraphedCallableOptions {
  int num_warmup_iters = 3;         ///< eager runs of each callable, forward and backward, before its capture
  bool allow_unused_input = false;  ///< allows arguments and parameters that need a gradient and get none
  /// The memory pool of the graphs: an id of graph_pool_handle() or of CUDAGraph::pool(), to share it. The default id:
  /// a private pool.
  MempoolId pool = {};
  CaptureMode capture_error_mode = CaptureMode::global;  ///< which calls are allowed during the captures
  Gradients gradients = Gradients::fresh;
  Outputs outputs = Outputs::alias;
  /// As in GraphOptions, for both graphs: each call checks that memory which they use and do not own, such as
  /// parameters or tensors that a function keeps, was not freed, and throws DeadInputError otherwise.
  bool check_input_liveness = false;
  bool enable_annotations = false;  ///< as in GraphOptions, for both graphs; the backward has those of the forward
};

/// A function, and the tensors and modules it uses besides its arguments; made by with_parameters() and with_module().
template <class F>
struct FunctionOf {
  F function;
  std::vector<at::Tensor> parameters;                       ///< tensors that get gradients
  std::vector<std::shared_ptr<torch::nn::Module>> modules;  ///< modules whose parameters get gradients
};

/// Declares tensors besides the arguments that get gradients. Undefined ones are left out.
template <class F>
FunctionOf<F> with_parameters(F function, std::vector<at::Tensor> parameters) {
  return {std::move(function), std::move(parameters), {}};
}

/// Declares a module that the function uses: a holder, a shared_ptr, or an AnyModule. The module's parameters get
/// gradients, its buffers and its training mode are tracked. For modules whose `forward` is not called with the
/// arguments unchanged, or does not return a tensor (AnyModule, Sequential).
template <class F, class Module>
FunctionOf<F> with_module(F function, const Module& module) {
  if constexpr (requires { module.ptr(); })
    return {std::move(function), {}, {module.ptr()}};
  else
    return {std::move(function), {}, {module}};
}

namespace detail {

// A captured callable on flat rows of tensors.
class REPRISE_EXPORT GraphedFunction {
 public:
  virtual ~GraphedFunction() = default;
  // False if the modules are in another mode: then the original runs.
  virtual bool in_captured_mode() const = 0;
  virtual std::vector<at::Tensor> call(const std::vector<at::Tensor>& arguments) = 0;
  virtual const std::vector<at::Tensor>& static_arguments() const = 0;
  virtual CUDAGraph& forward_graph() = 0;
  // Throws UsageError if there is none.
  virtual CUDAGraph& backward_graph() = 0;
  virtual std::vector<const CUDAGraph*> graphs() const = 0;
  // The bytes that the framework's allocator took from its driver in the captures; of all callables that were made
  // together, the first one has them.
  virtual std::uint64_t captured_bytes() const noexcept = 0;
  // Throws UsageError if an argument that the callable changes in place shares memory with another one.
  virtual void check_changed_memory(const std::vector<at::Tensor>& arguments) const = 0;
  [[noreturn]] virtual void refuse_arguments(std::vector<std::string> differences,
                                             const std::vector<at::Tensor>& tensors) const = 0;
  [[noreturn]] virtual void refuse_mode() const = 0;
};

// A callable, its types erased.
struct GraphedSource {
  std::string name;
  std::function<std::vector<at::Tensor>(const std::vector<at::Tensor>&)> run;
  std::vector<std::shared_ptr<torch::nn::Module>> modules;
  std::vector<at::Tensor> parameters;
  std::vector<at::Tensor> arguments;             // samples, flat
  std::vector<std::size_t> argument_sizes;       // tensors in each argument
  std::string maker = "make_graphed_callables";  // for errors
  std::string full_name;                         // for errors; empty: "callable 0 (name)"
  std::vector<at::Tensor> state;                 // restored after the warm-up, besides arguments and buffers
  bool runs_hooks = false;                       // those of parameters, in warm-up and capture
};

// The device of the arguments, or else of the parameters; the CPU only if all are there.
// None without tensors.
REPRISE_EXPORT std::optional<c10::Device> device_of_source(const GraphedSource& source);

REPRISE_EXPORT std::vector<std::shared_ptr<GraphedFunction>> make_graphed(std::vector<GraphedSource> sources,
                                                                          const GraphedCallableOptions& options);

REPRISE_EXPORT std::string name_of_source(const std::vector<std::shared_ptr<torch::nn::Module>>& modules,
                                          const std::string& maker);

[[noreturn]] REPRISE_EXPORT void refuse_number(std::size_t callables, std::size_t samples);

template <class C>
concept ModulePointer = std::is_convertible_v<C, std::shared_ptr<torch::nn::Module>>;

template <class C, class... Args>
decltype(auto) call_source(C& callable, Args&... args) {
  if constexpr (is_a<C, FunctionOf>)
    return callable.function(args...);
  else if constexpr (std::is_same_v<C, torch::nn::AnyModule>)
    return callable.forward(args...);
  else if constexpr (torch::detail::is_module_holder<C>::value || ModulePointer<C>)
    return callable->forward(args...);
  else
    return callable(args...);
}

template <class C>
void describe_source(const C& callable, GraphedSource& source) {
  if constexpr (is_a<C, FunctionOf>) {
    source.parameters = callable.parameters;
    source.modules = callable.modules;
  } else if constexpr (torch::detail::is_module_holder<C>::value || std::is_same_v<C, torch::nn::AnyModule>) {
    source.modules = {callable.ptr()};
  } else if constexpr (ModulePointer<C>) {
    source.modules = {callable};
  }
  source.name = name_of_source(source.modules, source.maker);
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

template <class Result, class... Args>
struct GraphedState {
  std::function<Result(Args&...)> original;
  std::shared_ptr<std::optional<KeptResult<Result>>> result;  // without tensors
  std::tuple<Args...> arguments;                              // the samples, without tensors
  StructureShape shape;                                       // of the arguments
  std::shared_ptr<GraphedFunction> function;
};

// Access to the implementation of a GraphedCallable or GraphedStep.
struct GraphedAccess {
  template <class Callable, class State>
  static Callable make(State state) {
    return Callable(std::make_shared<const State>(std::move(state)));
  }
  template <class Callable>
  static const GraphedFunction& function(const Callable& callable) {
    return *callable.state_->function;
  }
};

}  // namespace detail

/// The result of make_graphed_callables() for one callable: called like it, with arguments of the types of the samples,
/// with the same results and gradients. A handle: copies are the same callable.
///
/// A call runs one graph on the calling thread's current stream, and its backward another one, as one node of
/// autograd. Modules are the same objects as before, parameters and buffers included. While a module, or a part of it,
/// is in another mode (`train()`, `eval()`) than at the capture, calls run the original callable.
///
/// Callables that share a pool may be used by one thread at a time, on ordered streams. Results of a call outlive the
/// callable.
template <class Result, class... Args>
class GraphedCallable {
 public:
  /// The same callable. A move copies, too: a moved-from callable can be called as before.
  GraphedCallable(const GraphedCallable&) = default;
  GraphedCallable& operator=(const GraphedCallable&) = default;

  /// Runs the graph. Arguments are copied into the memory that the graph reads, unless they are static_arguments();
  /// those that the callable changes in place are copied back.
  /// \throws UsageError if arguments do not fit the samples in number, size, type, device, need of gradients, or value
  ///         (numbers and what else is no tensor); all of them are listed; if one is a result that was overwritten
  ///         since (Outputs::alias); if parameters were moved, replaced, added or removed, or need a gradient where
  ///         they did not, or the other way round; if autocast is not as it was; if gradients are wanted and none were
  ///         at the capture; if another call of it has not returned. backward() throws it if another call has
  ///         overwritten what it needs, if it is called a second time, and with create_graph.
  Result operator()(Args... arguments) const {
    if (!state_->function->in_captured_mode()) return state_->original(arguments...);
    std::tuple<Args...> all(std::move(arguments)...);
    detail::MatchingCollector collector(state_->shape);
    for_each_tensor(all, collector);
    if (!collector.matches()) [[unlikely]]
      refuse(all, collector.tensors);
    const std::vector<at::Tensor> tensors = state_->function->call(collector.tensors);
    if constexpr (!std::is_void_v<Result>) {
      Result result = **state_->result;
      for_each_tensor(result, detail::TensorAssigner(tensors));
      return result;
    }
  }

  /// The tensors that the graph reads, in the order of the arguments. Writing new values into them and passing them
  /// avoids the copies. They live as long as the callable.
  std::tuple<Args...> static_arguments() const {
    std::tuple<Args...> all = state_->arguments;
    for_each_tensor(all, detail::TensorAssigner(state_->function->static_arguments()));
    return all;
  }

  /// The graph of the forward, captured in the mode (`train()`, `eval()`) that the modules were in: in another mode
  /// calls run the original, and no graph. It is there to look at (CUDAGraph::annotations(), inputs(), node_count(),
  /// debug_dump() and so on), for hooks of its replays, for ReplayTimer, and to retain objects. Calls of this callable
  /// launch it, and the end of this callable releases it: replay(), time_replay() and reset() throw UsageError. It must
  /// not be moved from or assigned to. The reference is valid as long as the callable or a copy of it lives.
  CUDAGraph& forward_graph() const { return state_->function->forward_graph(); }

  /// The same of the backward, which autograd launches: hooks of its replays run on autograd's thread.
  /// \throws UsageError if there is none: it was captured without grad mode, or no result needs a gradient.
  CUDAGraph& backward_graph() const { return state_->function->backward_graph(); }

 private:
  friend struct detail::GraphedAccess;
  using State = detail::GraphedState<Result, Args...>;

  void refuse(std::tuple<Args...>& arguments, const std::vector<at::Tensor>& tensors) const {
    std::tuple<Args...> samples = state_->arguments;
    std::vector<std::string> differences;
    [&]<std::size_t... I>(std::index_sequence<I...>) {
      (detail::add_difference(differences, I, std::get<I>(samples), std::get<I>(arguments)), ...);
    }
    (std::index_sequence_for<Args...>());
    state_->function->refuse_arguments(std::move(differences), tensors);
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
    ShapeRecorder recorder;
    const auto record = [&](auto& argument) {
      const std::size_t before = recorder.tensors.size();
      visit_element(argument, recorder);
      source_.argument_sizes.push_back(recorder.tensors.size() - before);
    };
    std::apply([&](Args&... each) { (record(each), ...); }, samples);
    source_.arguments = std::move(recorder.tensors);
    state_.shape = std::move(recorder.shape);
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
    return GraphedAccess::make<Made>(std::move(state_));
  }

 private:
  GraphedState<Result, Args...> state_;
  GraphedSource source_;
};

// Returns the samples as values, also where they are tied references.
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
/// The callable runs `num_warmup_iters` times on an internal stream, is captured there, and is then restored:
/// parameters, gradients, buffers, the samples and the default generator are unchanged. Grad mode and autocast are
/// those of the caller; the backward is captured without autocast.
///
/// Concurrent calls are serialised.
///
/// docs/graphed-callables.md says what such a callable must not do.
///
/// \param callable a module with `forward` (holder, shared_ptr or AnyModule), a function of tensors that uses none
///        which get gradients besides its arguments, or one of with_parameters() or with_module().
/// \param samples the arguments as a tuple, or a single argument: with the sizes, types, device and need of gradients
///        that later calls have. The warm-up runs on their values.
/// \param options see there.
/// \throws UsageError if the callable or the samples are of a kind that cannot be graphed; it says why. Exceptions of
///         the callable propagate, with the callable and the phase (warm-up, capture) in their text. Nothing is changed
///         then.
template <class C, class Samples>
auto make_graphed_callables(C callable, Samples samples, const GraphedCallableOptions& options = {}) {
  return std::get<0>(
      make_graphed_callables(std::tuple<C>(std::move(callable)), std::tuple<Samples>(std::move(samples)), options));
}

/// Several callables, whose graphs share one pool: a tuple of them, and a tuple of the samples of each. They run in
/// this order, and their backwards in the reverse one: another order is refused where a graph would find its memory
/// overwritten. Callables that are made one by one have pools of their own, and run in any order.
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
