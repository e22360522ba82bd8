// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <torch/library.h>

namespace reprise::libtorch {

/// The fused cells of LSTM and GRU and their derivatives, which libtorch expects of an accelerator and lacks on the
/// CPU.
void register_recurrent_kernels(torch::Library& aten);

}  // namespace reprise::libtorch
