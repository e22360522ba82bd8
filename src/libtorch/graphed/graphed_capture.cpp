// SPDX-License-Identifier: Apache-2.0
#include "libtorch/graphed/graphed_capture.h"

#include <ATen/autocast_mode.h>
#include <ATen/core/grad_mode.h>
#include <ATen/ops/empty_like.h>
#include <ATen/ops/zeros_like.h>
#include <c10/core/InferenceMode.h>
#include <torch/csrc/autograd/autograd.h>
#include <torch/csrc/autograd/function.h>
#include <torch/csrc/autograd/functions/accumulate_grad.h>
#include <torch/csrc/autograd/variable.h>

#include <algorithm>
#include <optional>
#include <unordered_set>
#include <utility>

#include "graph/cuda_graph_impl.h"
#include "graph/replays.h"
#include "inspect/liveness/liveness_listener.h"
#include "libtorch/graphed/capture_guards.h"
#include "reprise/error.h"
#include "reprise/libtorch/graph.h"
#include "text/format.h"

namespace reprise::libtorch::detail {
namespace {

std::vector<std::string> names_of(const std::vector<std::size_t>& argument_sizes) {
  std::vector<std::string> names;
  for (std::size_t i = 0; i < argument_sizes.size(); ++i)
    for (std::size_t k = 0; k < argument_sizes[i]; ++k)
      names.push_back(argument_sizes[i] == 1 ? text::format("argument {}", i)
                                             : text::format("argument {}, tensor {}", i, k));
  return names;
}

GraphedParts parts_of(const GraphedSource& source, std::size_t number, const GraphedCallableOptions& options) {
  const std::optional<c10::Device> found = device_of_source(source);
  if (!found)
    throw UsageError(
        text::format("{}: {} has neither an argument nor a parameter that is a tensor; it needs one to determine the "
                     "device.",
                     source.maker, source.name));
  const c10::Device device = *found;
  WatchedModules watched(source.modules, source.parameters);
  GraphedParts parts{std::make_shared<const std::string>(source.full_name.empty()
                                                             ? text::format("callable {} ({})", number, source.name)
                                                             : source.full_name),
                     names_of(source.argument_sizes), std::move(watched), device, options};
  parts.grad_mode = autograd_records();
  parts.autocast = at::autocast::is_autocast_enabled(device.type());
  parts.autocast_type = at::autocast::get_autocast_dtype(device.type());
  return parts;
}

bool shares_memory(const at::Tensor& a, const at::Tensor& b) {
  return a.defined() && b.defined() && a.storage().is_alias_of(b.storage());
}

bool shares_memory(const at::Tensor& tensor, const std::vector<at::Tensor>& others) {
  return std::any_of(others.begin(), others.end(), [&](const at::Tensor& each) { return shares_memory(tensor, each); });
}

std::vector<at::Tensor> only(const std::vector<at::Tensor>& tensors, const std::vector<std::size_t>& numbers) {
  std::vector<at::Tensor> some;
  for (const std::size_t each : numbers) some.push_back(tensors[each]);
  return some;
}

std::vector<std::size_t> differentiable(const std::vector<at::Tensor>& results) {
  std::vector<std::size_t> numbers;
  for (std::size_t i = 0; i < results.size(); ++i)
    if (results[i].defined() && results[i].requires_grad()) numbers.push_back(i);
  return numbers;
}

std::vector<at::Tensor> zeros_for(const std::vector<at::Tensor>& results) {
  std::vector<at::Tensor> zeros;
  for (const at::Tensor& each : results) zeros.push_back(at::zeros_like(each.detach()));
  return zeros;
}

}  // namespace

std::optional<c10::Device> device_of_source(const GraphedSource& source) {
  std::optional<c10::Device> found;
  const auto look_at = [&](const std::vector<at::Tensor>& tensors) {
    for (const at::Tensor& each : tensors)
      if (each.defined() && (!found || found->is_cpu())) found = each.device();
  };
  look_at(source.arguments);
  for (const auto& module : source.modules) look_at(module->parameters());
  look_at(source.parameters);
  return found;
}

std::optional<std::string> leaf_besides(const std::vector<at::Tensor>& known, const std::vector<at::Tensor>& results) {
  std::unordered_set<const c10::TensorImpl*> leaves;
  for (const at::Tensor& each : known) leaves.insert(each.unsafeGetTensorImpl());
  std::unordered_set<const torch::autograd::Node*> seen;
  std::vector<torch::autograd::Node*> ahead;
  const auto go_to = [&](torch::autograd::Node* node) {
    if (node != nullptr && seen.insert(node).second) ahead.push_back(node);
  };
  for (const at::Tensor& each : results)
    if (each.defined() && each.requires_grad()) go_to(torch::autograd::impl::gradient_edge(each).function.get());
  while (!ahead.empty()) {
    torch::autograd::Node* const node = ahead.back();
    ahead.pop_back();
    if (const auto* const leaf = dynamic_cast<torch::autograd::AccumulateGrad*>(node); leaf != nullptr) {
      const at::Tensor& tensor = leaf->variable;
      if (!leaves.contains(tensor.unsafeGetTensorImpl()))
        return text::format("a tensor {} [{}] on {}", c10::toString(tensor.scalar_type()),
                            text::join(tensor.sizes(), ", "), tensor.device().str());
    }
    for (const auto& edge : node->next_edges()) go_to(edge.function.get());
  }
  return std::nullopt;
}

GraphedCapture::GraphedCapture(GraphedSource source, std::size_t number, const GraphedCallableOptions& options)
    : source_(std::move(source)), parts_(parts_of(source_, number, options)) {
  check_samples();
}

void GraphedCapture::check_samples() const {
  std::vector<std::string> wrong;
  const auto check = [&](const at::Tensor& tensor, const std::string& name) {
    if (!tensor.defined()) return;
    if (tensor.device() != parts_.device || tensor.is_cpu())
      wrong.push_back(text::format("{} is on {}{}", name, tensor.device().str(),
                                   tensor.is_cpu() ? "" : text::format(", others are on {}", parts_.device.str())));
    else if (tensor.layout() != c10::kStrided)
      wrong.push_back(name + " is not dense");
    if (const GraphedCall* const lender = lent_by(tensor); lender != nullptr && lender->outputs_lost)
      wrong.push_back(text::format("{} is a result of {}, which was overwritten by {}", name, lender->text(),
                                   lender->outputs_lost.text()));
  };
  for (std::size_t i = 0; i < source_.arguments.size(); ++i) check(source_.arguments[i], parts_.argument_names[i]);
  for (const auto& [name, each] : parts_.watched.named_parameters()) {
    check(each, name);
    if (!each.is_leaf()) wrong.push_back(name + " is no leaf: it was computed from others");
  }
  for (const std::string& name : parts_.watched.trained_buffers())
    wrong.push_back(text::format("buffer {} needs a gradient, and only parameters get any", name));
  if (!wrong.empty())
    throw UsageError(
        text::format("{}: {} cannot be graphed: {}. All tensors must be dense, on one device that is not the CPU.",
                     source_.maker, *parts_.name, text::join(wrong, "; ")));
}

// Separate memory, so that calls do not overwrite the samples. Normal tensors also in inference mode: their versions
// show what the callable changes in place, and they can be written in either mode.
void GraphedCapture::make_inputs() {
  const c10::InferenceMode normal_mode(false);
  const at::NoGradGuard no_grad;
  for (const at::Tensor& sample : source_.arguments) {
    at::Tensor& input = parts_.inputs.emplace_back();
    if (!sample.defined()) continue;
    input = sample.detach().clone();
    input.set_requires_grad(parts_.grad_mode && sample.requires_grad());
  }
}

// Aliases of the inputs, which stay without a history if the callable adds one.
std::vector<at::Tensor> GraphedCapture::fresh_leaves() const {
  std::vector<at::Tensor> leaves;
  for (const at::Tensor& each : parts_.inputs) {
    leaves.push_back(each.defined() ? each.detach() : each);
    if (each.defined()) leaves.back().set_requires_grad(each.requires_grad());
  }
  return leaves;
}

void GraphedCapture::check_results(const std::vector<at::Tensor>& results) const {
  for (std::size_t i = 0; i < results.size(); ++i) {
    const at::Tensor& each = results[i];
    if (!each.defined() || (each.device() == parts_.device && each.layout() == c10::kStrided)) continue;
    throw UsageError(text::format(
        "result {} is {}; a graph returns dense tensors of its device, {}. Leave it to eager "
        "code.",
        i, each.layout() == c10::kStrided ? "on " + each.device().str() : "not dense", parts_.device.str()));
  }
}

void GraphedCapture::check_memory(const std::vector<at::Tensor>& leaves, const std::vector<const void*>& memory) const {
  for (std::size_t i = 0; i < leaves.size(); ++i) {
    const at::Tensor& input = parts_.inputs[i];
    if (!input.defined()) continue;
    if (leaves[i].const_data_ptr() == memory[i] && input.const_data_ptr() == memory[i] &&
        leaves[i].sizes().equals(input.sizes()) && leaves[i].strides().equals(input.strides()))
      continue;
    throw UsageError(
        text::format("it gives {} another size or other memory. A graph uses the same memory each time: return what is "
                     "new instead.",
                     parts_.argument_names[i]));
  }
}

// The results of the callable, after a check that its arguments are in the same memory.
std::vector<at::Tensor> GraphedCapture::run(const std::vector<at::Tensor>& leaves) const {
  std::vector<const void*> memory;
  for (const at::Tensor& each : parts_.inputs) memory.push_back(each.defined() ? each.const_data_ptr() : nullptr);
  auto results = source_.run(leaves);
  check_memory(leaves, memory);
  check_results(results);
  return results;
}

void GraphedCapture::check_history(const std::vector<at::Tensor>& results) const {
  std::vector<at::Tensor> known = parts_.watched.trained();
  const auto leaves = leaves_.empty() ? std::vector<at::Tensor>() : leaves_;
  known.insert(known.end(), leaves.begin(), leaves.end());
  if (const auto foreign = leaf_besides(known, results); foreign)
    throw UsageError(
        text::format("its results depend on {}, which needs a gradient and is neither an argument nor a known "
                     "parameter. Name it: with_parameters(), "
                     "with_module().",
                     *foreign));
  for (std::size_t i = 0; i < leaves.size(); ++i)
    if (leaves[i].defined() && leaves[i].requires_grad() != parts_.inputs[i].requires_grad())
      throw UsageError(
          text::format("it changes {} in place by something that needs a gradient. The changed argument "
                       "cannot get a history: return the new value instead.",
                       parts_.argument_names[i]));
}

std::string GraphedCapture::leaf_name(std::size_t leaf) const {
  const std::size_t arguments = parts_.inputs.size();
  return leaf < arguments ? parts_.argument_names[leaf] : parts_.watched.trained_names()[leaf - arguments];
}

// The gradients of all leaves and trained parameters; undefined if there is none.
std::vector<at::Tensor> GraphedCapture::gradients_of(const std::vector<at::Tensor>& leaves,
                                                     const std::vector<at::Tensor>& results,
                                                     const std::vector<at::Tensor>& result_gradients) const {
  std::vector<at::Tensor> all = leaves;
  all.insert(all.end(), parts_.watched.trained().begin(), parts_.watched.trained().end());
  const auto wanted = differentiable(all);
  if (wanted.empty()) return std::vector<at::Tensor>(all.size());
  const auto no_autocast = autocast_to(parts_.device.type(), std::nullopt);
  const auto found = torch::autograd::grad(results, only(all, wanted), result_gradients, /*retain_graph=*/false,
                                           /*create_graph=*/false, /*allow_unused=*/true);
  std::vector<at::Tensor> gradients(all.size());
  for (std::size_t i = 0; i < wanted.size(); ++i) gradients[wanted[i]] = found[i];
  return gradients;
}

void GraphedCapture::check_used(const std::vector<at::Tensor>& gradients) const {
  std::vector<std::string> unused;
  for (std::size_t i = 0; i < gradients.size(); ++i) {
    const at::Tensor& each = gradients[i];
    if (each.defined() && each.layout() != c10::kStrided)
      throw UsageError(text::format("the gradient of {} is not dense; a graph cannot return it.", leaf_name(i)));
    const bool trained = i >= parts_.inputs.size() || (parts_.inputs[i].defined() && parts_.inputs[i].requires_grad());
    if (!each.defined() && trained) unused.push_back(leaf_name(i));
  }
  if (!unused.empty() && !parts_.options.allow_unused_input)
    throw UsageError(text::format(
        "{} {} a gradient and got none, since no result depends on {}. If this is meant: "
        "GraphedCallableOptions::allow_unused_input.",
        text::join(unused, ", "), unused.size() == 1 ? "needs" : "need", unused.size() == 1 ? "it" : "them"));
}

void GraphedCapture::warm_up() {
  const auto leaves = fresh_leaves();
  const auto results = run(leaves);
  if (const auto numbers = differentiable(results); !numbers.empty()) {
    const auto some = only(results, numbers);
    check_used(gradients_of(leaves, some, zeros_for(some)));
  }
}

GraphOptions GraphedCapture::graph_options() const {
  GraphOptions options;
  options.pool = parts_.options.pool;
  options.stream = stream_;
  options.capture_error_mode = parts_.options.capture_error_mode;
  options.check_input_liveness = parts_.options.check_input_liveness;
  options.enable_annotations = parts_.options.enable_annotations;
  options.allow_empty = true;  // a callable may pass its argument through
  return options;
}

// A result in an argument's memory would be overwritten when the arguments of the next call are staged.
void GraphedCapture::give_own_memory(std::vector<at::Tensor>& results) const {
  for (at::Tensor& each : results) {
    if (!each.defined()) continue;
    if (shares_memory(each, parts_.inputs) || each.is_conj() || each.is_neg()) each = each.clone();
    if (parts_.options.outputs == Outputs::copy && !each.is_non_overlapping_and_dense()) each = each.contiguous();
  }
}

void GraphedCapture::check_changed_samples() const {
  const auto& samples = source_.arguments;
  for (std::size_t i = 0; i < samples.size(); ++i)
    for (std::size_t k = 0; k < samples.size(); ++k)
      if (parts_.mutated[i] != 0 && k != i && may_overlap(samples[i], samples[k]))
        throw UsageError(text::format(
            "it changes {} in place, and the sample of {} lies in the same memory. The graph has memory of "
            "its own for each: pass a copy (clone) of one of them.",
            parts_.argument_names[i], parts_.argument_names[k]));
}

// The option may be off: memory that is dead by now would be so in every replay.
void GraphedCapture::capture(CUDAGraph& graph, const std::function<void()>& body) const {
  constexpr const char* call = "capture";
  auto& liveness = graphs::GraphAccess::of(graph, call).listeners.liveness();
  liveness.look_for_freed_tensors();
  reprise::capture(graph, graph_options(), body);
  liveness.require_live(call);
}

void GraphedCapture::capture_forward(const StreamRef& stream, const std::shared_ptr<PoolOrder>& order) {
  stream_ = stream;
  parts_.order = order;
  leaves_ = fresh_leaves();
  std::vector<std::int64_t> versions;
  for (const at::Tensor& each : leaves_) versions.push_back(each.defined() ? each._version() : 0);
  capture(parts_.forward, [&] {
    parts_.staged_inputs.capture(parts_.inputs);
    results_ = run(leaves_);
    give_own_memory(results_);
    if (parts_.options.outputs == Outputs::copy) parts_.fresh_outputs.capture(results_, results_.size());
  });
  check_history(results_);
  parts_.order_number = order->add_forward(parts_.name);
  for (std::size_t i = 0; i < leaves_.size(); ++i)
    parts_.mutated.push_back(leaves_[i].defined() && leaves_[i]._version() != versions[i] ? 1 : 0);
  check_changed_samples();
  for (const at::Tensor& each : results_) {
    // One of its storages is this one; others are what autograd keeps, or tensors in the same memory.
    parts_.saved.push_back(each.defined() && each.storage().use_count() > 1 ? 1 : 0);
    parts_.outputs.push_back(each.defined() ? each.detach() : each);
  }
  parts_.differentiable = differentiable(results_);
  results_ = only(results_, parts_.differentiable);
  parts_.output_gradients = zeros_for(results_);
}

void GraphedCapture::capture_backward() {
  if (!results_.empty()) {
    parts_.backward.emplace();
    capture(*parts_.backward, [&] {
      parts_.staged_gradients.capture(parts_.output_gradients);
      parts_.gradients = gradients_of(leaves_, results_, parts_.output_gradients);
      check_used(parts_.gradients);
      give_own_memory_to_gradients();
      // The last nodes copy the gradients to the memory that is returned. Those in the graph are not needed afterwards.
      if (parts_.options.gradients == Gradients::fresh)
        parts_.fresh_gradients.capture(std::exchange(parts_.gradients, {}), parts_.inputs.size());
    });
    parts_.order->add_backward(parts_.order_number);
  }
  // Nodes that accumulate gradients, and that remember this stream, go with the history.
  results_.clear();
  leaves_.clear();
}

void GraphedCapture::give_own_memory_to_gradients() {
  std::vector<at::Tensor> taken;
  if (parts_.options.gradients == Gradients::alias) {
    taken = parts_.output_gradients;
    for (const auto& tensors : {parts_.inputs, parts_.outputs, parts_.watched.buffers()})
      taken.insert(taken.end(), tensors.begin(), tensors.end());
    for (const auto& [name, each] : parts_.watched.named_parameters()) taken.push_back(each);
  }
  for (at::Tensor& each : parts_.gradients) {
    if (!each.defined()) continue;
    if (each.is_conj() || each.is_neg() || shares_memory(each, taken)) each = each.clone();
    if (!each.is_non_overlapping_and_dense()) each = each.contiguous();
    if (parts_.options.gradients == Gradients::alias) taken.push_back(each);
  }
}

// Kept for a running launch, on any stream, after the callable is destroyed.
void GraphedCapture::keep_memory() {
  using Tensors = std::vector<at::Tensor>;
  const auto keep = [](CUDAGraph& graph, std::initializer_list<Tensors> rows) {
    graph.retain(std::make_shared<std::vector<Tensors>>(rows));
  };
  keep(parts_.forward, {parts_.inputs, parts_.outputs});
  if (parts_.backward) keep(*parts_.backward, {parts_.outputs, parts_.output_gradients, parts_.gradients});
}

std::shared_ptr<CapturedFunction> GraphedCapture::finish() {
  keep_memory();
  graphs::reserve(parts_.forward, "graphed " + *parts_.name);
  if (parts_.backward) graphs::reserve(*parts_.backward, "graphed " + *parts_.name);
  return std::make_shared<CapturedFunction>(std::move(parts_));
}

}  // namespace reprise::libtorch::detail
