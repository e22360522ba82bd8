// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "reprise/annotations.h"
#include "reprise/detail/export.h"
#include "reprise/error.h"
#include "reprise/handles.h"

/// \file
/// Capture reports: why a capture failed, and what was left out of one that did not.

namespace reprise {

/// Level of detail of what is recorded about the calls made during a capture.
enum class ReportDetail {
  /// The call that broke the capture. On the host device: any call. On a CUDA device: calls of this library, with their
  /// stack; other calls as far as the driver's error log names them: name and thread.
  standard,
  /// All calls of the process, with their stacks; also work that was silently not captured, and calls that failed
  /// without breaking the capture. On a CUDA device CUPTI, opened at run time, then watches each call of CUDA; without
  /// CUPTI, or while another tool uses it, the report is `standard` and notes it.
  full,
};

/// Why a capture failed, or what it left out. A value without references to other objects.
///
/// CaptureError::report() returns that of a capture which failed at its end, CUDAGraph::capture_report() that of a
/// graph's last capture.
struct REPRISE_EXPORT CaptureReport {
  /// A call that was made during the capture.
  struct Call {
    std::string name;                         ///< for example `cudaMalloc` or `cuMemAlloc`
    std::string driver_name = {};             ///< the driver call that it led to, if the name differs
    ErrorCode result = ErrorCode::success;    ///< what it returned
    std::string rule = {};                    ///< the capture rule that applied, without a full stop
    std::string advice = {};                  ///< what to do instead, without a full stop; may be empty
    std::uint64_t thread = 0;                 ///< the system's thread id (`gettid`); 0 if unknown
    bool capturing_thread = true;             ///< true if made on the thread that began the capture
    std::optional<StreamHandle> stream = {};  ///< the stream argument; null is the legacy default stream
    /// The stack, from the call outwards, a line each: the function, or file and offset as `addr2line` takes them.
    /// Empty if unknown. In a Python program the lines of Python come first.
    std::vector<std::string> stack = {};
    std::size_t times = 1;  ///< how often the same call was made
  };

  /// Pageable memory of the host that a captured copy reads or writes, at each replay anew.
  struct HostAccess {
    const void* address = nullptr;        ///< where the copy begins
    std::size_t bytes = 0;                ///< of the copy; with the gaps, if it has rows with gaps between them
    bool writes = false;                  ///< true if replays write the memory, false if they read it
    std::string node = {};                ///< the copy's end, for example "memcpy source (node 3)"
    std::vector<std::string> stack = {};  ///< of the call of this library that captured it, as Call::stack; else empty
  };

  ErrorCode code = ErrorCode::success;    ///< returned by the end of the capture; success also if it was abandoned
  std::string graph = {};                 ///< GraphOptions::name
  std::string device = {};                ///< for example `cuda:0`; empty if unknown
  std::string mode = {};                  ///< `global`, `thread` or `relaxed`; empty if unknown
  StreamHandle stream = nullptr;          ///< the stream on which it began
  std::uint64_t thread = 0;               ///< the system's id of the thread that began it
  std::optional<std::size_t> nodes = {};  ///< number of nodes captured when it broke or ended

  /// The annotation of the innermost scope of the class `annotate` in which the capture broke; empty if there was none,
  /// or GraphOptions::enable_annotations was not set.
  Annotation annotation = {};
  /// The operators of libtorch within which the capture broke, the outermost first, for example `aten::item` and
  /// `aten::_local_scalar_dense`; empty if it was in none, or the component `libtorch` is not in use.
  std::vector<std::string> operators = {};
  std::optional<Call> broken_by = {};  ///< the call that broke it; nullopt if none did or it is unknown
  /// Calls that failed without breaking the capture: their work is missing in the graph.
  std::vector<Call> refused = {};
  /// Work that was executed at once instead of being captured.
  std::vector<Call> not_captured = {};
  /// Pageable memory of the host that replays of the graph use, in order of the nodes; only with ReportDetail::full,
  /// and only of a capture that went well.
  std::vector<HostAccess> host_accesses = {};
  /// Further findings, each a sentence with its full stop.
  std::vector<std::string> notes = {};

  /// The report as text: several lines, each ended by a newline.
  std::string str() const;
};

}  // namespace reprise
