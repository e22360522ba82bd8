// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>

#include "reprise/capture_report.h"

namespace reprise::inspect {

/// CaptureReport::Call::first_use of a call whose other members are known: libraries load code, make handles and
/// allocate memory when they are first used, and kernels may be loaded by their first launch.
std::string first_use_of(const CaptureReport::Call& call);

}  // namespace reprise::inspect
