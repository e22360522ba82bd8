// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <c10/core/Storage.h>
#include <torch/library.h>

#include <cstddef>

namespace reprise::libtorch {

/// Resizes a storage in the order of the current stream; keeps the bytes that fit.
void resize_storage(const c10::Storage& storage, std::size_t bytes);

/// The operators on tensors of the host device that do not compute: memory, views, copies, values for the host.
void register_memory_kernels(torch::Library& aten);

}  // namespace reprise::libtorch
