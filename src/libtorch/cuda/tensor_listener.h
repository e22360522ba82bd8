// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <memory>
#include <optional>

#include "graph/listeners/capture_listener.h"
#include "libtorch/cuda/blas_workspaces.h"
#include "libtorch/cuda/tensor_pool.h"

namespace reprise::libtorch {

/// Routes CUDA tensors made in a capture, and the workspaces of cuBLAS, to the graph's pool of libtorch's allocator;
/// both live as long as the graph and its launches. No-op in captures of other devices.
class TensorListener final : public graphs::CaptureListener {
 public:
  void begin(captures::Capture& capture) override;
  void ended(captures::Capture& capture, graphs::CapturedGraph& graph) override;
  void abandoned(captures::Capture& capture) noexcept override;

 private:
  struct Held {
    std::shared_ptr<TensorPool> pool;
    BlasWorkspaces::Held workspaces;  // destroyed first: they lie in the pool
  };

  std::shared_ptr<Held> held_;                // until the graph holds it
  std::optional<TensorRoute> route_;          // while the capture is underway
  std::optional<BlasWorkspaces> workspaces_;  // likewise
};

}  // namespace reprise::libtorch
