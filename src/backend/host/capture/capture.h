// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>

#include "backend/host/host_device.h"
#include "backend/rules/capture_rules.h"

// Captures: the check of the rules, and how a capture begins, grows and is over. All with the runtime's mutex held.

namespace reprise::backend::host {

/// A call, as the rules see it.
struct CallSite {
  Call call;
  HostDevice* device;
  HostStream* stream = nullptr;
  HostEvent* event = nullptr;
  bool external = false;  ///< an event use of its own in the graph
  HostGraph* graph = nullptr;
};

/// The one place where the capture rules are applied: finds the first rule that matches, does to the captures what it
/// says, leaves its text as the thread's error detail, and returns its code; success if none matches.
Result check_capture_rules(HostRuntime& runtime, const CallSite& site);

/// The same for a call of CUDA that the backend interface does not have: of this class, and with CUDA's name. What the
/// site says of the call is not looked at.
Result check_capture_rules(HostRuntime& runtime, const CallSite& site, CallClass call_class, const char* name);

/// The calling thread's capture mode.
CaptureErrorMode& thread_capture_mode() noexcept;

/// Makes the stream the origin of a new capture into `graph`.
void begin_capture(HostRuntime& runtime, HostStream& stream, HostGraph& graph, bool owns_graph, CaptureErrorMode mode);

/// The stream takes part from now on, after these nodes.
void join_capture(HostStream& stream, const std::shared_ptr<Capture>& capture);

/// Adds a node for work of a capturing stream.
HostNode& capture_node(HostRuntime& runtime, HostStream& stream, NodeType type, Work work);

/// A call on a capturing stream failed for a reason of its own: that breaks the capture, too.
void break_capture(const HostStream& stream, Call call, Result result, const std::string& why);

/// A call failed without breaking a capture that the calling thread began: notes it there, if somebody watches.
void note_refused(HostRuntime& runtime, Call call, Result result);

/// The capture is over: its streams are ordinary again. The graph stays.
void finish_capture(HostRuntime& runtime, Capture& capture);

/// ... and its graph is dropped, unless it is the user's.
void drop_capture(HostRuntime& runtime, Capture& capture);

/// The rule that refused the calling thread's call; null when it was something else. Until the call returns.
inline constinit thread_local const CaptureRule* thread_rule = nullptr;

/// Has a report got a call of the calling thread that lacks its stack?
inline constinit thread_local bool stack_pending = false;

/// Gives the calling thread's stack to the calls in reports that lack it. Without the runtime's mutex, which it takes.
void attach_pending_stack(HostRuntime& runtime);

/// The calling thread's text about its last failed call.
std::string& thread_error_detail() noexcept;

}  // namespace reprise::backend::host
