// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <vector>

#include "backend/call.h"
#include "backend/capture_findings.h"
#include "backend/rules/capture_rules.h"
#include "reprise/stream.h"

// Calls that are findings of a capture.

namespace reprise::backend {

/// A call that the calling thread just made: with its thread. Its stack is for the caller to add, while no mutex is
/// held: looking for names takes the lock of the loader, under which a library's initialisation may be calling this
/// one. \param rule that it met; may be null.
CaptureFindings::Call reported_call(std::string name, Result result, const CaptureRule* rule);

/// Gives this stack to the findings that the calling thread made and that have none yet.
void add_stack(CaptureFindings& findings, const std::vector<std::string>& stack);

/// PyTorch's word for a mode: "global", "thread_local", "relaxed".
const char* capture_mode_name(CaptureErrorMode mode) noexcept;

/// Is it a code that calls return because of captures, 900 to 908 and 401?
bool is_about_captures(Result result) noexcept;

/// Adds a call to a list, or counts it if one like it is there. The list does not grow without end.
void add_call(std::vector<CaptureFindings::Call>& calls, CaptureFindings::Call call);

/// What a failed call met, in words without a full stop: the rule, else its detail, else what the code means.
std::string rule_text(const CaptureFindings::Call& call);

}  // namespace reprise::backend
