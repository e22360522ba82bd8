// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>

#include "backend/host/host_device.h"
#include "backend/rules/capture_rules.h"

// Captures: the check of the rules; begin, growth and end of a capture. All with the runtime's mutex held.

namespace reprise::backend::host {

/// A call, as the capture rules need it.
struct CallSite {
  Call call;
  HostDevice* device;
  HostStream* stream = nullptr;
  HostEvent* event = nullptr;
  bool external = false;  ///< EventUse::external
  HostGraph* graph = nullptr;
};

/// Applies the capture rules, in this place only: finds the first rule that matches, applies its effect to the
/// captures, sets its text as the thread's error detail, and returns its code; success if none matches.
Result check_capture_rules(HostRuntime& runtime, const CallSite& site);

/// The same for a call of CUDA that is not in the backend interface: of this class, and with CUDA's name. The call of
/// the site is ignored.
Result check_capture_rules(HostRuntime& runtime, const CallSite& site, CallClass call_class, const char* name);

/// The calling thread's capture mode.
CaptureErrorMode& thread_capture_mode() noexcept;

/// Makes the stream the origin of a new capture into `graph`.
void begin_capture(HostRuntime& runtime, HostStream& stream, HostGraph& graph, bool owns_graph, CaptureErrorMode mode);

/// Joins a stream to the capture, after these nodes.
void join_capture(HostStream& stream, const std::shared_ptr<Capture>& capture);

/// Adds a node for work of a capturing stream.
HostNode& capture_node(HostRuntime& runtime, HostStream& stream, NodeType type, Work work);

/// Breaks the capture of a stream after a call on it failed for another reason than captures.
void break_capture(const HostStream& stream, Call call, Result result, const std::string& why);

/// Notes a failed call in captures begun by the calling thread that it did not break, if calls are watched.
void note_refused(HostRuntime& runtime, Call call, Result result);

/// Ends the capture: its streams are ordinary again. The graph stays.
void finish_capture(HostRuntime& runtime, Capture& capture);

/// ... and destroys its graph, unless that is the user's.
void drop_capture(HostRuntime& runtime, Capture& capture);

/// The rule that refused the calling thread's call; null if none did. Valid until the call returns.
inline constinit thread_local const CaptureRule* thread_rule = nullptr;

/// True if a report has a call of the calling thread without its stack.
inline constinit thread_local bool stack_pending = false;

/// Adds the calling thread's stack to the calls in reports that lack it. Locks the runtime's mutex.
void attach_pending_stack(HostRuntime& runtime);

/// The calling thread's text about its last failed call.
std::string& thread_error_detail() noexcept;

}  // namespace reprise::backend::host
