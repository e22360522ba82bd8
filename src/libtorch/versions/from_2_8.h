// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <c10/core/Stream.h>
#include <c10/core/impl/DeviceGuardImplInterface.h>

#include "libtorch/versions/shared_nodes.h"

// libtorch 2.8, 2.9 and 2.10.

namespace reprise::libtorch::version {

/// The base of a type of device. Nothing in libtorch queries a stream's handle yet.
class DeviceGuard : public c10::impl::DeviceGuardImplInterface {
 public:
  virtual void* getStreamNativeHandle(c10::Stream stream) const = 0;
};

}  // namespace reprise::libtorch::version
