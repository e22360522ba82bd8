// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <ATen/core/Tensor.h>
#include <ATen/core/grad_mode.h>
#include <torch/optim/optimizer.h>

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <tuple>
#include <type_traits>
#include <utility>
#include <variant>
#include <vector>

#include "reprise/detail/export.h"
#include "reprise/libtorch/detail/install.h"
#include "reprise/libtorch/grad_scaler.h"
#include "reprise/libtorch/graphed_callables.h"

/// \file
/// graphed_step: forward, loss, backward, gradient clipping and the optimizer's step as one graph: docs/training.md.

namespace reprise::libtorch {

namespace optim::detail {
class OptimizerCore;
}

/// Clips gradients by their norm, as clip_grad_norm_().
struct ClipNorm {
  double max_norm;       ///< zero or more
  double norm_type = 2;  ///< above zero; infinity for the maximum
};

/// Clips each value of gradients, as clip_grad_value_().
struct ClipValue {
  double limit;  ///< zero or more
};

/// Options of graphed_step().
struct GraphedStepOptions {
  /// Scales the loss, and skips steps whose gradients are not finite. Must live until graphed_step() returns.
  GradScaler* scaler = nullptr;
  std::variant<std::monostate, ClipNorm, ClipValue> clip = {};  ///< the gradients of all parameters of the optimizer
  /// Calls for one step of the optimizer, each with a micro-batch. The gradients are those of the mean of their losses.
  int accumulate = 1;
  /// Runs before the captures; what they change is restored. With `accumulate`, each graph has its own, one after the
  /// other, so that gradients in them are sums of several runs.
  int warmup = 3;
  /// Runs model and loss under autocast to this type; the backward and the optimizer run without.
  std::optional<c10::ScalarType> autocast = {};
  /// Called in each capture, and in each run of the warm-up, that ends in a step of the optimizer: after the backward
  /// of the last micro-batch, before gradients are unscaled and clipped. For work on gradients, such as an all-reduce.
  std::function<void()> after_backward = {};
  /// As in GraphedCallableOptions.
  MempoolId pool = {};
  CaptureMode capture_error_mode = CaptureMode::global;  ///< which calls are allowed during the captures
  bool check_input_liveness = false;                     ///< as in GraphOptions
  bool enable_annotations = false;                       ///< as in GraphOptions
};

namespace detail {

/// Contents of the graphs of a step, and which of them is next.
///
/// A step over k micro-batches has up to three graphs, which share a pool:
///
///     first     its backward makes the gradients, in memory of the graph     none for k = 1
///     between   adds to them                                                 none for k < 3
///     last      adds to them, or makes them for k = 1; then the optimizer's step
///
/// So gradients are never set to zero: as in eager code after zero_grad(), the first backward of a step replaces them.
///
///     StepPlan()  checks the options
///     make()      warms up and captures, which calls run() for each graph
///     calls       next_graph(), a replay, called()
///
/// Optimizer, scaler and options are used until the end of make() only. One thread at a time.
class REPRISE_EXPORT StepPlan {
 public:
  StepPlan(torch::optim::Optimizer& optimizer, GraphedStepOptions options);

  std::size_t graphs() const { return static_cast<std::size_t>(accumulate_ < 3 ? accumulate_ : 3); }
  at::Tensor run(std::size_t graph, const std::function<at::Tensor()>& forward);
  std::vector<std::shared_ptr<GraphedFunction>> make(std::vector<GraphedSource> sources);

  std::size_t next_graph() const {
    if (micro_batch_ == accumulate_ - 1) return graphs() - 1;
    return micro_batch_ == 0 ? 0 : 1;
  }
  void called() noexcept { micro_batch_ = (micro_batch_ + 1) % accumulate_; }
  int accumulated() const noexcept { return micro_batch_; }
  void discard() noexcept { micro_batch_ = 0; }

 private:
  void find_leaves(GraphedSource& source);
  std::vector<at::Tensor> state() const;
  void check_loss(const at::Tensor& loss) const;
  void take_step();
  void clip() const;

