// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <vector>

#include "graph/capture/framework_captures.h"
#include "libtorch/cuda/cuda_random_listener.h"
#include "libtorch/cuda/tensor_listener.h"

namespace reprise::libtorch {

/// The listeners of CUDA tensors in one graph.
class CudaListeners final : public graphs::FrameworkListeners {
 public:
  std::vector<graphs::CaptureListener*> in_order() override { return {&random, &tensors}; }
  std::shared_ptr<void> save_generators() const override { return random.save_generators(); }

  CudaRandomListener random;  // before memory is routed: what it allocates is no graph's
  TensorListener tensors;
};

}  // namespace reprise::libtorch
