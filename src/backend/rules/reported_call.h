// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "backend/call.h"
#include "backend/rules/capture_rules.h"
#include "reprise/capture_report.h"
#include "reprise/stream.h"

// The calls listed in capture reports.

namespace reprise::backend {

/// Describes a call that the calling thread just made: with its thread, and the rule in words. The caller adds the
/// stack while holding no mutex: looking up names takes the loader's lock, under which the initialisation of a library
/// may call this one.
/// \param rule null: only the code is explained.
CaptureReport::Call reported_call(std::string name, Result result, const CaptureRule* rule);

/// Adds this stack to the calls of a report that were made by the calling thread and have none yet.
void add_stack(CaptureReport& report, const std::vector<std::string>& stack);

/// PyTorch's word for a mode: "global", "thread_local", "relaxed".
const char* capture_mode_name(CaptureErrorMode mode) noexcept;

/// True for codes that are returned because of captures: 900 to 908 and 401.
bool is_about_captures(Result result) noexcept;

/// Why work submitted to a stream was not captured.
void explain_not_captured(CaptureReport::Call& call, bool legacy_stream);

/// Adds a call to a list, or counts it if an equal one is in it. The length of the list is limited.
void add_call(std::vector<CaptureReport::Call>& calls, CaptureReport::Call call);

/// The rule in words; the description of the code if `rule` is null.
void explain(CaptureReport::Call& call, const CaptureRule* rule);

}  // namespace reprise::backend
