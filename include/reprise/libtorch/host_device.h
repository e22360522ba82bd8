// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <c10/core/Device.h>

#include "reprise/detail/export.h"
#include "reprise/libtorch/detail/install.h"

/// \file
/// The host device as a device of libtorch, for tests on machines without a GPU.

namespace reprise::libtorch {

/// The simulated host device of this library as a device of libtorch, named `reprise:0`, `reprise:1` and so on:
///
///     const torch::Device device = reprise::libtorch::host_device();
///     auto x = torch::rand({32, 64}, device);
///     model->to(device);
///
/// Tensors there live in the memory of the host device, from the CachingAllocator of this library; operators are work
/// of the current stream, asynchronous as CUDA's, and are captured as nodes of a graph. An operator that has to wait
/// for the device is refused in a capture with CUDA's error. The current stream and device of a thread are those of
/// this library and of libtorch at once.
///
/// For tests: each operator runs on one thread by libtorch's CPU kernel. The first call registers it, as
/// the PrivateUse1 backend of the process.
///
/// \param index among the host devices.
/// \throws UsageError if there is no such host device, or another PrivateUse1 backend is registered already.
REPRISE_EXPORT c10::Device host_device(int index = 0);

}  // namespace reprise::libtorch
