// SPDX-License-Identifier: Apache-2.0
#include "reprise/libtorch/detail/call_key.h"

#include <ATen/autocast_mode.h>
#include <ATen/core/grad_mode.h>
#include <c10/core/DefaultDtype.h>
#include <c10/core/InferenceMode.h>

#include <algorithm>
#include <array>
#include <typeindex>

#include "libtorch/graphed/capture_guards.h"
#include "libtorch/graphed/staged_tensors.h"

namespace reprise::libtorch::detail {
namespace {

// Type, device, layout and need of a gradient; -1: undefined.
std::int64_t code_of(const at::Tensor& tensor) {
  if (!tensor.defined()) return -1;
  const auto part = [](auto value, int bits) { return static_cast<std::int64_t>(value) << bits; };
  return part(tensor.scalar_type(), 0) | part(tensor.layout(), 8) | part(tensor.device().type(), 16) |
         part(tensor.device().index() + 1, 24) | part(tensor.requires_grad() && autograd_records(), 40) |
         part(tensor.is_conj(), 41) | part(tensor.is_neg(), 42);
}

c10::IntArrayRef sizes_of(const at::Tensor& tensor) {
  return tensor.defined() ? tensor.sizes() : c10::IntArrayRef();
}

// Empty for those of a contiguous tensor, where dimensions of size 1 may have any.
c10::IntArrayRef strides_of(const at::Tensor& tensor) {
  return tensor.defined() && tensor.layout() == c10::kStrided && !tensor.is_contiguous() ? tensor.strides()
                                                                                         : c10::IntArrayRef();
}

// The numbers of each two tensors that may overlap, in order. Only that matters for the work: arguments are copied to
// memory of their own, and one that the callable changes must lie apart from the others.
std::vector<std::array<std::int64_t, 2>> overlaps(const std::vector<const at::Tensor*>& tensors) {
  struct Range {
    std::uintptr_t begin, end;
    std::int64_t number;
  };
  std::vector<Range> ranges;
  for (std::size_t i = 0; i < tensors.size(); ++i) {
    if (!tensors[i]->defined() || !tensors[i]->has_storage()) continue;
    const auto [begin, end] = memory_range(*tensors[i]);
    if (begin != 0) ranges.push_back({begin, end, static_cast<std::int64_t>(i)});
  }
  std::ranges::sort(ranges, {}, &Range::begin);
  std::vector<std::array<std::int64_t, 2>> pairs;
  for (std::size_t i = 0; i < ranges.size(); ++i)
    for (std::size_t k = i + 1; k < ranges.size() && ranges[k].begin < ranges[i].end; ++k)
      pairs.push_back({std::min(ranges[i].number, ranges[k].number), std::max(ranges[i].number, ranges[k].number)});
  std::ranges::sort(pairs);
  return pairs;
}

// One text if all are in the same mode, as they nearly always are.
std::string modes_of(const std::vector<std::shared_ptr<torch::nn::Module>>& modules) {
  std::string modes;
  for (const auto& each : modules) modes += each->is_training() ? 't' : 'e';
  const bool same = std::ranges::adjacent_find(modes, std::ranges::not_equal_to()) == modes.end();
  if (modes.empty() || !same) return modes;
  return modes.front() == 't' ? "train" : "eval";
}

}  // namespace

std::vector<std::shared_ptr<torch::nn::Module>> all_modules(
    const std::vector<std::shared_ptr<torch::nn::Module>>& modules) {
  std::vector<std::shared_ptr<torch::nn::Module>> all;
  for (const auto& module : modules)
    for (const auto& each : module->modules())
      if (std::ranges::find(all, each) == all.end()) all.push_back(each);
  return all;
}

std::vector<std::string> call_key_fields() {
  return {"types",    "structure", "values",    "kinds",    "sizes",       "strides",
          "overlaps", "modules",   "gradients", "autocast", "default type"};
}

bool CallRecorder::has_device() const {
  return std::ranges::any_of(tensors_, [](const at::Tensor* each) { return each->defined() && !each->is_cpu(); });
}

CallKey CallRecorder::key(const std::type_info& types, const std::vector<std::shared_ptr<torch::nn::Module>>& modules,
                          std::optional<c10::Device> device) && {
  CallKey call;
  std::vector<std::int64_t> kinds;
  std::vector<c10::IntArrayRef> sizes, strides;
  for (const at::Tensor* const each : tensors_) {
    kinds.push_back(code_of(*each));
    sizes.push_back(sizes_of(*each));
    strides.push_back(strides_of(*each));
    if (each->defined() && (!call.device || call.device->is_cpu())) call.device = each->device();
  }
  if (device && (!call.device || call.device->is_cpu())) call.device = device;
  const c10::DeviceType type = call.device ? call.device->type() : c10::DeviceType::CPU;
  const bool autocast = at::autocast::is_autocast_enabled(type);
  call.key.add(std::type_index(types))
      .add(structure_)
      .add(values_)
      .add(kinds)
      .add(sizes)
      .add(strides)
      .add(overlaps(tensors_));
  call.key.add(modes_of(modules))
      .add(autograd_records()                 ? "recorded"
           : c10::InferenceMode::is_enabled() ? "inference"
                                              : "none")
      .add(autocast ? c10::toString(at::autocast::get_autocast_dtype(type)) : "off")
      .add(static_cast<int>(c10::get_default_dtype_as_scalartype()));
  return call;
}

}  // namespace reprise::libtorch::detail
