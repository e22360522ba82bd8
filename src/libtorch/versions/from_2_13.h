// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <ATen/core/Tensor.h>
#include <c10/util/intrusive_ptr.h>
#include <torch/csrc/autograd/function.h>
#include <torch/csrc/autograd/variable.h>

#include <utility>

// libtorch 2.13 and later.

namespace reprise::libtorch::version {

using NodePointer = c10::intrusive_ptr<torch::autograd::Node>;

template <class Node, class... Arguments>
NodePointer make_node(Arguments&&... arguments) {
  return c10::make_intrusive<Node>(std::forward<Arguments>(arguments)...);
}

/// The node that accumulates the gradient of a leaf; null: none.
inline void set_grad_accumulator(const at::Tensor& leaf, const NodePointer& node) {
  torch::autograd::impl::set_grad_accumulator(leaf, c10::weak_intrusive_ptr<torch::autograd::Node>(node));
}

}  // namespace reprise::libtorch::version
