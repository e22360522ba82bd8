// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <c10/core/Device.h>

#include "reprise/memory.h"

// The device of tests that run on the host device and on CUDA devices. Each program links one of the two files in
// device/; all else is the same.

namespace reprise::libtorch::test {

/// The device of all tensors.
c10::Device tested_device();

/// What tensors there have, once all work is done and nothing is cached.
PoolStatistics memory_of_tensors();

}  // namespace reprise::libtorch::test
