// SPDX-License-Identifier: Apache-2.0
#pragma once

namespace reprise::libtorch {

/// From now on captures look for their inputs in the memory of CUDA tensors, too. To be called once.
void let_cuda_inputs_take_part();

}  // namespace reprise::libtorch
