// SPDX-License-Identifier: Apache-2.0
#include "reprise/libtorch/graph.h"

#include "libtorch/cuda/cuda_tensors.h"

namespace reprise::libtorch {

void take_part_in_captures() {
  static const bool done = (let_cuda_tensors_take_part(), true);
  static_cast<void>(done);
}

void capture(CUDAGraph& cuda_graph, const GraphOptions& options, const std::function<void()>& body) {
  take_part_in_captures();
  reprise::capture(cuda_graph, options, body);
}

}  // namespace reprise::libtorch
