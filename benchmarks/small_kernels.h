// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <span>
#include <string>

#include "reprise/parameter.h"
#include "reprise/random.h"

namespace benchmarks {

/// The number of values of the small kernels: one for each thread of a block.
inline constexpr unsigned small_kernel_values = 256;

/// Launches kernels on the current stream that are as small as can be while they do something: each adds one to
/// `small_kernel_values` values.
void launch_small_kernels(unsigned count, float* values);

/// Launches the same kernels by `<<<>>>`. For a CUDA device, where nvcc compiled them.
void launch_plain_kernels(unsigned count, float* values);

/// The release of nvcc that compiled the kernels, as "13.0"; empty if another compiler did.
std::string nvcc_release();

/// Launches one kernel for each parameter, which says where the values are.
void launch_marked_kernels(std::span<const reprise::Parameter<float*>> values);

/// The same with kernels that draw one random number for each value, and add it.
void launch_drawing_kernels(unsigned count, float* values, const reprise::Generator& generator);

}  // namespace benchmarks
