// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <memory>
#include <vector>

#include "captures/capture.h"
#include "libtorch/cuda/tensor_pool.h"

namespace reprise::libtorch {

struct BlasWorkspace;

/// The workspaces of cuBLAS and cuBLASLt in one capture. libtorch keeps one for each pair of handle and stream, in two
/// maps, and never releases it. During a capture these are put aside: workspaces made in it lie in the capture's pool,
/// are owned by the graphs of that pool that use them, and are shared with later captures into the pool on the same
/// stream.
///
/// While any capture is underway, eager work of other threads uses separate workspaces, too, which are released when
/// the next capture begins.
///
/// Constructed before the capture begins. take() when it has ended; otherwise the destructor releases everything.
class BlasWorkspaces {
 public:
  using Held = std::vector<std::shared_ptr<BlasWorkspace>>;  ///< what a graph keeps

  /// \param pool of the capture.
  BlasWorkspaces(captures::Capture& capture, std::shared_ptr<TensorPool> pool);
  ~BlasWorkspaces();
  BlasWorkspaces(const BlasWorkspaces&) = delete;
  BlasWorkspaces& operator=(const BlasWorkspaces&) = delete;

  /// Returns the workspaces used by the capture, and restores libtorch's own.
  Held take();

 private:
  captures::Capture* capture_;  // null after take()
  std::shared_ptr<TensorPool> pool_;
};

}  // namespace reprise::libtorch
