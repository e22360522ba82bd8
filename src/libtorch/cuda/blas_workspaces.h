// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <memory>
#include <vector>

#include "libtorch/cuda/tensor_pool.h"
#include "reprise/handles.h"

namespace reprise::libtorch {

struct BlasWorkspace;

/// The workspaces of cuBLAS and cuBLASLt in one capture. libtorch keeps one for each pair of handle and stream, in two
/// maps, for good. For a capture they are put aside: what is made in it lies in the capture's pool, belongs to the
/// graphs of that pool that use it, and is lent to later captures into the pool on the same stream.
///
/// While any capture is underway, eager work of other threads gets workspaces of its own, too, which are given up when
/// the next capture begins.
///
/// Made before the capture begins. take() when it has ended; the destructor without it gives everything back.
class BlasWorkspaces {
 public:
  using Held = std::vector<std::shared_ptr<BlasWorkspace>>;  ///< what a graph keeps

  BlasWorkspaces(const TensorPool& pool, StreamHandle begun_on);
  ~BlasWorkspaces();
  BlasWorkspaces(const BlasWorkspaces&) = delete;
  BlasWorkspaces& operator=(const BlasWorkspaces&) = delete;

  /// What the capture used; libtorch has its own workspaces again.
  Held take();

 private:
  const TensorPool* pool_;
  bool underway_ = true;
};

}  // namespace reprise::libtorch
