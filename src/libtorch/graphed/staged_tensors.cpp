// SPDX-License-Identifier: Apache-2.0
#include "libtorch/graphed/staged_tensors.h"

#include <algorithm>
#include <utility>

#include "libtorch/tensor_device.h"
#include "reprise/stream.h"

namespace reprise::libtorch {
namespace {

bool same_order(const at::Tensor& a, const at::Tensor& b) {
  return (a.is_contiguous() && b.is_contiguous()) || a.strides().equals(b.strides());
}

}  // namespace

std::pair<std::uintptr_t, std::uintptr_t> memory_range(const at::Tensor& tensor) {
  const auto begin = reinterpret_cast<std::uintptr_t>(tensor.const_data_ptr());
  if (tensor.numel() == 0) return {begin, begin};
  std::int64_t last = 0;
  for (std::int64_t i = 0; i < tensor.dim(); ++i) last += (tensor.size(i) - 1) * tensor.stride(i);
  return {begin, begin + static_cast<std::size_t>(last + 1) * tensor.itemsize()};
}

bool may_overlap(const at::Tensor& a, const at::Tensor& b) {
  if (!a.defined() || !b.defined()) return false;
  const auto [a_begin, a_end] = memory_range(a);
  const auto [b_begin, b_end] = memory_range(b);
  return a_begin < b_end && b_begin < a_end;
}

bool same_memory(const at::Tensor& a, const at::Tensor& b) {
  return a.const_data_ptr() == b.const_data_ptr() && a.strides().equals(b.strides()) && a.is_conj() == b.is_conj() &&
         a.is_neg() == b.is_neg();
}

void StagedTensors::capture(const std::vector<at::Tensor>& tensors) {
  for (const at::Tensor& each : tensors) {
    Staged& made = staged_.emplace_back();
    if (!each.defined()) continue;
    made = {each, each.mutable_data_ptr(), each.nbytes(),
            each.is_non_overlapping_and_dense() && !each.is_conj() && !each.is_neg()};
    const auto [begin, end] = memory_range(each);
    begin_ = std::min(begin_, begin);
    end_ = std::max(end_, end);
  }
  const auto any = std::find_if(tensors.begin(), tensors.end(), [](const auto& each) { return each.defined(); });
  if (any != tensors.end()) nodes_.capture(current_stream(device_of_tensors(any->device())), tensors.size());
}

bool StagedTensors::in_the_way(std::size_t number, const at::Tensor& from) const {
  if (!from.defined()) return false;
  const auto begin = reinterpret_cast<std::uintptr_t>(from.const_data_ptr());
  if (begin < begin_ || begin >= end_ || same_memory(from, staged_[number].tensor)) return false;
  return std::any_of(staged_.begin(), staged_.end(),
                     [&](const Staged& each) { return may_overlap(from, each.tensor); });
}

void StagedTensors::stage(std::size_t number, const at::Tensor& from) {
  const Staged& to = staged_[number];
  if (!to.tensor.defined() || same_memory(to.tensor, from)) {
    keep(number);
  } else if (to.dense && same_order(to.tensor, from) && !from.is_conj() && !from.is_neg()) {
    nodes_.set(number, {to.data, from.const_data_ptr(), to.bytes});
    to.tensor.unsafeGetTensorImpl()->bump_version();
  } else {
    keep(number);
    to.tensor.copy_(from, /*non_blocking=*/true);
  }
}

}  // namespace reprise::libtorch
