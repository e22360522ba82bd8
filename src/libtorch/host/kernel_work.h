// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <functional>
#include <span>
#include <string>

#include "reprise/kernel.h"
#include "reprise/stream.h"

namespace reprise::libtorch {

/// Submits a function that calls kernels of libtorch's CPU to a stream of a host device (backend::enqueue()). It runs
/// on one thread of ATen's, below autograd and autocast, and without warnings. Its exceptions are reported with `name`,
/// without the stack of libtorch's calls.
void enqueue_kernels(const StreamRef& stream, const std::string& name, std::function<void()> function,
                     std::span<const MemoryAccess> operands);

}  // namespace reprise::libtorch
