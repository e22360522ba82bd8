// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <span>
#include <string_view>

#include "backend/rules/capture_rules.h"

// CUDA's calls by name, those that the backend interface has and those that it has not: what each is to a capture. So
// capture reports can say why a call of somebody else's was refused, and docs/capture-rules.md names the calls of a
// class. What was measured is in tests/conformance/data/.

namespace reprise::backend {

/// One of CUDA's calls.
struct CudaCall {
  std::string_view driver;   ///< its name in the driver; empty if it is the runtime's own
  std::string_view runtime;  ///< its name in the runtime; empty if that has no such call
  CallClass call_class;
};

/// All that are known here, class by class.
std::span<const CudaCall> cuda_calls() noexcept;

/// The call of that name, of the driver or of the runtime, with or without a version at its end (`cuMemAlloc_v2`,
/// `cudaMalloc_v3020`, `cuMemcpyAsync_ptsz`); null if it is not known here.
const CudaCall* find_cuda_call(std::string_view name) noexcept;

}  // namespace reprise::backend
