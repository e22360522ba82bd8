// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <functional>
#include <span>
#include <string>
#include <string_view>

#include "reprise/kernel.h"
#include "reprise/stream.h"

namespace reprise::libtorch {

/// Submits a function that calls kernels of libtorch's CPU to a stream of a host device (backend::enqueue()). It runs
/// on one thread of ATen's, below autograd and autocast, and without warnings. Its exceptions are reported with `name`,
/// without the stack of libtorch's calls.
void enqueue_kernels(const StreamRef& stream, const std::string& name, std::function<void()> function,
                     std::span<const MemoryAccess> operands);

/// Waits for a stream, for an operator.
/// \param why why it has to; may be empty.
/// \throws c10::Error if the wait fails, as in a capture.
void wait_for(const StreamRef& stream, std::string_view name, std::string_view why = "");

}  // namespace reprise::libtorch
