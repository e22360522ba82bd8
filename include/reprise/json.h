// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>

#include "reprise/export.h"

/// \file
/// Reports, timings and statistics as JSON, for programs.
///
/// Each function returns one object (RFC 8259) without line ends, in UTF-8. Its members are those of the value, by name
/// and in their order, unless said otherwise; members may be added in later versions. Bytes of texts that are no UTF-8
/// become U+FFFD. An address, or the handle of a stream, is a text such as "0x7f00"; what is not known is null. A code
/// is an object with `name`, CUDA's, and `number`. Thread-safe.

namespace reprise {

struct CaptureReport;
struct GraphCacheStatistics;
struct GraphMemory;
struct PoolStatistics;
struct ReplayTiming;

/// As CaptureReport::str(). The first member, `outcome`, is `failed`, `incomplete` (there is a graph, in which work is
/// missing), or `good`. The legacy default stream is "0x0".
REPRISE_EXPORT std::string to_json(const CaptureReport& report);

/// As ReplayTiming::str(): nodes are without their handles.
REPRISE_EXPORT std::string to_json(const ReplayTiming& timing);

/// As GraphCacheStatistics::str(). Times are in nanoseconds, `time_ns`; `eager_by_cause` is an object, its members are
/// the names of EagerCause.
REPRISE_EXPORT std::string to_json(const GraphCacheStatistics& statistics);

/// All members of PoolStatistics.
REPRISE_EXPORT std::string to_json(const PoolStatistics& statistics);

/// All members of GraphMemory; `pool` is an object as that of PoolStatistics, `estimate` one with its members.
REPRISE_EXPORT std::string to_json(const GraphMemory& memory);

}  // namespace reprise
