// SPDX-License-Identifier: Apache-2.0
#include "reprise/libtorch/eager_tensors.h"

#include <ATen/Functions.h>
#include <c10/core/GradMode.h>

#include "libtorch/tensor_device.h"
#include "reprise/libtorch/graph.h"
#include "text/format.h"

namespace reprise::libtorch::detail {
namespace {

std::string text_of_tensor(const at::Tensor& tensor) {
  if (!tensor.defined()) return "an undefined tensor";
  return text::format("a tensor of {} with sizes [{}] on {}", text_of(tensor.scalar_type()),
                      text::join(tensor.sizes(), ", "), tensor.device().str());
}

[[noreturn]] void refuse(std::size_t number, const std::string& expected, const std::string& found,
                         const char* instead) {
  throw UsageError(text::format("eager: expected the function of an eager part to return {} as tensor {}; found {}. {}",
                                expected, number, found, instead));
}

constexpr const char* capture_again =
    "The segments behind it read as much as was captured: return the same shapes and types each time, or capture again "
    "for other ones.";

}  // namespace

const std::vector<at::Tensor>& FixedTensors::make(const std::vector<at::Tensor>& like, const StreamRef& stream) {
  const c10::InferenceMode no_inference(false);
  const c10::AutoGradMode no_grad(false);
  std::vector<at::Tensor> made;
  for (const at::Tensor& each : like) {
    if (each.defined() && (each.is_cpu() || device_of_tensors(each.device()) != stream.device()))
      refuse(made.size(), text::format("one of device {}, on which it is captured,", stream.device().str()),
             text_of_tensor(each), "Move it there, or leave it out of the results.");
    made.push_back(each.defined() ? at::empty_like(each.detach()) : at::Tensor());
  }
  tensors_ = std::move(made);
  return tensors_;
}

void FixedTensors::copy(const std::vector<at::Tensor>& returned, bool same_structure, const StreamRef& stream) const {
  if (!same_structure || returned.size() != tensors_.size())
    throw UsageError(
        text::format("eager: expected the function of an eager part to return tensors in the same structure as in the "
                     "capture, with the same values; found another one. {}",
                     capture_again));
  const c10::AutoGradMode no_grad(false);
  const StreamGuard current(stream);
  for (std::size_t i = 0; i < tensors_.size(); ++i) {
    const at::Tensor &to = tensors_[i], &from = returned[i];
    if (to.defined() != from.defined() ||
        (to.defined() &&
         (to.sizes() != from.sizes() || to.scalar_type() != from.scalar_type() || to.device() != from.device())))
      refuse(i, text_of_tensor(to), text_of_tensor(from), capture_again);
    if (!to.defined()) continue;
    to.copy_(from.detach(), /*non_blocking=*/true);
    if (from.device() == to.device() && !from.is_cpu()) from.record_stream(c10_stream(stream));
  }
}

}  // namespace reprise::libtorch::detail
