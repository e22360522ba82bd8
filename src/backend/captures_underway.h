// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <atomic>

#include "reprise/detail/export.h"

namespace reprise::backend {

/// The number of captures of this library that are underway, on any thread and device. Written by
/// captures::Registration.
REPRISE_EXPORT_INTERNAL inline constinit std::atomic<int> captures_underway{0};

/// The number of bodies of conditional nodes that are being captured. The runtime would take a wait between one and a
/// stream around it for one that joins two captures (902), and break both: then neither can be ended in this process.
REPRISE_EXPORT_INTERNAL inline constinit std::atomic<int> bodies_underway{0};

}  // namespace reprise::backend
