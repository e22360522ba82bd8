// SPDX-License-Identifier: Apache-2.0
#include "backend/backend.h"
#include "backend/own_kernels.h"
#include "support/immortal.h"

// Replaces the rest of this folder in a build without CUDA's headers.

namespace reprise::backend {

const std::vector<Backend*>& cuda_backends() {
  static const support::Immortal<std::vector<Backend*>> none;
  return *none;
}

Backend* cuda_backend_of(StreamHandle /*stream*/) {
  return nullptr;
}

const std::string& cuda_unavailable_reason() {
  static const support::Immortal<std::string> reason(
      "this build of the library is without CUDA (REPRISE_CUDA is OFF, or CUDA's headers were not found), so that it "
      "does not look for libcuda.so.1");
  return *reason;
}

const std::string& own_kernels_unavailable() {
  static const support::Immortal<std::string> why(
      "this build has none, because it is without CUDA: build it again with nvcc in PATH");
  return *why;
}

const std::string& condition_kernel_unavailable() {
  return own_kernels_unavailable();
}

const std::string& branches_unavailable() {
  return own_kernels_unavailable();
}

int find_own_kernel(const KernelRecord&, FunctionHandle*) {
  return static_cast<int>(ErrorCode::invalid_device_function);
}

}  // namespace reprise::backend
