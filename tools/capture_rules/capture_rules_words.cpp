// SPDX-License-Identifier: Apache-2.0
#include "tools/capture_rules/capture_rules_words.h"

namespace reprise::docs {

using backend::CallClass;
using backend::Situation;

std::string words_of(CallClass call_class) {
  switch (call_class) {
    case CallClass::always_allowed:
      return "always allowed";
    case CallClass::potentially_unsafe:
      return "potentially unsafe";
    case CallClass::stream_work:
      return "work";
    case CallClass::stream_launch_only:
      return "work without a node";
    case CallClass::stream_unsafe:
      return "unsafe work without a node";
    case CallClass::stream_batch:
      return "batch of copies";
    case CallClass::stream_allocation:
      return "allocation in a stream";
    case CallClass::stream_property:
      return "id and flags of a stream";
    case CallClass::stream_wait:
      return "wait for a stream";
    case CallClass::event_wait:
      return "wait for an event";
    case CallClass::join:
      return "stream waits for event";
    case CallClass::device_wait:
      return "wait for the device";
    case CallClass::capture_query:
      return "query of a capture";
    case CallClass::capture_begin:
      return "start of a capture";
    case CallClass::capture_update:
      return "change of a capture";
    case CallClass::capture_end:
      return "end of a capture";
  }
  return "?";
}

std::string words_of(Situation situation) {
  switch (situation) {
    case Situation::stream_invalidated:
      return "the stream's capture is broken";
    case Situation::stream_captures:
      return "the stream captures";
    case Situation::stream_does_not_capture:
      return "the stream does not capture";
    case Situation::stream_is_legacy:
      return "on the legacy default stream";
    case Situation::stream_is_not_origin:
      return "the stream joined the capture, which began on another one";
    case Situation::wrong_thread:
      return "another thread began the capture, in mode `global` or `thread`";
    case Situation::fork_not_joined:
      return "a forked stream has work that was not joined, or got work after its join";
    case Situation::legacy_conflict:
      return "on the legacy default stream, while a *blocking* stream captures";
    case Situation::external_without_capture:
      return "with the external flag, on a stream that does not capture";
    case Situation::graph_is_captured_to:
      return "another capture adds to the same graph";
    case Situation::event_captured:
      return "the event was last recorded in the capture";
    case Situation::event_invalidated:
      return "the event was last recorded in a capture that is broken";
    case Situation::event_of_ended_capture:
      return "the event was last recorded in a capture that is over";
    case Situation::legacy_waits_for_capture:
      return "the legacy default stream would wait for an event of a capture";
    case Situation::other_capture:
      return "the event is of *another* capture that goes on";
    case Situation::event_outside:
      return "the stream captures, the event was recorded outside, and the external flag is not given";
    case Situation::device_captures:
      return "any stream of the device captures, on any thread";
    case Situation::thread_forbids:
      return "the modes forbid it, as above, and stream and event are in no capture";
  }
  return "?";
}

}  // namespace reprise::docs
