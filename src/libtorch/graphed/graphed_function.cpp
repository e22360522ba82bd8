// SPDX-License-Identifier: Apache-2.0
#include "libtorch/graphed/graphed_function.h"

#include <ATen/autocast_mode.h>
#include <ATen/core/grad_mode.h>
#include <c10/core/DeviceGuard.h>
#include <c10/core/InferenceMode.h>
#include <c10/util/ScopeExit.h>
#include <torch/csrc/autograd/function.h>
#include <torch/csrc/autograd/functions/utils.h>
#include <torch/csrc/autograd/graph_task.h>

#include <algorithm>
#include <exception>
#include <utility>

#include "graph/replays.h"
#include "libtorch/graphed/capture_guards.h"
#include "libtorch/tensor_device.h"
#include "libtorch/versions/version.h"
#include "reprise/error.h"
#include "text/format.h"

namespace reprise::libtorch::detail {
namespace {

std::string kind_of(const at::Tensor& tensor) {
  if (!tensor.defined()) return "an undefined tensor";
  return text::format("{} [{}] on {}{}{}", c10::toString(tensor.scalar_type()), text::join(tensor.sizes(), ", "),
                      tensor.device().str(), tensor.layout() == c10::kStrided ? "" : ", not dense",
                      tensor.requires_grad() ? ", needs a gradient" : "");
}

bool fits(const at::Tensor& argument, const at::Tensor& input) {
  if (!argument.defined() || !input.defined()) return argument.defined() == input.defined();
  return argument.layout() == c10::kStrided && argument.device() == input.device() &&
         argument.scalar_type() == input.scalar_type() && argument.sizes().equals(input.sizes()) &&
         (input.requires_grad() || !argument.requires_grad() || !autograd_records());
}

// The call whose result a tensor is, if another call has overwritten that since; else null.
const GraphedCall* lost_result(const at::Tensor& tensor) {
  const GraphedCall* const lender = lent_by(tensor);
  return lender != nullptr && lender->outputs_lost ? lender : nullptr;
}

[[noreturn]] void refuse_lost_result(const std::string& where, const std::string& name, const GraphedCall& lender) {
  throw UsageError(text::format(
      "{}: {} is a result of {}, and was overwritten by {}. Use results before that, copy them (clone), or "
      "make the callable with Outputs::copy.",
      where, name, lender.text(), lender.outputs_lost.text()));
}

using torch::autograd::variable_list;

// Not a torch::autograd::Function, which handles each argument separately, and costs more.
class GraphedBackward final : public torch::autograd::Node {
 public:
  GraphedBackward(std::shared_ptr<CapturedFunction> function, std::shared_ptr<GraphedCall> call, std::uint64_t versions,
                  torch::autograd::edge_list&& edges)
      : Node(std::move(edges)), function_(std::move(function)), call_(std::move(call)), versions_(versions) {}

  // libtorch's error has it, of an operator whose backward finds a result that it kept overwritten.
  std::string name() const override {
    if (!call_->outputs_lost) return "GraphedBackward";
    const std::string text = text::format(
        "GraphedBackward ({}, whose results were overwritten by {}. Run the backward of each call before the next "
        "call, pass clones on, or make the callable with Outputs::copy. For several micro-batches underway, make one "
        "callable for each)",
        call_->text(), call_->outputs_lost.text());
    return text;
  }

 private:
  variable_list apply(variable_list&& gradients) override {
    if (c10::GradMode::is_enabled())
      throw UsageError(text::format(
          "backward of {} with create_graph: its gradients cannot be differentiated again, because its backward is a "
          "graph without a backward of its own. Call the original for this.",
          call_->text()));
    variable_list found = function_->backward(*call_, gradients, versions_);
    found.resize(num_outputs());
    for (std::size_t i = 0; i < found.size(); ++i)
      if (!task_should_compute_output(i)) found[i] = at::Tensor();
    return found;
  }

