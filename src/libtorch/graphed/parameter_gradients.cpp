// SPDX-License-Identifier: Apache-2.0
#include "libtorch/graphed/parameter_gradients.h"

#include <ATen/ops/_foreach_add.h>
#include <ATen/ops/empty_strided.h>
#include <torch/csrc/autograd/cpp_hook.h>
#include <torch/csrc/autograd/function.h>
#include <torch/csrc/autograd/variable.h>

#include <algorithm>
#include <map>
#include <mutex>
#include <utility>

#include "backend/backend.h"
#include "backend/check.h"
#include "captures/registry.h"
#include "libtorch/graphed/lent_tensors.h"
#include "libtorch/tensor_device.h"
#include "reprise/error.h"
#include "support/immortal.h"
#include "text/format.h"

namespace reprise::libtorch {
namespace {

std::vector<GraphNodeHandle> nodes_of_capture(const StreamRef& stream) {
  const backend::Checked runtime(stream.device().backend());
  std::vector<GraphNodeHandle> nodes;
  runtime.graph_nodes(captures::find(stream).info.graph, &nodes);
  return nodes;
}

// Autograd's layout of a gradient that it keeps: that of the parameter, if it has no gaps and overlaps.
at::Tensor like_gradient_of(const at::Tensor& parameter) {
  at::Tensor like = tensor_in(
      c10::Storage(c10::Storage::use_byte_size_t(), 0, at::DataPtr(nullptr, parameter.device())), parameter, 0);
  if (!parameter.is_non_overlapping_and_dense()) like.unsafeGetTensorImpl()->set_sizes_contiguous(parameter.sizes());
  return like;
}

}  // namespace

bool has_gradient_hooks(const at::Tensor& leaf) {
  const auto* const meta = torch::autograd::impl::get_autograd_meta(leaf);
  if (meta == nullptr) return false;
  if (meta->post_acc_grad_hooks_ != nullptr) return true;
  if (!meta->hooks_.empty()) {
    // One object stands for all hooks of C++, and stays when they are removed.
    const auto& list = meta->cpp_hooks_list_;
    if (list == nullptr || meta->hooks_.size() > 1 ||
        std::any_of(list->begin(), list->end(), [](const auto& hook) { return hook != nullptr; }))
      return true;
  }
  if (meta->grad_accumulator_.expired()) return false;
  const auto accumulator = meta->grad_accumulator_.lock();
  return accumulator != nullptr && (!accumulator->pre_hooks().empty() || !accumulator->post_hooks().empty());
}

// The tensor for `.grad`: the same one again, unless it is referenced elsewhere or was changed.
const at::Tensor& ParameterGradients::Place::view() {
  const bool as_it_was = given.defined() && given.use_count() == 1 &&
                         given.unsafeGetTensorImpl()->autograd_meta() == nullptr && same_place(given);
  if (!as_it_was) given = tensor_in(memory.storage(), memory, memory.storage_offset());
  return given;
}

bool ParameterGradients::Place::same_place(const at::Tensor& tensor) const {
  return tensor.const_data_ptr() == memory.const_data_ptr() && tensor.scalar_type() == memory.scalar_type() &&
         tensor.sizes().equals(memory.sizes()) && tensor.strides().equals(memory.strides());
}

/// The places of all parameters in the process.
class ParameterGradients::Places {
 public:
  /// Returns the place of each parameter; new places lie in one piece of memory.
  static std::vector<std::shared_ptr<Place>> of(const std::vector<at::Tensor>& parameters) {
    static support::Immortal<Places> places;
    return places->find(parameters);
  }

 private:
  std::vector<std::shared_ptr<Place>> find(const std::vector<at::Tensor>& parameters) {
    const std::lock_guard lock(mutex_);
    std::erase_if(known_, [](const auto& each) { return each.second.expired(); });
    std::vector<std::shared_ptr<Place>> found;
    std::vector<std::pair<Place*, std::size_t>> made;  // and their offsets
    std::size_t bytes = 0;
    for (const at::Tensor& each : parameters) {
      at::Tensor like = like_gradient_of(each);
      auto& known = known_[each.unsafeGetTensorImpl()];
      auto place = known.lock();
      if (!place || !fits(*place, like)) {
        known = place = std::make_shared<Place>(Place{each, like, {}});
        made.emplace_back(place.get(), bytes);
        bytes += aligned_size(like.nbytes());
      }
      found.push_back(std::move(place));
    }
    if (made.empty()) return found;
    const c10::Storage buffer = new_storage(parameters.front().device(), bytes);
    for (const auto& [place, offset] : made)
      place->memory = tensor_in(buffer, place->memory, static_cast<std::int64_t>(offset / place->memory.itemsize()));
    return found;
  }

  // A parameter with a new type or device needs another place; users of the old one notice.
  static bool fits(const Place& place, const at::Tensor& like) {
    return place.memory.device() == like.device() && place.memory.scalar_type() == like.scalar_type() &&
           place.memory.sizes().equals(like.sizes()) && place.memory.strides().equals(like.strides());
  }

