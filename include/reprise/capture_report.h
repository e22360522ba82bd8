// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "reprise/annotations.h"
#include "reprise/error.h"
#include "reprise/handles.h"

/// \file
/// Capture reports: why a capture failed, and what was left out of one that did not.

namespace reprise {

/// How much a capture finds out about the calls that are made meanwhile.
enum class ReportDetail {
  /// Which call broke the capture. On the host device, of all calls. On a CUDA device, of the calls that this library
  /// makes, with their stack; of other calls what the driver's error log says: their name and thread.
  standard,
  /// All calls of the process, with their stacks, and besides: work that was silently not captured, and calls that
  /// failed without breaking the capture. On a CUDA device each call of CUDA is then watched through CUPTI, which is
  /// opened at run time; without CUPTI, or while another tool uses it, the report says so and is `standard`.
  full,
};

/// What is known of a capture that failed, or that left something out. A value: it refers to nothing.
///
/// CaptureError::report() has that of a capture which failed at its end, CUDAGraph::capture_report() that of a graph's
/// last capture.
struct CaptureReport {
  /// A call that was made during the capture.
  struct Call {
    std::string name;                         ///< as it was made, for example `cudaMalloc` or `cuMemAlloc`
    std::string driver_name = {};             ///< the call of CUDA's driver that it led to, where that has another name
    Result result = Result::success;          ///< what it returned
    std::string rule = {};                    ///< the rule of captures that it met, without a full stop
    std::string advice = {};                  ///< what to do instead, without a full stop; may be empty
    std::uint64_t thread = 0;                 ///< the system's number of the thread (`gettid`); 0 if unknown
    bool capturing_thread = true;             ///< was it the thread that had begun the capture?
    std::optional<StreamHandle> stream = {};  ///< the stream that it was called with; null is the legacy default stream
    /// The stack, from the call outwards, a line each: the function, or the file and an offset that `addr2line` takes.
    /// Empty if unknown. In a Python program the lines of Python come first.
    std::vector<std::string> stack = {};
    std::size_t times = 1;  ///< how often it was made like this
  };

  Result code = Result::success;          ///< with which the capture ended; success if it went well, or was abandoned
  std::string device = {};                ///< for example `cuda:0`; empty if unknown
  std::string mode = {};                  ///< `global`, `thread_local` or `relaxed`; empty if unknown
  StreamHandle stream = nullptr;          ///< the stream on which it began
  std::uint64_t thread = 0;               ///< the system's number of the thread that began it
  std::optional<std::size_t> nodes = {};  ///< how many nodes had been captured when it broke or ended

  /// What the innermost scope of the class `annotate` said in which the capture broke; empty if there was none, or
  /// GraphOptions::enable_annotations was not set.
  Annotation annotation = {};
  /// The operators of libtorch within which the capture broke, the outermost first, for example `aten::item` and
  /// `aten::_local_scalar_dense`; empty if it was none of them, or the component `libtorch` is not in use.
  std::vector<std::string> operators = {};
  std::optional<Call> broken_by = {};  ///< the call that broke it; none if it went well or that is unknown
  /// Calls that failed without breaking the capture: what they were to do is missing in the graph.
  std::vector<Call> refused = {};
  /// Work that was executed at once instead of being captured.
  std::vector<Call> not_captured = {};
  /// What else there is to know, each a sentence with its full stop.
  std::vector<std::string> notes = {};

  /// All of it as text, several lines, with a line end after the last.
  std::string str() const;
};

}  // namespace reprise
