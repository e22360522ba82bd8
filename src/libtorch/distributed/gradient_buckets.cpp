// SPDX-License-Identifier: Apache-2.0
#include "libtorch/distributed/gradient_buckets.h"

#include <ATen/ATen.h>
#include <ATen/core/LegacyTypeDispatch.h>
#include <torch/csrc/autograd/function_hook.h>
#include <torch/csrc/autograd/variable.h>

#include <algorithm>
#include <map>
#include <utility>

#include "captures/registry.h"
#include "libtorch/tensor_device.h"
#include "reprise/error.h"
#include "text/format.h"

namespace reprise::libtorch::detail {
namespace {

constexpr std::int64_t aligned_bytes = 256;  // for wide loads of kernels

// The backward pass has work enough; other ranks wait for the reductions.
constexpr StreamOptions before_others{.priority = -5};  // the highest of CUDA's

/// Does not keep the buckets alive, which keep the parameter.
struct GradientHook final : torch::autograd::PostAccumulateGradHook {
  GradientHook(std::weak_ptr<GradientBuckets> of, std::size_t number) : buckets(std::move(of)), parameter(number) {}
  void operator()(const at::Tensor& /*tensor*/) override {
    if (const auto there = buckets.lock()) there->arrived(parameter);
  }
  std::weak_ptr<GradientBuckets> buckets;
  std::size_t parameter;
};

std::int64_t padded_count(const at::Tensor& tensor) {
  const std::int64_t aligned = aligned_bytes / static_cast<std::int64_t>(tensor.element_size());
  return (tensor.numel() + aligned - 1) / aligned * aligned;
}

// Makes a tensor that is no view for autograd: zero_grad() detaches gradients, which views do not allow.
at::Tensor view_like(const at::Tensor& values, std::int64_t offset, const at::Tensor& parameter) {
  const at::AutoDispatchBelowADInplaceOrView no_views;
  if (parameter.is_non_overlapping_and_dense())
    return values.as_strided(parameter.sizes(), parameter.strides(), offset);
  return values.narrow(0, offset, parameter.numel()).view(parameter.sizes());
}

bool is_at(const at::Tensor& gradient, const at::Tensor& view) {
  return gradient.const_data_ptr() == view.const_data_ptr() && gradient.strides() == view.strides() &&
         gradient.scalar_type() == view.scalar_type();
}

}  // namespace

GradientBuckets::GradientBuckets(std::vector<NamedTensor> trained, c10::Device device,
                                 c10::intrusive_ptr<c10d::Backend> group, const DataParallelOptions& options)
    : device_(device),
      here_(device_of_tensors(device)),
      communicator_(GroupCommunicator::of(group, here_)),
      average_(options.average),
      allow_unused_(options.allow_unused),
      copies_(here_, before_others),
      side_(here_, before_others) {
  for (NamedTensor& each : trained) gradients_.push_back({std::move(each)});
  fill_buckets(options.bucket_bytes);
}

// In reverse order, in which backward() mostly computes them. A bucket is complete when it has the bytes, or when no
// parameter of its type is left.
void GradientBuckets::fill_buckets(std::size_t bucket_bytes) {
  std::map<c10::ScalarType, std::pair<std::vector<std::size_t>, std::size_t>> open;  // gradients, and their bytes
  for (std::size_t i = gradients_.size(); i-- > 0;) {
    const at::Tensor& parameter = gradients_[i].parameter.tensor;
    auto& [gradients, size] = open[parameter.scalar_type()];
    gradients.push_back(i);
    size += static_cast<std::size_t>(padded_count(parameter)) * parameter.element_size();
    if (size < bucket_bytes) continue;
    add_bucket(gradients);
    open.erase(parameter.scalar_type());
  }
  for (const auto& [type, last] : open) add_bucket(last.first);
}

void GradientBuckets::add_bucket(const std::vector<std::size_t>& gradients) {
  std::int64_t count = 0;
  for (const std::size_t each : gradients) count += padded_count(gradients_[each].parameter.tensor);
  const at::Tensor& first = gradients_[gradients.front()].parameter.tensor;
  const at::NoGradGuard no_grad;
  Bucket bucket{at::zeros({count}, first.options().requires_grad(false)), gradients, gradients.size()};
  std::int64_t offset = 0;
  for (const std::size_t each : gradients) {
    Gradient& gradient = gradients_[each];
    gradient.view = view_like(bucket.values, offset, gradient.parameter.tensor);
    gradient.bucket = buckets_.size();
    offset += padded_count(gradient.parameter.tensor);
  }
  buckets_.push_back(std::move(bucket));
}

void GradientBuckets::add_hooks() {
  for (const Gradient& each : gradients_)
    if (torch::autograd::impl::post_acc_grad_hooks(each.parameter.tensor) != nullptr)
      throw UsageError(text::format(
          "DataParallel: the parameter {} has a hook after its gradient already, of another DataParallel or "
          "of other code, and libtorch has one for each tensor. Destroy or remove that first.",
          each.parameter.name));
  for (std::size_t i = 0; i < gradients_.size(); ++i)
    torch::autograd::impl::set_post_acc_grad_hooks(gradients_[i].parameter.tensor,
                                                   std::make_unique<GradientHook>(weak_from_this(), i));
}

void GradientBuckets::remove_hooks() noexcept {
  for (const Gradient& each : gradients_)
    torch::autograd::impl::set_post_acc_grad_hooks(each.parameter.tensor, nullptr);
}

void GradientBuckets::connect() {
  const StreamRef here = current_stream(here_);
  copies_.wait(here);
  for (const Bucket& each : buckets_) reduce(each, here);
  here.wait(side_);
}

void GradientBuckets::begin_round(const StreamRef& here) {
  const std::uint64_t capture = captures::find(here).id();
  if (underway_ && capture != capture_) drop_round();
  underway_ = true;
  capture_ = capture;
}

void GradientBuckets::drop_round() noexcept {
  underway_ = false;
  next_ = 0;
  for (Gradient& each : gradients_) each.arrived = false;
  for (Bucket& each : buckets_) {
    each.missing = each.gradients.size();
    each.streams.clear();
    each.copied.clear();
  }
}

void GradientBuckets::arrived(std::size_t parameter) {
  const std::lock_guard lock(mutex_);
  const StreamRef here = current_stream(here_);
  begin_round(here);
  Gradient& gradient = gradients_[parameter];
  const at::Tensor& found = gradient.parameter.tensor.grad();
  if (found.layout() != c10::kStrided || found.device() != device_ ||
      found.scalar_type() != gradient.view.scalar_type()) {
    drop_round();
    throw UsageError(text::format(
        "DataParallel: expected a dense gradient of {} on {} for the parameter {}, as the parameter was when "
        "DataParallel was made. A sparse gradient cannot be reduced; move or convert a model before it is passed to "
        "DataParallel.",
        c10::toString(gradient.view.scalar_type()), device_.str(), gradient.parameter.name));
  }
  if (gradient.arrived) {
    drop_round();
    throw UsageError(
        text::format("DataParallel: the parameter {} got a second gradient before finish(). Call finish() after each "
                     "backward(). Other ranks may wait for this one.",
                     gradient.parameter.name));
  }
  gradient.arrived = true;
  Bucket& bucket = buckets_[gradient.bucket];
  --bucket.missing;
  if (std::ranges::find(bucket.streams, here) == bucket.streams.end()) bucket.streams.push_back(here);
  reduce_in_order(here);
}

// In the same order on all ranks, whatever the order of the gradients.
void GradientBuckets::reduce_in_order(const StreamRef& here) {
  for (; next_ < buckets_.size() && buckets_[next_].missing == 0; ++next_) {
    gather(buckets_[next_], here);
    reduce(buckets_[next_], here);
  }
}

// Copies gradients to the bucket that do not lie in it yet. On a stream of its own: the backward pass need not wait for
// the copies, nor the copies for the reductions of the buckets before.
void GradientBuckets::gather(Bucket& bucket, const StreamRef& here) {
  const at::NoGradGuard no_grad;
  copies_.wait(here);
  for (const StreamRef& each : bucket.streams)
    if (each != here) copies_.wait(each);
  const StreamGuard on_copies(copies_.ref());
  std::vector<at::Tensor> views;
  for (const std::size_t each : bucket.gradients) {
    const Gradient& gradient = gradients_[each];
    at::Tensor& now = gradient.parameter.tensor.mutable_grad();
    if (!gradient.arrived) {
      gradient.view.zero_();
    } else if (!is_at(now, gradient.view)) {
      bucket.copied.push_back(now);
      views.push_back(gradient.view);
    }
    now = gradient.view;
  }
  if (!views.empty()) at::_foreach_copy_(views, bucket.copied);
}

void GradientBuckets::reduce(const Bucket& bucket, const StreamRef& here) {
  hold_in_capture(here);
  side_.wait(copies_);
  const StreamGuard on_side(side_.ref());
  const at::NoGradGuard no_grad;
  c10d::AllreduceOptions options;
  options.reduceOp = average_ ? c10d::ReduceOp::AVG : c10d::ReduceOp::SUM;
  options.asyncOp = false;  // on the current stream
  std::vector<at::Tensor> values{bucket.values.is_complex() ? at::view_as_real(bucket.values) : bucket.values};
  if (const auto work = communicator_->group().allreduce(values, options)) work->synchronize();
}

void GradientBuckets::hold_in_capture(const StreamRef& here) {
  if (capture_ == 0) return;
  const captures::Found found = captures::find(here);
  if (found.part != captures::Part::own) return;
  if (const auto collectives = graphs::CapturedCollectives::of(*found.capture))
    collectives->add(communicator_, shared_from_this());
}

void GradientBuckets::finish() {
  const std::lock_guard lock(mutex_);
  if (buckets_.empty()) return;
  const StreamRef here = current_stream(here_);
  begin_round(here);
  const auto unused = std::ranges::find(gradients_, false, &Gradient::arrived);
  if (unused != gradients_.end() && !allow_unused_) {
    const auto others = std::ranges::count(gradients_, false, &Gradient::arrived) - 1;
    const std::string name = unused->parameter.name;
    drop_round();
    throw UsageError(text::format(
        "DataParallel::finish: the parameter {}{} got no gradient since the last finish(): backward() did "
        "not reach it, or was not called. Leave it out of the model, set requires_grad to false before "
        "DataParallel is made, or set DataParallelOptions::allow_unused. Other ranks may wait for this one.",
        name, others == 0 ? "" : text::format(" and {} more", others)));
  }
  for (Bucket& each : buckets_) each.missing = 0;
  reduce_in_order(here);
  here.wait(side_);
  // Their memory is released for the stream that they were computed on. Another one than this does not wait for the
  // copies.
  for (const Bucket& bucket : buckets_)
    if (std::ranges::any_of(bucket.streams, [&](const StreamRef& each) { return each != here; }))
      for (const at::Tensor& each : bucket.copied) each.record_stream(c10_stream(copies_.ref()));
  drop_round();
}

}  // namespace reprise::libtorch::detail
