// SPDX-License-Identifier: Apache-2.0
#include "reprise/libtorch/graphed_step.h"

#include <ATen/TensorOperators.h>
#include <ATen/core/grad_mode.h>
#include <c10/core/DeviceGuard.h>
#include <c10/core/InferenceMode.h>
#include <c10/util/ScopeExit.h>

#include <algorithm>
#include <optional>
#include <unordered_set>
#include <utility>

#include "graph/cuda_graph_impl.h"
#include "libtorch/graphed/capture_guards.h"
#include "libtorch/graphed/graphed_capture.h"
#include "libtorch/optim/scaler_core.h"
#include "reprise/error.h"
#include "reprise/libtorch/clip_grad.h"
#include "text/format.h"

namespace reprise::libtorch::detail {
namespace {

void check_at_least(const char* option, int least, int found) {
  if (found < least)
    throw UsageError(text::format("GraphedStepOptions::{}: expected {} or more, found {}.", option, least, found));
}

GraphedCallableOptions callable_options(const GraphedStepOptions& options) {
  GraphedCallableOptions made;
  made.num_warmup_iters = options.warmup;
  made.pool = options.pool;
  made.capture_error_mode = options.capture_error_mode;
  made.check_input_liveness = options.check_input_liveness;
  made.enable_annotations = options.enable_annotations;
  return made;
}

}  // namespace

StepPlan::StepPlan(torch::optim::Optimizer& optimizer, GraphedStepOptions options)
    : accumulate_(options.accumulate),
      options_(std::move(options)),
      optimizer_(&optimizer),
      core_(optim::detail::core_of(optimizer, "graphed_step")) {
  check_at_least("accumulate", 1, accumulate_);
  check_at_least("warmup", 0, options_.warmup);
}

// All parameters, and among those of the source the ones that no module of it has.
void StepPlan::find_leaves(GraphedSource& source) {
  std::unordered_set<const c10::TensorImpl*> known;
  const auto add = [&](const std::vector<at::Tensor>& tensors) {
    for (const at::Tensor& each : tensors)
      if (each.defined() && known.insert(each.unsafeGetTensorImpl()).second) leaves_.push_back(each);
  };
  for (const auto& module : source.modules) add(module->parameters());
  const auto of_modules = static_cast<std::ptrdiff_t>(leaves_.size());
  add(source.parameters);
  add(core_->parameters());
  source.parameters.assign(leaves_.begin() + of_modules, leaves_.end());
}

// Tensors that a step changes, besides buffers.
std::vector<at::Tensor> StepPlan::state() const {
  std::vector<at::Tensor> all = leaves_;
  const auto add = [&](const std::vector<at::Tensor>& tensors) {
    all.insert(all.end(), tensors.begin(), tensors.end());
  };
  add(core_->state());
  if (options_.scaler != nullptr) {
    const ScalerCore& core = *options_.scaler->core_;
    add({core.scale, core.growth_tracker, core.skipped});
  }
  return all;
}

void StepPlan::check_loss(const at::Tensor& loss) const {
  if (!loss.defined() || loss.numel() != 1 || !loss.is_floating_point() || !loss.requires_grad())
    throw UsageError(text::format(
        "expected a loss of one number that depends on a parameter with requires_grad, found {}. Return the "
        "mean or the sum, computed by operators that have a gradient.",
        !loss.defined() ? std::string("an undefined tensor")
                        : text::format("{} [{}]{}", c10::toString(loss.scalar_type()), text::join(loss.sizes(), ", "),
                                       loss.requires_grad() ? "" : ", which requires none")));
  if (const auto foreign = leaf_besides(leaves_, {loss}); foreign)
    throw UsageError(
        text::format("the loss depends on {}, which requires a gradient and is a parameter neither of the model nor of "
                     "the optimizer. Name it: with_parameters(), with_module().",
                     *foreign));
}

void StepPlan::clip() const {
  const std::vector<at::Tensor> parameters = core_->parameters();
  if (const auto* const norm = std::get_if<ClipNorm>(&options_.clip))
    clip_grad_norm_(parameters, norm->max_norm, norm->norm_type);
  else if (const auto* const value = std::get_if<ClipValue>(&options_.clip))
    clip_grad_value_(parameters, value->limit);
}

void StepPlan::take_step() {
  if (options_.after_backward) options_.after_backward();
  GradScaler* const scaler = options_.scaler;
  if (scaler != nullptr) scaler->unscale_(*optimizer_);
  clip();
  if (scaler == nullptr) {
    optimizer_->step();
    return;
  }
  scaler->step(*optimizer_);
  scaler->update();
}

at::Tensor StepPlan::run(std::size_t graph, const std::function<at::Tensor()>& forward) {
  const at::AutoGradMode with_gradients(true);
  if (graph == 0)
    for (const at::Tensor& each : leaves_) each.mutable_grad() = at::Tensor();
  const c10::DeviceType device = leaves_.front().device().type();
  const auto run_forward = [&] {
    if (!options_.autocast) return forward();
    const auto autocast = autocast_to(device, options_.autocast);
    return forward();
  };
  const at::Tensor loss = run_forward();
  check_loss(loss);
  const auto no_autocast = autocast_to(device, std::nullopt);
  at::Tensor root = accumulate_ > 1 ? loss / accumulate_ : loss;
  if (options_.scaler != nullptr) root = options_.scaler->scale(root);
  root.backward();
  if (graph == graphs() - 1) take_step();
  return loss.detach();
}

std::vector<std::shared_ptr<GraphedFunction>> StepPlan::make(std::vector<GraphedSource> sources) {
  for (GraphedSource& each : sources) {
    each.full_name = text::format("step ({})", each.name);
    each.runs_hooks = true;
  }
  find_leaves(sources.front());
  for (GraphedSource& each : sources) each.parameters = sources.front().parameters;
  if (leaves_.empty())
    throw UsageError(
        "graphed_step: expected a model and an optimizer with parameters, found none. Make the optimizer with the "
        "parameters of the model.");
  const c10::InferenceMode no_inference(false);
  const at::NoGradGuard no_grad;
  const c10::Device device = leaves_.front().device();
  if (device.is_cpu())
    throw UsageError(
        "graphed_step: expected parameters on a device whose work can be captured, found some on the CPU. Move the "
        "model to a CUDA device or the host device before the optimizer is made.");
  const c10::DeviceGuard guard(device);
  refuse_in_capture(device, "graphed_step");
  // Makes and copies what the next eager step would, so that the state before the warm-up is complete.
  core_->prepare("step");
  core_->update_rates();
  sources.front().state = state();
  // Gradients and the protocol of the scaler are put aside meanwhile.
  const auto scaler = options_.scaler != nullptr ? options_.scaler->core_ : nullptr;
  std::vector<at::Tensor> before(leaves_.size());
  std::vector<ScalerCore::Round> rounds;
  const auto exchange = [&] {
    for (std::size_t i = 0; i < leaves_.size(); ++i) std::swap(leaves_[i].mutable_grad(), before[i]);
    if (scaler != nullptr) scaler->rounds.swap(rounds);
  };
  exchange();
  const auto restore = c10::make_scope_exit(exchange);
  auto made = make_graphed(std::move(sources), callable_options(options_));
  const auto gradients = std::make_shared<std::vector<at::Tensor>>();
  for (const at::Tensor& each : leaves_) gradients->push_back(each.grad());
  for (const auto& each : made) each->forward_graph().retain(gradients);
  options_ = {};  // what the caller's functions keep
  optimizer_ = nullptr;
  return made;
}

StepCall::StepCall(StepPlan& plan, const CUDAGraph& graph)
    : plan_(plan), graph_(graph), before_(graphs::GraphAccess::of(graph, "GraphedStep").launches) {}

StepCall::~StepCall() {
  try {
    if (graphs::GraphAccess::of(graph_, "GraphedStep").launches != before_) plan_.called();
  } catch (const UsageError&) {  // a hook moved the graph away: the step cannot be called any more
  }
}

}  // namespace reprise::libtorch::detail
