// SPDX-License-Identifier: Apache-2.0
#pragma once

namespace reprise::support {

/// A full memory barrier in every thread of this process that runs now (Linux: `membarrier`), at the cost of
/// microseconds: what a thread that is rarely there pays, so that one which passes all the time needs no barrier.
/// \returns false where the system has none; nothing has been ordered then.
bool heavy_barrier() noexcept;

}  // namespace reprise::support
