// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "backend/backend.h"
#include "backend/own_kernels.h"
#include "reprise/detail/export.h"
#include "reprise/kernel.h"

// Kernels of this library. Their accesses() name all memory that a launch uses, so that readers of nodes need not
// search the arguments for addresses: these hold sizes, patterns, padding and what an earlier call left.

namespace reprise::backend {

using KernelAccesses = decltype(KernelRecord::accesses);

/// Makes a kernel of this library known. The record must live until the process ends. Returns it. Thread-safe.
const KernelRecord& add_own_record(const KernelRecord& record);

/// The record of the kernel type `K`, made known at the first call. On CUDA it is the `extern "C"` kernel of
/// src/kernels with the name `symbol`, which must be the same in every call. Thread-safe.
template <class K>
const KernelRecord& make_own_record(const char* symbol) {
  static const KernelRecord record = [&] {
    KernelRecord made = kernel_record<K>();
    made.name = symbol;
    made.cuda_function = &find_own_kernel;
    made.symbol = symbol;
    return made;
  }();
  static const KernelRecord& known = add_own_record(record);
  return known;
}

/// For a CUDA backend, which found the kernel's function on one of its devices. Of kernels that are not this library's
/// only `accesses` and `params` are kept. Thread-safe.
void add_function(const KernelRecord& record, FunctionHandle function);

/// Adds what the record of the function says of a parameter of this size: type and padding, which the driver does not
/// know. Nothing if it has none. Thread-safe.
void complete_param(FunctionHandle function, std::size_t index, KernelParam* param);

/// The record of a kernel of this library, also where it runs on another device than `backend`: a graph can have nodes
/// of several. Null for any other kernel. Thread-safe.
REPRISE_EXPORT_INTERNAL const KernelRecord* own_record(const Backend& backend, FunctionHandle function);

/// KernelRecord::accesses of a function that a record was found for, of this library or not; null for any other
/// function. Thread-safe.
KernelAccesses accesses_of(const Backend& backend, FunctionHandle function);

}  // namespace reprise::backend
