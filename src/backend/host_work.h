// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <functional>
#include <memory>
#include <span>
#include <string>

#include "reprise/detail/export.h"
#include "reprise/kernel.h"
#include "reprise/stream.h"

namespace reprise::backend {

/// Submits a function to a stream of a host device: work whose parameters are known only at run time, for layers with
/// their own kernels. It is a kernel launch, and on a capturing stream a kernel node: its parameters are the function
/// object and then the operands, {address, bytes, read or write} each, so that readers of nodes, the race check and
/// input liveness find its memory.
///
/// `function` is called on a thread of the device; in a graph once for each launch, maybe by two executables at once.
/// Must not call the device runtime; an exception becomes the device's error. Destroyed after the call, or with the
/// graph, on any thread.
///
/// \param name what nodes and reports call it.
/// \throws BackendError as a launch; UsageError for a stream of a device that is no host device.
REPRISE_EXPORT_INTERNAL void enqueue(const StreamRef& stream, const std::string& name, std::function<void()> function,
                                     std::span<const MemoryAccess> operands);

/// Within such a function: the address of an operand that was submitted with this one. In a graph a parameter may have
/// moved it since (CUDAGraph::parameter()). The same for an address that is no operand's.
REPRISE_EXPORT_INTERNAL void* operand_now(void* submitted) noexcept;

/// True if the kernel is such a function: its first parameter is the address of the function object, each further one a
/// MemoryAccess.
bool is_enqueued(const KernelRecord& kernel) noexcept;

/// The graph that the stream is capturing keeps `object` as long as its nodes may run; without a capture nothing
/// happens. It is destroyed on any thread, and must not call the device runtime then. \throws BackendError
REPRISE_EXPORT_INTERNAL void keep_in_captured_graph(const StreamRef& stream, std::shared_ptr<void> object);

}  // namespace reprise::backend