  std::mutex mutex_;
  std::map<const c10::TensorImpl*, std::weak_ptr<Place>> known_;  // a place keeps its parameter
};

ParameterGradients::ParameterGradients(const std::vector<at::Tensor>& parameters,
                                       const std::vector<std::string>& names) {
  const auto places = Places::of(parameters);
  for (std::size_t i = 0; i < places.size(); ++i) gradients_.push_back({places[i], names[i], nullptr});
}

void ParameterGradients::capture(const std::vector<at::Tensor>& gradients) {
  std::vector<at::Tensor> to, from;
  for (std::size_t i = 0; i < gradients_.size(); ++i) {
    if (!gradients[i].defined()) continue;
    Gradient& gradient = gradients_[i];
    const at::Tensor& memory = gradient.place->memory;
    at::Tensor values = gradients[i];
    if (!values.strides().equals(memory.strides()) || values.is_conj() || values.is_neg())
      values = at::empty_strided(memory.sizes(), memory.strides(), memory.options()).copy_(values);
    gradient.data = values.const_data_ptr();
    gradient.copy = to.size();
    gradient.has_gradient = true;
    to.push_back(memory);
    from.push_back(std::move(values));
  }
  if (to.empty()) return;
  device_ = device_of_tensors(to.front().device());
  const StreamRef stream = current_stream(*device_);
  copies_.capture(stream, to.size());
  const auto before = nodes_of_capture(stream);
  at::_foreach_add_(to, from);
  for (const GraphNodeHandle node : nodes_of_capture(stream))
    if (std::find(before.begin(), before.end(), node) == before.end()) adds_.push_back(node);
}

ParameterGradients::Found ParameterGradients::look(const Gradient& gradient) const {
  const at::Tensor& grad = gradient.place->parameter.grad();
  const at::Tensor& memory = gradient.place->memory;
  if (!grad.defined()) return Found::none;
  if (memory.numel() == 0) return Found::here;
  if (grad.layout() != c10::kStrided || !grad.storage().is_alias_of(memory.storage())) return Found::elsewhere;
  if (gradient.place->same_place(grad)) return Found::here;
  throw UsageError(
      text::format("the gradient of {} was replaced by another view of the memory where the graph adds gradients up. "
                   "Set it to none, to zero, or to a tensor in memory of its own.",
                   gradient.name));
}

void ParameterGradients::prepare(bool wanted) {
  mode_ = Mode::leave;
  std::size_t here = 0, all = 0;
  for (Gradient& each : gradients_) {
    if (has_gradient_hooks(each.place->parameter))
      throw UsageError(
          text::format("{} has a hook, which waits for a gradient. The graph itself adds that to .grad "
                       "(Gradients::accumulate_in_graph). Remove the hook, or make the callable with Gradients::fresh.",
                       each.name));
    if (!wanted || !each.has_gradient) continue;
    if (!each.place->parameter.requires_grad())
      throw UsageError(
          text::format("{} needs no gradient any more, and the graph adds one to its .grad. Freeze parameters before a "
                       "call, and make the callable again.",
                       each.name));
    each.found = look(each);
    ++all;
    here += each.found == Found::here ? 1 : 0;
  }
  if (wanted && all > 0) mode_ = here == 0 ? Mode::overwrite : Mode::add;
  for (const Gradient& each : gradients_) {
    if (!each.has_gradient) continue;
    const at::Tensor& memory = each.place->memory;
    const bool copied = mode_ == Mode::overwrite;
    copies_.set(each.copy, {memory.mutable_data_ptr(), each.data, copied ? memory.nbytes() : 0});
    if (mode_ == Mode::add && each.found != Found::here) memory.fill_(-0.0);
  }
}

void ParameterGradients::update(GraphExecHandle exec) {
  copies_.update(exec);
  if (adds_enabled_ != (mode_ == Mode::add)) enable_adds(exec, mode_ == Mode::add);
}

void ParameterGradients::enable_adds(GraphExecHandle exec, bool enabled) {
  adds_enabled_.reset();
  for (const GraphNodeHandle node : adds_)
    backend::Checked(device_->backend()).graph_node_set_enabled(exec, node, enabled);
  adds_enabled_ = enabled;
}

void ParameterGradients::finish() {
  if (mode_ == Mode::leave) return;
  for (const Gradient& each : gradients_) {
    if (!each.has_gradient) continue;
    const at::Tensor& memory = each.place->memory;
    at::Tensor& grad = each.place->parameter.mutable_grad();
    if (each.found == Found::elsewhere)
      grad.add_(memory);
    else if (each.found == Found::none)
      grad = each.place->view();
    else
      grad.unsafeGetTensorImpl()->bump_version();
  }
}

std::vector<at::Tensor> ParameterGradients::memory() const {
  std::vector<at::Tensor> all;
  for (const Gradient& each : gradients_) all.push_back(each.place->memory);
  return all;
}

}  // namespace reprise::libtorch
