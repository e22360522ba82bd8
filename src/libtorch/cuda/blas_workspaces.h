// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <memory>
#include <vector>

#include "libtorch/cuda/tensor_pool.h"
#include "reprise/handles.h"

namespace reprise::libtorch {

struct BlasWorkspace;

/// The workspaces of cuBLAS and cuBLASLt in one capture. libtorch keeps one for each pair of handle and stream, in two
/// maps, for ever. During a capture these are put aside: workspaces made in it lie in the capture's pool, are owned by
/// the graphs of that pool that use them, and are shared with later captures into the pool on the same stream.
///
/// While any capture is underway, eager work of other threads uses separate workspaces, too, which are released when
/// the next capture begins.
///
/// Constructed before the capture begins. take() when it has ended; otherwise the destructor releases everything.
class BlasWorkspaces {
 public:
  using Held = std::vector<std::shared_ptr<BlasWorkspace>>;  ///< what a graph keeps

  BlasWorkspaces(const TensorPool& pool, StreamHandle begun_on);
  ~BlasWorkspaces();
  BlasWorkspaces(const BlasWorkspaces&) = delete;
  BlasWorkspaces& operator=(const BlasWorkspaces&) = delete;

  /// Returns the workspaces used by the capture, and restores libtorch's own.
  Held take();

 private:
  const TensorPool* pool_;
  bool underway_ = true;
};

}  // namespace reprise::libtorch
