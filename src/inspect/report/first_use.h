// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <span>
#include <string>
#include <vector>

#include "backend/capture_findings.h"
#include "reprise/capture_report.h"

namespace reprise::inspect {

/// CaptureReport::Call::first_use of a call whose other members are known: libraries load code, make handles and
/// allocate memory when they are first used, and kernels may be loaded by their first launch.
std::string first_use_of(const CaptureReport::Call& call);

/// Notes of a report on the libraries that made these calls (CaptureFindings::prepared), one for each; none for calls
/// of other code.
std::vector<std::string> first_use_notes(std::span<const backend::CaptureFindings::ObservedCall> calls);

}  // namespace reprise::inspect
