// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "backend/capture_findings.h"
#include "reprise/capture_report.h"

// Findings of a device become a capture report: the rule of each call in words, and what to do instead.

namespace reprise::inspect {

/// Adds what a device observed to the report of the same capture: all but how, where and with which code it ended.
void add_findings(CaptureReport& report, const backend::CaptureFindings& findings);

/// The report of a capture of which nothing but these is known.
CaptureReport report_of(const backend::CaptureFindings& findings);

}  // namespace reprise::inspect
