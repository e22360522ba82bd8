// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <optional>
#include <span>

#include "reprise/error.h"

// The rules of calls during a capture, in one table. The host device enforces it (check_capture_rules() in
// host/capture/host_capture.h), capture reports and docs/capture-rules.md quote it, and tests compare it with
// measurements on a GPU. A call has a class (cuda_calls.h); a class has a rule for each situation.

namespace reprise::backend {

/// Relation of a call to captures.
enum class CallClass {
  always_allowed,      ///< independent of captures
  potentially_unsafe,  ///< changes state that a capture cannot record: memory, executables
  stream_work,         ///< work on a stream; a node when the stream captures
  stream_launch_only,  ///< work on a stream that cannot become a node
  stream_unsafe,       ///< likewise, and potentially unsafe on a stream that does not capture
  stream_batch,        ///< work that cannot become a node and does not break the capture: only the result shows that
                       ///< something is missing
  stream_allocation,   ///< allocates or frees: a node when the stream captures, else potentially unsafe
  stream_property,     ///< queries properties of a stream
  stream_wait,         ///< waits for a stream or queries it
  event_wait,          ///< waits for an event or queries it
  join,                ///< makes a stream wait for an event
  device_wait,         ///< waits for the whole device
  capture_query,       ///< queries whether a stream captures
  capture_begin,
  capture_update,  ///< changes what the next node depends on
  capture_end,
};

/// The situations of a call: of its stream, its event, its thread.
enum class Situation {
  stream_invalidated,       ///< the stream takes part in a capture that was invalidated
  stream_captures,          ///< the stream takes part in an active capture
  stream_does_not_capture,  ///< the stream takes part in none
  stream_is_legacy,         ///< the stream is the legacy default stream
  stream_is_not_origin,     ///< the stream joined its capture, which began on another one
  wrong_thread,             ///< the capture was begun by another thread, and not in relaxed mode
  fork_not_joined,          ///< work of a joined stream does not lead back to the origin
  legacy_conflict,  ///< the stream is the legacy one, and a blocking stream of the device takes part in a capture
  external_without_capture,  ///< the external flag is given, and the stream takes part in no capture
  graph_is_captured_to,      ///< another capture adds to the graph
  event_captured,            ///< the event was last recorded in a capture that is active
  event_invalidated,         ///< ... in a capture that was invalidated
  event_of_ended_capture,    ///< ... in a capture that is over
  legacy_waits_for_capture,  ///< the stream is the legacy one, the event was recorded in an active capture
  other_capture,             ///< stream and event take part in two captures
  event_outside,             ///< the stream captures, the event was recorded outside, and the use is not external
  device_captures,           ///< any stream of the device takes part in a capture, of any thread, in any mode
  /// A capture forbids potentially unsafe calls of the thread; forbidding_captures() in host/capture/host_capture.cpp
  /// has the rule.
  thread_forbids,
};

/// The effect on the captures that the situation names. If the event's capture is broken or over, it is the capture of
/// the waiting stream. An invalidated capture counts until it is ended.
enum class CaptureEffect {
  none,         ///< they continue
  invalidated,  ///< they can only be ended, without a graph
  ended,        ///< the capture is over, without a graph
};

/// One line of the table: the first that matches a call counts.
struct CaptureRule {
  CallClass call_class;
  Situation situation;
  ErrorCode result;
  CaptureEffect effect;
  const char* sentence;  ///< the rule in words, without a full stop
  const char* advice;    ///< what to do instead, likewise
};

/// The rules of a class, in order.
std::span<const CaptureRule> rules_of(CallClass call_class) noexcept;

/// The rule that explains the `result` of a call; null if there is none.
/// \param call_class nullopt: the most general rule with this result.
/// \param on_capture true if a stream or event of the capture was passed to the call.
const CaptureRule* rule_met(std::optional<CallClass> call_class, ErrorCode result, bool on_capture) noexcept;

}  // namespace reprise::backend
