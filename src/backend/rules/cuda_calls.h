// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <optional>
#include <span>
#include <string_view>

#include "backend/call.h"
#include "backend/rules/capture_rules.h"

// The class of each call of CUDA by name, in the backend interface or not. Used for the calls of the interface, by
// capture reports to explain refused calls of other code, and by docs/capture-rules.md to list the calls of a class.
// Measurements: tests/conformance/data/.

namespace reprise::backend {

/// One of CUDA's calls.
struct CudaCall {
  std::string_view driver;   ///< name in the driver; empty if only in the runtime
  std::string_view runtime;  ///< name in the runtime; empty if only in the driver
  CallClass call_class;
};

/// The class of a call of the interface: that of its call of the driver; always allowed if that is unknown.
CallClass class_of(Call call) noexcept;

/// The class of a call of CUDA's driver or runtime, by its name as find_cuda_call() takes it; nullopt for an unknown
/// name.
std::optional<CallClass> class_of(std::string_view cuda_name) noexcept;

/// All known calls, class by class; those that are always allowed are none of them.
std::span<const CudaCall> cuda_calls() noexcept;

/// The call with this name in the driver or the runtime, with or without a version suffix (`cuMemAlloc_v2`,
/// `cudaMalloc_v3020`, `cuMemcpyAsync_ptsz`); null if unknown.
const CudaCall* find_cuda_call(std::string_view name) noexcept;

}  // namespace reprise::backend
