// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <torch/torch.h>

#include "support.h"

namespace benchmarks {

void operators_of_host_device(const Settings& settings);
void replays(const Settings& settings);
void graphed(const Settings& settings);
void steps(const Settings& settings);
void tensor_allocator(const Settings& settings);

/// The device of libtorch that the benchmarks run on, initialised; enables captures of its tensors.
torch::Device tensor_device(const Settings& settings);

}  // namespace benchmarks
