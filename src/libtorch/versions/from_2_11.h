// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <c10/core/impl/DeviceGuardImplInterface.h>

#include "libtorch/versions/shared_nodes.h"

// libtorch 2.11 and 2.12.

namespace reprise::libtorch::version {

using DeviceGuard = c10::impl::DeviceGuardImplInterface;

}  // namespace reprise::libtorch::version
