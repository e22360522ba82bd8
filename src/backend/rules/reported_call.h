// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <vector>

#include "backend/call.h"
#include "backend/capture_findings.h"
#include "backend/rules/capture_rules.h"
#include "reprise/stream.h"

// The calls listed in capture reports.

namespace reprise::backend {

/// Describes a call that the calling thread just made: with its thread. The caller adds the stack while holding no
/// mutex: looking up names takes the loader's lock, under which the initialisation of a library may call this one.
/// \param rule the rule that it broke; null if unknown.
CaptureFindings::ObservedCall reported_call(std::string name, ErrorCode result, const CaptureRule* rule);

/// True if a call that was made by the calling thread has no stack yet.
bool lacks_stack(const CaptureFindings& findings);

/// Adds this stack to the calls that were made by the calling thread and have none yet.
void add_stack(CaptureFindings& findings, const std::vector<std::string>& stack);

/// The name of a mode: "global", "thread", "relaxed".
const char* capture_mode_name(CaptureMode mode) noexcept;

/// True for codes that are returned because of captures: 900 to 908 and 401.
bool is_about_captures(ErrorCode result) noexcept;

/// Adds a call to a list, or counts it if an equal one is in it. The length of the list is limited.
void add_call(std::vector<CaptureFindings::ObservedCall>& calls, CaptureFindings::ObservedCall call);

/// Explains a failed call, without a full stop: the rule that it met, else its detail, else the meaning of its code.
std::string rule_text(const CaptureFindings::ObservedCall& call);

/// A clause for errors of later calls: the call that broke the capture, its code and rule.
std::string broken_by_text(const CaptureFindings::ObservedCall& call);

}  // namespace reprise::backend
