// SPDX-License-Identifier: Apache-2.0
#include "reprise/libtorch/graph.h"

#include "libtorch/cuda/cuda_tensors.h"
#include "reprise/error.h"
#include "reprise/libtorch/host_device.h"
#include "text/format.h"

namespace reprise::libtorch {

void register_generator_state(CUDAGraph& cuda_graph, const at::Generator& generator) {
  if (generator.defined() && generator.device().is_cuda()) {
    register_cuda_generator(cuda_graph, generator);
  } else if (generator.defined() && generator.device().is_privateuseone()) {
    cuda_graph.register_generator_state(generator_of(generator));
  } else {
    throw UsageError(
        text::format("register_generator_state expected a generator of a CUDA device or of a host device, found {}.",
                     generator.defined() ? "one of " + generator.device().str() : "an undefined one"));
  }
}

}  // namespace reprise::libtorch
