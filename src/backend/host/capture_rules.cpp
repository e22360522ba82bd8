// SPDX-License-Identifier: Apache-2.0
#include "backend/host/capture_rules.h"

#include <algorithm>
#include <iterator>

namespace reprise::backend::host {
namespace {

constexpr auto invalidated = CaptureEffect::invalidated;
constexpr auto ended = CaptureEffect::ended;
constexpr auto none = CaptureEffect::none;

constexpr const char* broken_before =
    "the stream takes part in a capture that was broken by an earlier call; it can only be ended";
constexpr const char* legacy =
    "the legacy default stream waits for every blocking stream, and one of them is being captured; capture on a "
    "non-blocking stream, or use another stream for this";
constexpr const char* unsafe =
    "this call is potentially unsafe during a capture (it may wait for the device, or change what a replay relies on); "
    "call it before the capture, or put the calling thread into relaxed mode, or capture in mode thread_local when "
    "other threads make such calls";
constexpr const char* waits =
    "a stream that is being captured does not execute, so nobody can wait for it or ask whether it is done";
constexpr const char* launches = "this cannot be captured; a graph is put into another one as a child graph node";
constexpr const char* property =
    "a stream that is being captured cannot be asked for its number or its flags; ask before the capture";
constexpr const char* event_in_capture =
    "the event was last recorded in a capture, where it stands for a point of the graph; nobody can wait for it or ask "
    "whether it is reached";
constexpr const char* event_means_nothing =
    "the event was last recorded in a capture that is over or was broken by an earlier call; record it again";
constexpr const char* external =
    "the external flag makes a node of its own of a record or a wait, which only a stream that is being captured can "
    "do";

// Sorted by class; within a class the first situation that holds counts.
constexpr CaptureRule table[] = {
    {CallClass::potentially_unsafe, Situation::thread_forbids, Result::stream_capture_unsupported, invalidated, unsafe},

    {CallClass::stream_work, Situation::stream_invalidated, Result::stream_capture_invalidated, none, broken_before},
    {CallClass::stream_work, Situation::legacy_conflict, Result::stream_capture_implicit, invalidated, legacy},
    {CallClass::stream_work, Situation::external_without_capture, Result::illegal_state, none, external},

    {CallClass::stream_launch_only, Situation::stream_invalidated, Result::stream_capture_unsupported, none, launches},
    {CallClass::stream_launch_only, Situation::stream_captures, Result::stream_capture_unsupported, invalidated,
     launches},
    {CallClass::stream_launch_only, Situation::legacy_conflict, Result::stream_capture_implicit, invalidated, legacy},

    {CallClass::stream_allocation, Situation::stream_invalidated, Result::stream_capture_invalidated, none,
     broken_before},
    {CallClass::stream_allocation, Situation::legacy_conflict, Result::stream_capture_implicit, invalidated, legacy},
    {CallClass::stream_allocation, Situation::thread_forbids, Result::stream_capture_unsupported, invalidated, unsafe},

    {CallClass::stream_property, Situation::stream_invalidated, Result::stream_capture_unsupported, none, property},
    {CallClass::stream_property, Situation::stream_captures, Result::stream_capture_unsupported, invalidated, property},
    {CallClass::stream_property, Situation::legacy_conflict, Result::stream_capture_implicit, invalidated, legacy},

    {CallClass::stream_wait, Situation::stream_invalidated, Result::stream_capture_unsupported, none, waits},
    {CallClass::stream_wait, Situation::stream_captures, Result::stream_capture_unsupported, invalidated, waits},
    {CallClass::stream_wait, Situation::legacy_conflict, Result::stream_capture_implicit, invalidated, legacy},
    {CallClass::stream_wait, Situation::thread_forbids, Result::stream_capture_unsupported, invalidated, unsafe},

    {CallClass::event_wait, Situation::event_captured, Result::captured_event, invalidated, event_in_capture},
    {CallClass::event_wait, Situation::event_invalidated, Result::invalid_value, none, event_means_nothing},
    {CallClass::event_wait, Situation::event_of_ended_capture, Result::invalid_value, none, event_means_nothing},
    {CallClass::event_wait, Situation::thread_forbids, Result::stream_capture_unsupported, invalidated, unsafe},

    {CallClass::join, Situation::stream_invalidated, Result::stream_capture_invalidated, none, broken_before},
    {CallClass::join, Situation::legacy_conflict, Result::stream_capture_implicit, invalidated, legacy},
    {CallClass::join, Situation::event_invalidated, Result::invalid_value, invalidated, event_means_nothing},
    {CallClass::join, Situation::event_of_ended_capture, Result::invalid_value, invalidated, event_means_nothing},
    {CallClass::join, Situation::external_without_capture, Result::illegal_state, none, external},
    {CallClass::join, Situation::legacy_waits_for_capture, Result::stream_capture_implicit, invalidated,
     "the legacy default stream cannot join a capture"},
    {CallClass::join, Situation::other_capture, Result::stream_capture_merge, invalidated,
     "the stream and the event take part in two captures, which would become one"},
    {CallClass::join, Situation::event_outside, Result::stream_capture_isolation, invalidated,
     "a captured stream cannot wait for an event that was recorded outside of its capture; begin the capture after the "
     "wait, or wait with the external flag to make an event wait node"},

    {CallClass::device_wait, Situation::device_captures, Result::stream_capture_unsupported, invalidated,
     "waiting for the device waits for every stream, and one of them is being captured"},

    {CallClass::capture_query, Situation::legacy_conflict, Result::stream_capture_implicit, none, legacy},

    {CallClass::capture_begin, Situation::legacy_conflict, Result::stream_capture_implicit, invalidated, legacy},
    {CallClass::capture_begin, Situation::stream_is_legacy, Result::stream_capture_unsupported, none,
     "the legacy default stream cannot be captured; use another stream"},
    {CallClass::capture_begin, Situation::stream_invalidated, Result::illegal_state, none,
     "the stream takes part in a capture already"},
    {CallClass::capture_begin, Situation::stream_captures, Result::illegal_state, none,
     "the stream takes part in a capture already"},
    {CallClass::capture_begin, Situation::graph_is_captured_to, Result::illegal_state, none,
     "another capture goes into this graph; end that first"},

    {CallClass::capture_update, Situation::legacy_conflict, Result::stream_capture_implicit, invalidated, legacy},
    {CallClass::capture_update, Situation::stream_does_not_capture, Result::illegal_state, none,
     "the stream is not being captured"},
    {CallClass::capture_update, Situation::stream_invalidated, Result::stream_capture_invalidated, none, broken_before},

    {CallClass::capture_end, Situation::legacy_conflict, Result::stream_capture_implicit, invalidated, legacy},
    {CallClass::capture_end, Situation::stream_does_not_capture, Result::illegal_state, none,
     "the stream is not being captured"},
    {CallClass::capture_end, Situation::stream_is_not_origin, Result::stream_capture_unmatched, invalidated,
     "a capture ends on the stream that it began on, not on one that joined it"},
    {CallClass::capture_end, Situation::wrong_thread, Result::stream_capture_wrong_thread, ended,
     "a capture that is not in relaxed mode ends on the thread that began it"},
    {CallClass::capture_end, Situation::stream_invalidated, Result::stream_capture_invalidated, ended,
     "the capture was broken by an earlier call"},
    {CallClass::capture_end, Situation::fork_not_joined, Result::stream_capture_unjoined, ended,
     "work of a stream that joined the capture does not lead back to the stream that it began on; record an event "
     "there "
     "and make the first stream wait for it"},
};

}  // namespace

CallClass class_of(Call call) noexcept {
  switch (call) {
    case Call::memory_allocate:
    case Call::memory_free:
    case Call::pinned_allocate:
    case Call::pinned_free:
    case Call::memory_pool_trim:
    case Call::graph_instantiate:
    case Call::graph_exec_destroy:
      return CallClass::potentially_unsafe;
    case Call::copy:
    case Call::set:  // both are work on the legacy stream
    case Call::copy_async:
    case Call::set_async:
    case Call::launch_kernel:
    case Call::launch_host_function:
    case Call::event_record:
    case Call::stream_priority:  // as if it were work
      return CallClass::stream_work;
    case Call::graph_launch:
    case Call::graph_upload:
      return CallClass::stream_launch_only;
    case Call::memory_allocate_async:
    case Call::memory_free_async:
      return CallClass::stream_allocation;
    case Call::stream_flags:
    case Call::stream_id:
      return CallClass::stream_property;
    case Call::stream_synchronize:
    case Call::stream_query:
      return CallClass::stream_wait;
    case Call::event_query:
    case Call::event_synchronize:
      return CallClass::event_wait;
    case Call::stream_wait_event:
      return CallClass::join;
    case Call::device_synchronize:
      return CallClass::device_wait;
    case Call::stream_is_capturing:
    case Call::stream_capture_info:
      return CallClass::capture_query;
    case Call::stream_begin_capture:
    case Call::stream_begin_capture_to_graph:
      return CallClass::capture_begin;
    case Call::stream_update_capture_dependencies:
      return CallClass::capture_update;
    case Call::stream_end_capture:
      return CallClass::capture_end;
    default:
      return CallClass::always_allowed;
  }
}

std::span<const CaptureRule> rules_of(CallClass call_class) noexcept {
  const auto belongs = [&](const CaptureRule& rule) { return rule.call_class == call_class; };
  const auto* const first = std::find_if(std::begin(table), std::end(table), belongs);
  const auto* const last = std::find_if_not(first, std::end(table), belongs);
  return {first, last};
}

}  // namespace reprise::backend::host