  std::shared_ptr<CapturedFunction> function_;
  std::shared_ptr<GraphedCall> call_;
  std::uint64_t versions_;
};

// Connects the results of a call to autograd's graph: with the function's backward, from the differentiable results to
// the arguments and parameters.
void attach_backward(const std::shared_ptr<CapturedFunction>& function, const std::shared_ptr<GraphedCall>& call,
                     std::uint64_t versions, const std::vector<at::Tensor>& arguments,
                     const std::vector<at::Tensor>& results) {
  auto edges = torch::autograd::collect_next_edges(arguments, function->parts().watched.trained());
  // A node without any is where a backward ends; autograd has the caller's stream wait for those.
  if (std::none_of(edges.begin(), edges.end(), [](const auto& edge) { return edge.is_valid(); })) edges.clear();
  const version::NodePointer node = version::make_node<GraphedBackward>(function, call, versions, std::move(edges));
  for (const std::size_t each : function->parts().differentiable) torch::autograd::set_history(results[each], node);
}

}  // namespace

CapturedFunction::CapturedFunction(GraphedParts parts)
    : parts_(std::move(parts)),
      device_(device_of_tensors(parts_.device)),
      mutates_(std::count(parts_.mutated.begin(), parts_.mutated.end(), 0) !=
               static_cast<std::ptrdiff_t>(parts_.mutated.size())),
      zero_(parts_.output_gradients.size(), 1) {}

std::uint64_t CapturedFunction::versions() const {
  std::uint64_t sum = parts_.watched.versions();
  for (const at::Tensor& each : parts_.inputs)
    if (each.defined()) sum += each._version();
  return sum;
}

bool CapturedFunction::wants_gradients(const std::vector<at::Tensor>& arguments) const {
  return autograd_records() && (!parts_.watched.trained().empty() ||
                                std::any_of(arguments.begin(), arguments.end(),
                                            [](const auto& each) { return each.defined() && each.requires_grad(); }));
}

void CapturedFunction::refuse_arguments(std::vector<std::string> differences,
                                        const std::vector<at::Tensor>& tensors) const {
  // With another number of tensors it is not known which stands for which.
  for (std::size_t i = 0; i < tensors.size() && tensors.size() == parts_.inputs.size(); ++i)
    if (const at::Tensor& expected = parts_.inputs[i]; !fits(tensors[i], expected))
      differences.push_back(
          text::format("{}: expected {}, found {}", parts_.argument_names[i], kind_of(expected), kind_of(tensors[i])));
  if (differences.empty()) differences.emplace_back("a value is of another type");
  throw UsageError(
      text::format("A call of graphed {}: its arguments are not as the samples were:\n  {}\n"
                   "Call it with such arguments, or make it again with these as the samples. For several shapes, make "
                   "it with a cache (GraphedCacheOptions).",
                   *parts_.name, text::join(differences, "\n  ")));
}

void CapturedFunction::check_arguments(const std::vector<at::Tensor>& arguments) const {
  if (!std::ranges::equal(arguments, parts_.inputs, &fits)) refuse_arguments({}, arguments);
  for (std::size_t i = 0; i < arguments.size(); ++i)
    if (const GraphedCall* const lender = lost_result(arguments[i]); lender != nullptr)
      refuse_lost_result("A call of graphed " + *parts_.name, parts_.argument_names[i], *lender);
}

void CapturedFunction::check_surroundings(bool wants_gradients) const {
  if (const auto changes = parts_.watched.changes(); !changes.empty())
    throw UsageError(
        text::format("A call of graphed {}: its module is not as it was when it was captured: {}. The graph "
                     "uses what was there then. Make the graphed callable again.",
                     *parts_.name, text::join(changes, "; ")));
  const auto type = parts_.device.type();
  const bool autocast = at::autocast::is_autocast_enabled(type);
  if (autocast != parts_.autocast || (autocast && at::autocast::get_autocast_dtype(type) != parts_.autocast_type)) {
    const auto text = [](bool on, c10::ScalarType to) { return on ? text::format("to {}", c10::toString(to)) : "off"; };
    throw UsageError(text::format(
        "A call of graphed {}: it was captured with autocast {}, and is called with autocast {}. Call it as it was "
        "captured, or make it again.",
        *parts_.name, text(parts_.autocast, parts_.autocast_type),
        text(autocast, at::autocast::get_autocast_dtype(type))));
  }
  if (wants_gradients && !parts_.grad_mode)
    throw UsageError(
        text::format("A call of graphed {}: gradients are wanted, and it was captured while grad mode was off, or in "
                     "inference mode. Call it with a NoGradGuard, or make it again without.",
                     *parts_.name));
}

// Writing one of two arguments in the same memory would change the other, which the graph reads elsewhere.
void CapturedFunction::check_changed_memory(const std::vector<at::Tensor>& arguments) const {
  for (std::size_t i = 0; i < arguments.size(); ++i) {
    if (parts_.mutated[i] != 0 && arguments[i].is_inference() && !c10::InferenceMode::is_enabled())
      throw UsageError(text::format(
          "A call of graphed {}: {} is changed in place, and is an inference tensor. Only code in inference mode may "
          "change it: call it there, or pass a copy (clone) that is made outside of it.",
          *parts_.name, parts_.argument_names[i]));
    for (std::size_t k = 0; k < arguments.size(); ++k)
      if (parts_.mutated[i] != 0 && k != i && may_overlap(arguments[i], arguments[k]))
        throw UsageError(
            text::format("A call of graphed {}: {} is changed in place, and {} lies in the same memory. The graph has "
                         "memory of its own for each: pass a copy (clone) of one of them.",
                         *parts_.name, parts_.argument_names[i], parts_.argument_names[k]));
  }
}

void CapturedFunction::stage(const std::vector<at::Tensor>& arguments) {
  copied_.clear();  // of a call that failed
  for (std::size_t i = 0; i < arguments.size(); ++i)
    if (parts_.staged_inputs.in_the_way(i, arguments[i])) {
      copied_.resize(arguments.size());
      copied_[i] = arguments[i].clone();
    }
  for (std::size_t i = 0; i < arguments.size(); ++i) {
    const bool copied = i < copied_.size() && copied_[i].defined();
    parts_.staged_inputs.stage(i, copied ? copied_[i] : arguments[i]);
  }
}

std::vector<at::Tensor> CapturedFunction::call(const std::vector<at::Tensor>& arguments) {
  const bool gradients = wants_gradients(arguments);
  check_surroundings(gradients);
  check_arguments(arguments);
  if (mutates_) check_changed_memory(arguments);
  // The arguments of both would be staged in one place.
  if (in_call_.test_and_set(std::memory_order_acquire))
    throw UsageError(
        text::format("A call of graphed {}: another call of it has not returned, on another thread or around a hook "
                     "of its graph that makes this one. Order the calls, or make callables with pools of their own.",
                     *parts_.name));
  const auto returned = c10::make_scope_exit([this] { in_call_.clear(std::memory_order_release); });
  const c10::DeviceGuard device(parts_.device);
  const StreamRef stream = current_stream(device_);
  const auto call = std::make_shared<GraphedCall>();
  std::vector<at::Tensor> results;
  {
    const at::NoGradGuard no_grad;
    stage(arguments);
    call->callable = parts_.name;
    call->number = ++calls_;
    if (parts_.options.outputs == Outputs::copy) results = parts_.fresh_outputs.make();
    const std::exception_ptr thrown = graphs::replay_changed(parts_.forward, stream, [&](GraphExecHandle exec) {
      parts_.staged_inputs.update(exec);
      parts_.fresh_outputs.update(exec);
      parts_.order->forward_runs(parts_.order_number, call);
    });
    copied_.clear();
    if (mutates_) write_back(arguments);
    if (thrown != nullptr) std::rethrow_exception(thrown);
    if (parts_.options.outputs == Outputs::alias) results = lend_outputs(call);
  }
  if (gradients && parts_.backward) attach_backward(shared_from_this(), call, versions(), arguments, results);
  return results;
}

void CapturedFunction::write_back(const std::vector<at::Tensor>& arguments) const {
  for (std::size_t i = 0; i < arguments.size(); ++i) {
    if (parts_.mutated[i] == 0) continue;
    if (same_memory(arguments[i], parts_.inputs[i]))
      arguments[i].unsafeGetTensorImpl()->bump_version();
    else
      arguments[i].copy_(parts_.inputs[i], /*non_blocking=*/true);
  }
}

std::vector<at::Tensor> CapturedFunction::lend_outputs(const std::shared_ptr<GraphedCall>& call) const {
  std::vector<at::Tensor> results;
  results.reserve(parts_.outputs.size());
  call->versions.reserve(parts_.outputs.size());
  for (const at::Tensor& each : parts_.outputs) {
    if (!each.defined()) {
      results.emplace_back();
      call->versions.emplace_back();
      continue;
    }
    results.push_back(lend(each, call));
    call->versions.push_back(results.back().unsafeGetTensorImpl()->version_counter());
  }
  return results;
}

void CapturedFunction::check_backward(const GraphedCall& call, std::uint64_t versions) const {
  if (call.backward_lost)
    throw UsageError(text::format(
        "backward of {}: what it needs was overwritten by {}. A graph has one set of intermediate values: run each "
        "call's backward once, before the next call. Callables of one pool run in the order of their captures, and "
        "backward in the reverse one. For any order, make callables one by one, with pools of their own.",
        call.text(), call.backward_lost.text()));
  for (std::size_t i = 0; i < call.versions.size(); ++i)
    if (parts_.saved[i] != 0 && call.versions[i].enabled() && call.versions[i].current_version() != 0)
      throw UsageError(
          text::format("backward of {}: result {} was changed in place since, and its backward needs the old value. "
                       "Change a copy of it (clone), or make the callable with Outputs::copy.",
                       call.text(), i));
  if (this->versions() != versions)
    throw UsageError(text::format(
        "backward of {}: a parameter or buffer, or a tensor of static_arguments(), was changed in place or "
        "given other memory between the call and its backward, which needs the old values.",
        call.text()));
}

void CapturedFunction::stage_gradients(const std::vector<at::Tensor>& output_gradients) {
  for (std::size_t i = 0; i < output_gradients.size(); ++i) {
    if (output_gradients[i].defined()) {
      parts_.staged_gradients.stage(i, output_gradients[i]);
    } else {
      parts_.staged_gradients.keep(i);
      if (zero_[i] == 0) parts_.output_gradients[i].zero_();
    }
    zero_[i] = output_gradients[i].defined() ? 0 : 1;
  }
}

std::vector<at::Tensor> CapturedFunction::backward(const GraphedCall& call,
                                                   const std::vector<at::Tensor>& output_gradients,
                                                   std::uint64_t versions) {
  check_backward(call, versions);
  for (std::size_t i = 0; i < output_gradients.size(); ++i)
    if (const GraphedCall* const lender = lost_result(output_gradients[i]); lender != nullptr)
      refuse_lost_result("backward of " + call.text(), text::format("the gradient of result {}", i), *lender);
  const c10::DeviceGuard device(parts_.device);
  const StreamRef stream = current_stream(device_);
  const at::NoGradGuard no_grad;
  stage_gradients(output_gradients);
  std::vector<at::Tensor> found = parts_.fresh_gradients.make();
  const std::exception_ptr thrown = graphs::replay_changed(*parts_.backward, stream, [&](GraphExecHandle exec) {
    parts_.staged_gradients.update(exec);
    parts_.fresh_gradients.update(exec);
    parts_.order->backward_runs(parts_.order_number);
  });
  if (thrown != nullptr) std::rethrow_exception(thrown);
  for (const at::Tensor& each : parts_.gradients)
    found.push_back(each.defined() ? tensor_in(each.storage(), each, each.storage_offset()) : each);
  return found;
}

CUDAGraph& CapturedFunction::backward_graph() {
  if (parts_.backward) return *parts_.backward;
  throw UsageError(text::format(
      "graphed {} has no backward graph: {}. Make it again {}.", *parts_.name,
      parts_.grad_mode ? "no result needs a gradient" : "it was captured while grad mode was off, or in inference mode",
      parts_.grad_mode ? "with an argument or parameter that needs one" : "in grad mode"));
}

std::vector<const CUDAGraph*> CapturedFunction::graphs() const {
  std::vector<const CUDAGraph*> graphs{&parts_.forward};
  if (parts_.backward) graphs.push_back(&*parts_.backward);
  return graphs;
}

void CapturedFunction::refuse_mode() const {
  throw UsageError(
      text::format("A call of graphed {}: a module is in another mode (train(), eval()) than at the capture, and the "
                   "graph cannot change it. Restore the mode, or make a step in this one.",
                   *parts_.name));
}

void refuse_number(std::size_t callables, std::size_t samples) {
  throw UsageError(text::format("make_graphed_callables expected the samples of {} callables, found those of {}.",
                                callables, samples));
}

}  // namespace reprise::libtorch::detail
