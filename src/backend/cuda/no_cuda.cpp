// SPDX-License-Identifier: Apache-2.0
#include "backend/backend.h"
#include "backend/own_kernels.h"

// Replaces the rest of this folder in a build without CUDA's headers.

namespace reprise::backend {

const std::vector<Backend*>& cuda_backends() {
  static const auto* const none = new std::vector<Backend*>;
  return *none;
}

const std::string& cuda_unavailable_reason() {
  static const auto* const reason = new std::string(
      "this build of the library is without CUDA (REPRISE_CUDA is OFF, or CUDA's headers were not found), so that it "
      "does not look for libcuda.so.1");
  return *reason;
}

bool has_own_kernels() noexcept {
  return false;
}

int find_own_kernel(const KernelRecord&, FunctionHandle*) {
  return static_cast<int>(Result::invalid_device_function);
}

}  // namespace reprise::backend