  const int accumulate_;
  int micro_batch_ = 0;  // of the next call
  GraphedStepOptions options_;
  torch::optim::Optimizer* optimizer_;
  std::shared_ptr<optim::detail::OptimizerCore> core_;
  std::vector<at::Tensor> leaves_;  // all parameters, each once
};

// Counts a call of the plan if the graph was launched in the scope, also where a hook throws afterwards.
class REPRISE_EXPORT StepCall {
 public:
  StepCall(StepPlan& plan, const CUDAGraph& graph);
  ~StepCall();
  StepCall(const StepCall&) = delete;
  StepCall& operator=(const StepCall&) = delete;

 private:
  StepPlan& plan_;
  const CUDAGraph& graph_;
  const std::uint64_t before_;
};

template <class Model, class Loss>
struct StepForward {
  Model model;
  Loss loss;

  template <class First, class... Rest>
  at::Tensor operator()(First& first, Rest&... rest) {
    auto output = call_source(model, first);
    static_assert(std::is_convertible_v<decltype(call_source(loss, output, rest...)), at::Tensor>,
                  "the loss must be a tensor");
    return call_source(loss, output, rest...);
  }
};

template <class Model, class Loss>
void describe_step(const Model& model, const Loss& loss, GraphedSource& source) {
  GraphedSource of_loss;
  of_loss.maker = source.maker = "graphed_step";
  describe_source(loss, of_loss);
  describe_source(model, source);
  source.modules.insert(source.modules.end(), of_loss.modules.begin(), of_loss.modules.end());
  source.parameters.insert(source.parameters.end(), of_loss.parameters.begin(), of_loss.parameters.end());
}

template <class... Args>
struct StepState {
  std::shared_ptr<StepPlan> plan;
  std::vector<GraphedCallable<at::Tensor, Args...>> graphs;
};

}  // namespace detail

/// The result of graphed_step(): called with a batch like the samples, it trains the model once. A handle: copies are
/// the same step.
///
/// A call is one launch of a graph, on the calling thread's current stream, and does not wait for the device. With
/// GraphedStepOptions::accumulate above 1, each call takes a micro-batch, and each `accumulate`th one ends in the
/// optimizer's step.
///
/// *State.* Parameters, the optimizer's state, its learning rates, buffers and the scaler are those of their objects:
/// eager code may read, save or change them in place between calls, and load optimizer and scaler. (torch::load() gives
/// the parameters of a model other memory: load it before the step is made.) Gradients are memory of the graphs:
/// `.grad` is neither read nor written.
///
/// *Threads.* One call at a time, on ordered streams; also of steps that share model or optimizer.
template <class... Args>
class GraphedStep {
 public:
  /// The same step. A move copies, too: a moved-from step can be called as before.
  GraphedStep(const GraphedStep&) = default;
  GraphedStep& operator=(const GraphedStep&) = default;

  /// Trains with one batch or micro-batch, which is copied into the memory that the graph reads.
  /// \returns the loss, neither scaled nor divided by `accumulate`. It is memory of the graph: the
  ///          next call overwrites it, and using it in autograd or a graphed callable is an error from then on. Copy it
  ///          (`clone()`) to keep it; `item()` waits for it.
  /// \throws UsageError as GraphedCallable::operator(), if the batch does not fit the samples or the model has changed;
  ///         if a module is in another mode (`train()`, `eval()`) than at the capture; as a replay with a captured
  ///         optimizer step (CapturableOptimizer), if its options or parameters have changed. Nothing was trained then,
  ///         and the call does not count. What a hook throws after the launch: the call counts then.
  at::Tensor operator()(Args... args) const {
    const auto& graph = state_->graphs[state_->plan->next_graph()];
    const auto& function = detail::GraphedAccess::function(graph);
    if (!function.in_captured_mode()) function.refuse_mode();
    const at::NoGradGuard no_grad;
    const detail::StepCall call(*state_->plan, graph.forward_graph());
    return graph(std::move(args)...);
  }

  /// The number of micro-batches since the last step of the optimizer: 0 to `accumulate` - 1. Save a run where it is 0.
  int accumulated() const noexcept { return state_->plan->accumulated(); }

  /// Makes the next call the first micro-batch of a step: gradients of the ones before are discarded.
  void discard() const noexcept { state_->plan->discard(); }

  /// The graph that ends in the optimizer's step, to look at, as GraphedCallable::forward_graph().
  CUDAGraph& graph() const { return state_->graphs.back().forward_graph(); }

