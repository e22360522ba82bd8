// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "backend/call.h"
#include "backend/host/host_device.h"
#include "backend/result.h"
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
/// captures, and returns its code and text; success if none matches.
Result check_capture_rules(HostRuntime& runtime, const CallSite& site);

/// The same for a call of CUDA that is not in the backend interface: of this class, and with CUDA's name. The call of
/// the site is ignored.
Result check_capture_rules(HostRuntime& runtime, const CallSite& site, CallClass call_class, const char* name);

/// The calling thread's capture mode.
CaptureMode& thread_capture_mode() noexcept;

/// Makes the stream the origin of a new capture into `graph`.
void begin_capture(HostRuntime& runtime, HostStream& stream, HostGraph& graph, bool owns_graph, CaptureMode mode);

/// Joins a stream to the capture, after these nodes.
void join_capture(HostStream& stream, const std::shared_ptr<HostCapture>& capture);

/// Makes the next node of the stream depend on these nodes, too.
void add_dependencies(HostStream& stream, std::span<const Dependency> added);
/// Adds a node for work of a capturing stream.
/// \param programmatic the edges from kernels are programmatic.
HostNode& capture_node(HostRuntime& runtime, HostStream& stream, NodeType type, Work work, bool programmatic = false);

/// Breaks the capture of a stream after a call on it failed for another reason than captures.
void break_capture(const HostStream& stream, Call call, const Result& result);

/// Notes a failed call in captures begun by the calling thread that it did not break, if calls are watched.
void note_refused(HostRuntime& runtime, Call call, const Result& result);

/// Ends the capture: its streams are ordinary again. The graph stays.
void finish_capture(HostRuntime& runtime, HostCapture& capture);

/// Ends the capture likewise, and destroys its graph unless that is the user's.
void drop_capture(HostRuntime& runtime, HostCapture& capture);

/// Invalidates a capture whose graph is about to be destroyed, and makes it forget the graph.
void lose_graph(HostCapture& capture) noexcept;

/// True if the findings of a capture, or a watch of work, have a call of the calling thread without its stack.
bool lacks_stacks(const HostRuntime& runtime);

/// Adds the calling thread's stack to these. Not with the runtime's mutex held: locks it.
void add_stacks(HostRuntime& runtime);

}  // namespace reprise::backend::host
