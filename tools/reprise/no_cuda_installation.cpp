// SPDX-License-Identifier: Apache-2.0
#include "cuda_installation.h"

// Replaces cuda_installation.cpp in a build without CUDA's headers.

namespace reprise::tools {

CudaInstallation find_cuda() {
  CudaInstallation found;
  found.built = false;
  found.unavailable = "this build of reprise is without CUDA (REPRISE_CUDA is OFF, or CUDA's headers were not found)";
  return found;
}

}  // namespace reprise::tools
