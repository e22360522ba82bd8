// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <torch/library.h>

namespace reprise::libtorch {

/// Operators for which libtorch takes another way on an accelerator than on the CPU, and so the CPU has no kernel under
/// that name: convolutions; and `equal`, which need not always wait.
void register_network_kernels(torch::Library& aten);

}  // namespace reprise::libtorch
