// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "reprise/detail/export.h"

namespace reprise::support {

/// A full memory barrier in every thread of this process that runs now (Linux: `membarrier`), at the cost of
/// microseconds. For a path that is rarely taken, so that the frequent one needs no barrier of its own.
/// \returns false where the system has none; nothing has been ordered then.
REPRISE_EXPORT_INTERNAL bool heavy_barrier() noexcept;

}  // namespace reprise::support
