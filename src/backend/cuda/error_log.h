// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>

#include "backend/cuda/driver_api.h"

namespace reprise::backend::cuda {

/// What the driver wrote into its error log about the calling thread's last failure, for example
/// "cuMemAlloc_v2: ..."; empty if it wrote nothing since this was last asked on this thread.
std::string latest_error(const DriverApi& driver);

}  // namespace reprise::backend::cuda
