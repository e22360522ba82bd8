// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <torch/library.h>

namespace reprise::libtorch {

/// Operators that libtorch dispatches differently on an accelerator, so that the CPU has no kernel with that name:
/// convolutions; and `equal`, which need not always wait.
void register_network_kernels(torch::Library& aten);

}  // namespace reprise::libtorch
