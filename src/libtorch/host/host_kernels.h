// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <c10/core/Storage.h>
#include <torch/library.h>

#include <cstddef>

namespace reprise::libtorch {

/// More or less memory for a storage, in the order of the current stream; the bytes that fit are kept.
void resize_storage(const c10::Storage& storage, std::size_t bytes);

/// The operators on tensors of the host device that are no work of the CPU's kernels: memory, views, copies, values
/// that the host asks for, and those for which libtorch expects each accelerator to have its own.
void register_kernels(torch::Library& aten);

}  // namespace reprise::libtorch
