// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <string>

#include "backend/capture_findings.h"
#include "reprise/handles.h"

// All calls of CUDA in this process, seen through CUPTI.

namespace reprise::backend::cuda {

/// The use of CUPTI, in words for reasons why it is not available.
struct CuptiPurpose {
  const char* impossible;  ///< begins a sentence: `impossible`, a colon, the reason
  const char* left_out;    ///< ends one, after a colon
};

/// Holds CUPTI's subscriber, of which there is one in a process, while the result lives. The first holder subscribes,
/// the last one unsubscribes. Thread-safe.
/// \return null if that is not possible; `why` is then the reason, as a sentence.
std::shared_ptr<void> hold_cupti(const CuptiPurpose& purpose, std::string* why);

/// Watches all calls of CUDA's driver and runtime in the process while the result lives, for captures that begin later.
/// Thread-safe.
/// \return null if that is not possible; `why` is then the reason, as a sentence.
std::shared_ptr<void> watch_through_cupti(std::string* why);

/// Returns the findings of the stream's capture, or of its last one; nullopt if there is none.
std::optional<CaptureFindings> describe_watched(StreamHandle stream);

/// Gets the findings of each capture that is over, on the thread that ended it. To be set before anything is watched.
void on_watched_capture(std::function<void(const CaptureFindings&)> sink);

/// Gives the sink the findings of captures that are underway, because the process ends.
void report_watched_captures_that_did_not_end();

}  // namespace reprise::backend::cuda
