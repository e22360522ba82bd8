// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "backend/call.h"
#include "backend/rules/capture_rules.h"
#include "reprise/capture_report.h"
#include "reprise/stream.h"

// A call that a capture report tells of.

namespace reprise::backend {

/// A call that the calling thread just made: with its thread, and the rule in words. Its stack is for the caller to
/// add, while no mutex is held: looking for names takes the lock of the loader, under which a library's initialisation
/// may be calling this one. \param rule null: the code alone is explained.
CaptureReport::Call reported_call(std::string name, Result result, const CaptureRule* rule);

/// Gives this stack to the calls of a report that the calling thread made and that have none yet.
void add_stack(CaptureReport& report, const std::vector<std::string>& stack);

/// PyTorch's word for a mode: "global", "thread_local", "relaxed".
const char* capture_mode_name(CaptureErrorMode mode) noexcept;

/// Is it a code that calls return because of captures, 900 to 908 and 401?
bool is_about_captures(Result result) noexcept;

/// Why work that a stream was given was not captured.
void explain_not_captured(CaptureReport::Call& call, bool legacy_stream);

/// Adds a call to a list, or counts it if one like it is there. The list does not grow without end.
void add_call(std::vector<CaptureReport::Call>& calls, CaptureReport::Call call);

/// The rule in words; those of the code if `rule` is null.
void explain(CaptureReport::Call& call, const CaptureRule* rule);

}  // namespace reprise::backend
