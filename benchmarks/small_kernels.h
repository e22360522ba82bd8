// SPDX-License-Identifier: Apache-2.0
#pragma once

namespace benchmarks {

/// Values that the small kernels work on: one block of threads has one each.
inline constexpr unsigned small_kernel_values = 256;

/// Launches kernels on the current stream that are as small as can be while they do something: each adds one to
/// `small_kernel_values` values.
void launch_small_kernels(unsigned count, float* values);

}  // namespace benchmarks