 private:
  friend struct detail::GraphedAccess;
  using State = detail::StepState<Args...>;

  explicit GraphedStep(std::shared_ptr<const State> state) : state_(std::move(state)) {}

  std::shared_ptr<const State> state_;
};

namespace detail {

template <class Model, class Loss, class... Args>
GraphedStep<Args...> make_graphed_step(Model model, Loss loss, torch::optim::Optimizer& optimizer,
                                       const std::tuple<Args...>& samples, const GraphedStepOptions& options) {
  static_assert(sizeof...(Args) > 0, "the first sample is the input of the model");
  StepState<Args...> state{std::make_shared<StepPlan>(optimizer, options), {}};
  GraphedSource described;
  describe_step(model, loss, described);
  using Forward = StepForward<Model, Loss>;
  const auto forward = std::make_shared<Forward>(Forward{std::move(model), std::move(loss)});
  const auto body = [&](std::size_t graph) {
    return [plan = state.plan, forward, graph](Args&... args) -> at::Tensor {
      return plan->run(graph, [&] { return (*forward)(args...); });
    };
  };
  using Maker = GraphedCallableMaker<decltype(body(0)), std::tuple<Args...>>;
  std::vector<Maker> makers;
  std::vector<GraphedSource> sources;
  for (std::size_t i = 0; i < state.plan->graphs(); ++i) {
    GraphedSource& source = sources.emplace_back(makers.emplace_back(body(i), samples).take_source());
    source.maker = described.maker;
    source.name = described.name;
    source.modules = described.modules;
    source.parameters = described.parameters;
  }
  auto made = state.plan->make(std::move(sources));
  for (std::size_t i = 0; i < made.size(); ++i) state.graphs.push_back(makers[i].finish(std::move(made[i])));
  return GraphedAccess::make<GraphedStep<Args...>>(std::move(state));
}

}  // namespace detail

/// Captures whole training steps:
///
///     reprise::libtorch::GraphedStep step = reprise::libtorch::graphed_step(
///         model, torch::nn::MSELoss(), optimizer, std::tuple(x, y), {.clip = reprise::libtorch::ClipNorm{1.0}});
///     for (const Batch& batch : batches) loss = step(batch.x, batch.y);
///
/// One call is equivalent to the following, as one launch:
///
///     loss = loss_function(model(x), y);
///     scaler.scale(loss / accumulate).backward();
///     scaler.unscale_(optimizer);                              // with every `accumulate`th call, from here
///     clip_grad_norm_(parameters of the optimizer, max_norm);
///     scaler.step(optimizer);
///     scaler.update();
///     optimizer.zero_grad();
///
/// with the same results, to the last bit. The step runs `warmup` times on an internal stream and is captured there;
/// parameters, gradients, the optimizer's state, buffers, the scaler and the default generator are as before
/// afterwards. Meanwhile this takes the memory of a second copy of these. Hooks of parameters run in the warm-up and
/// the capture: work that they start is in the graph. No other thread may use model, optimizer or scaler meanwhile.
///
/// \param model a module with `forward` (holder, shared_ptr or AnyModule), or a function, with_module() or
///        with_parameters(), which is called with the first sample. For several inputs: a function of a tuple.
/// \param loss likewise, called with the model's output and the other samples. Returns one number.
/// \param optimizer SGD, Adam or AdamW of reprise::libtorch::optim. A parameter of it that requires a gradient must get
///        one; frozen parameters (`requires_grad_(false)`) are left alone.
/// \param samples a batch as a tuple, or a single tensor: with the sizes, types and device that later batches have.
/// \param options see there.
/// \throws UsageError for what cannot be captured, and says why: an optimizer that counts on the host, a loss that is
///         not one number or does not depend on a parameter, parameters without gradient, tensors of several devices.
///         CaptureError with a report, if model or loss wait for the device (`item()`), and exceptions of theirs
///         propagate, with the phase (warm-up, capture) in their text. Nothing is changed then.
template <class Model, class Loss, class Samples>
auto graphed_step(Model model, Loss loss, torch::optim::Optimizer& optimizer, Samples samples,
                  const GraphedStepOptions& options = {}) {
  return detail::make_graphed_step(std::move(model), std::move(loss), optimizer,
                                   detail::as_arguments(std::move(samples)), options);
}

}  // namespace reprise::libtorch
