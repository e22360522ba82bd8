// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "reprise/error.h"
#include "reprise/handles.h"

// Findings of a device about a capture, as values. inspect/report/ makes the report of it, with the texts.

namespace reprise::backend {

struct CaptureRule;

/// Findings about a capture that is underway or over; empty where nothing is known.
struct CaptureFindings {
  /// A call that was made during the capture.
  struct ObservedCall {
    std::string name;                         ///< as it was made
    std::string driver_name = {};             ///< the driver's call that it led to, where that has another name
    ErrorCode result = ErrorCode::success;    ///< what it returned
    const CaptureRule* rule = nullptr;        ///< the row of the table that it met; null: none
    std::string detail = {};                  ///< what is known in place of a rule; may be empty
    std::uint64_t thread = 0;                 ///< the system's number of the thread; 0 if unknown
    bool capturing_thread = true;             ///< made by the thread that had begun the capture
    std::optional<StreamHandle> stream = {};  ///< the stream that it was called with; null is the legacy one
    std::vector<std::string> stack = {};      ///< from the call outwards; empty if unknown
    std::size_t times = 1;                    ///< how often it was made like this
  };

  ErrorCode code = ErrorCode::success;          ///< with which the capture ended
  std::string device = {};                      ///< for example `cuda:0`; empty if unknown
  std::string mode = {};                        ///< `global`, `thread` or `relaxed`; empty if unknown
  StreamHandle stream = nullptr;                ///< the stream on which it began
  std::uint64_t thread = 0;                     ///< the system's number of the thread that began it; 0 if unknown
  std::optional<std::size_t> nodes = {};        ///< how many nodes had been captured when it broke or ended
  std::optional<ObservedCall> broken_by = {};   ///< the call that broke it
  std::vector<ObservedCall> refused = {};       ///< calls that failed without breaking it
  std::vector<ObservedCall> not_captured = {};  ///< work that was executed at once
  std::vector<std::string> notes = {};          ///< each a sentence with its full stop
  bool watched = false;                         ///< all calls are: `refused` and `not_captured` are complete
  bool may_copy = true;                         ///< false if no node is known to copy memory, without a look at them

  /// True if nothing is known to be wrong.
  bool is_clean() const noexcept { return !broken_by && refused.empty() && not_captured.empty() && notes.empty(); }
};

}  // namespace reprise::backend
