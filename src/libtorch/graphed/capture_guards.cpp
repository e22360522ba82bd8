// SPDX-License-Identifier: Apache-2.0
#include "libtorch/graphed/capture_guards.h"

#include <ATen/Context.h>
#include <ATen/MemoryOverlap.h>
#include <ATen/core/grad_mode.h>
#include <c10/core/InferenceMode.h>
#include <torch/csrc/autograd/variable.h>

#include <algorithm>
#include <mutex>
#include <optional>

#include "libtorch/cuda/cuda_tensors.h"
#include "reprise/error.h"
#include "text/format.h"

namespace reprise::libtorch {

bool autograd_records() {
  return c10::GradMode::is_enabled() && !c10::InferenceMode::is_enabled();
}

namespace impl = torch::autograd::impl;

QuietLeaves::QuietLeaves(const std::vector<at::Tensor>& leaves, bool hooks_run) : hooks_run_(hooks_run) {
  leaves_.reserve(leaves.size());
  for (const at::Tensor& each : leaves) {
    if (std::any_of(leaves_.begin(), leaves_.end(), [&](const Leaf& known) { return known.tensor.is_same(each); }))
      continue;  // callables share it
    Leaf& leaf = leaves_.emplace_back(Leaf{each, impl::try_get_grad_accumulator(each), {}});
    const bool has_hooks = leaf.accumulator != nullptr &&
                           (!leaf.accumulator->pre_hooks().empty() || !leaf.accumulator->post_hooks().empty());
    if (!(hooks_run && has_hooks)) version::set_grad_accumulator(each, {});
    if (!hooks_run) std::swap(leaf.hooks, impl::hooks(each));
  }
}

QuietLeaves::~QuietLeaves() {
  for (Leaf& each : leaves_) {
    version::set_grad_accumulator(each.tensor, each.accumulator);
    if (!hooks_run_) std::swap(each.hooks, impl::hooks(each.tensor));
  }
}

void warn_not_restored(const std::exception& error) {
  warn(text::format("What a warm-up had changed could not be restored: {}", error.what()));
}

void write_back(const at::Tensor& tensor, const at::Tensor& values) {
  const at::NoGradGuard no_grad;
  std::optional<c10::InferenceMode> mode;  // the only one in which inference tensors can be written
  if (tensor.is_inference()) mode.emplace();
  tensor.detach().copy_(values);
}

void set_version(const at::Tensor& tensor, std::uint32_t version) {
  c10::VariableVersion counter = tensor.unsafeGetTensorImpl()->version_counter();  // the same counter
  if (counter.enabled() && counter.current_version() != version) counter.set_version(version);
}

Restored::Restored(c10::Device device, const std::vector<at::Tensor>& tensors)
    : generator_(at::globalContext().defaultGenerator(device)) {
  const at::NoGradGuard no_grad;
  for (const at::Tensor& each : tensors)
    // Expanded tensors, with several values at one address, cannot be written.
    if (at::has_internal_overlap(each) != at::MemOverlap::Yes) tensors_.emplace_back(each, each.detach().clone());
  const std::lock_guard lock(generator_.mutex());
  state_ = generator_.get_state();
  seed_ = generator_.current_seed();
  offset_ = generator_.get_offset();
}

Restored::~Restored() {
  try {
    restore();
  } catch (const std::exception& error) {
    warn_not_restored(error);
  }
}

void Restored::restore() {
  // The destructor retries what fails.
  for (; !tensors_.empty(); tensors_.pop_back()) write_back(tensors_.back().first, tensors_.back().second);
  if (!state_.defined()) return;
  const std::lock_guard lock(generator_.mutex());
  if (generator_.device().is_cuda() && generator_.current_seed() == seed_)
    set_cuda_offset(generator_, offset_);
  else if (!generator_.get_state().equal(state_))
    generator_.set_state(state_);
  state_ = at::Tensor();
}

}  // namespace reprise::libtorch
