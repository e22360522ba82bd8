// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <ATen/core/Tensor.h>

#include <functional>
#include <memory>

#include "libtorch/versions/version.h"
#include "reprise/stream.h"

// The node of autograd that adds the gradient of a leaf (AccumulateGrad) does so on the stream that was current when it
// was made. It lives as long as anything refers to it, such as the history of a loss, and forward passes share it.

namespace reprise::libtorch {

struct LeafElsewhere {
  at::Tensor leaf;
  version::NodePointer node;  ///< adds its gradient
  StreamRef from;             ///< where the gradient is made
  StreamRef to;               ///< of `node`
};

/// In a callback of at::RecordFunction around a node of autograd: calls the function for each leaf whose gradient that
/// node makes on another stream than the one where it is added.
void for_each_leaf_elsewhere(const std::function<void(const LeafElsewhere&)>& visit);

/// Watches backward passes on a stream, those of a warm-up. Destroying the result releases the nodes that add gradients
/// on other streams: the next forward pass, that of the capture, makes new ones on its own stream. Those with hooks
/// stay.
std::shared_ptr<void> renew_leaves_after(const StreamRef& stream);

}  // namespace reprise::libtorch
