// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <optional>
#include <span>
#include <string_view>

#include "backend/call.h"
#include "reprise/error.h"

// What is legal while a capture is underway: one table. The host device obeys it (check_capture_rules() in
// host/capture/capture.h), capture reports and docs/capture-rules.md quote it, and the tests compare it with what was
// measured on a GPU. First a call's class, then what a class of calls meets in each situation.

namespace reprise::backend {

/// How a call relates to captures.
enum class CallClass {
  always_allowed,      ///< never asks about captures
  potentially_unsafe,  ///< touches state that a capture cannot record: memory, executables
  stream_work,         ///< work on a stream; a node when the stream captures
  stream_launch_only,  ///< work on a stream that cannot become a node
  stream_unsafe,       ///< likewise, and on a stream that does not capture it is potentially unsafe
  stream_batch,        ///< work that cannot become a node, but the capture stays as it was: only the result says that
                       ///< something is missing
  stream_allocation,   ///< allocates or frees: a node when the stream captures, else potentially unsafe
  stream_property,     ///< asks for what a stream is
  stream_wait,         ///< waits for a stream or asks it
  event_wait,          ///< waits for an event or asks it
  join,                ///< makes a stream wait for an event
  device_wait,         ///< waits for the whole device
  capture_query,       ///< asks whether a stream captures
  capture_begin,
  capture_update,  ///< changes what the next node depends on
  capture_end,
};

/// The situations, in words of the call: its stream, its event, its thread.
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
  graph_is_captured_to,      ///< another capture goes into the graph
  event_captured,            ///< the event was last recorded in a capture that is active
  event_invalidated,         ///< ... in a capture that was invalidated
  event_of_ended_capture,    ///< ... in a capture that is over
  legacy_waits_for_capture,  ///< the stream is the legacy one, the event was recorded in an active capture
  other_capture,             ///< stream and event take part in two captures
  event_outside,             ///< the stream captures, the event was recorded outside, and the use is not external
  device_captures,           ///< any stream of the device takes part in a capture, of any thread, in any mode
  thread_forbids,            ///< the rule for potentially unsafe calls; see thread_forbids() in capture.cpp
};

/// What happens to the captures that made the situation; those of an event that means nothing any more are those of
/// the stream that waits for it. A capture that was invalidated makes situations until it is ended.
enum class CaptureEffect {
  none,         ///< they go on
  invalidated,  ///< they can only be ended, without a graph
  ended,        ///< the capture is over, without a graph
};

/// One line of the table: the first that matches a call counts.
struct CaptureRule {
  CallClass call_class;
  Situation situation;
  Result result;
  CaptureEffect effect;
  const char* sentence;  ///< the rule in words, without a full stop
  const char* advice;    ///< what to do instead, likewise
};

/// The class of a call.
CallClass class_of(Call call) noexcept;

/// The class of a call of CUDA, of the driver or of the runtime, by its name as find_cuda_call() takes it; none for a
/// name that is not known here.
std::optional<CallClass> class_of(std::string_view cuda_name) noexcept;

/// The rules of a class, in order.
std::span<const CaptureRule> rules_of(CallClass call_class) noexcept;

/// The rule that a call met, by what is known when it has returned `result`; null if there is none.
/// \param call_class none: the most general rule with this result.
/// \param on_capture was it given a stream, or an event, of the capture?
const CaptureRule* rule_met(std::optional<CallClass> call_class, Result result, bool on_capture) noexcept;

}  // namespace reprise::backend
