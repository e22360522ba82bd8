// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "reprise/detail/export.h"

namespace reprise::backend {

/// An address that stands for the calling thread, and for no other one that is alive.
REPRISE_EXPORT_INTERNAL inline const void* thread_tag() noexcept {
  static constinit thread_local char tag = 0;
  return &tag;
}

}  // namespace reprise::backend
