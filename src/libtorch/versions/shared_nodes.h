// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <ATen/core/Tensor.h>
#include <torch/csrc/autograd/function.h>
#include <torch/csrc/autograd/variable.h>

#include <memory>
#include <utility>

// Up to libtorch 2.12 the nodes of autograd's graph are held by std::shared_ptr.

namespace reprise::libtorch::version {

using NodePointer = std::shared_ptr<torch::autograd::Node>;

template <class Node, class... Arguments>
NodePointer make_node(Arguments&&... arguments) {
  return {new Node(std::forward<Arguments>(arguments)...), torch::autograd::deleteNode};
}

/// The node that accumulates the gradient of a leaf; null: none.
inline void set_grad_accumulator(const at::Tensor& leaf, const NodePointer& node) {
  torch::autograd::impl::set_grad_accumulator(leaf, node);
}

}  // namespace reprise::libtorch::version
