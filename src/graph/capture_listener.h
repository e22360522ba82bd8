// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <memory>

#include "captures/capture.h"
#include "reprise/device.h"
#include "reprise/graph.h"
#include "reprise/handles.h"
#include "reprise/memory.h"
#include "reprise/stream.h"

namespace reprise::graphs {

/// What there is to know about one capture.
struct CaptureContext {
  Device device;             ///< where it captures
  StreamRef stream;          ///< the stream that it began on
  CaptureErrorMode mode;     ///< what other calls may do meanwhile
  MempoolId pool;            ///< where its allocations come from; always names a pool
  std::uint64_t capture_id;  ///< the runtime's number of the capture; 0 before started()
  GraphOptions options;      ///< as the user gave them
  captures::Capture* capture =
      nullptr;  ///< where listeners keep what others find; from begin() to ended() or abandoned()
};

/// One concern that takes part in the captures of one graph besides the stream: the memory pool, random numbers,
/// liveness, annotations and so on. A graph owns its listeners and calls them, in the order of listeners.h:
///
///     begin -> started -> ended -> [instantiated | before_replay -> replayed | replay_failed ...] -> reset
///        \________\__________\---> abandoned
///
/// A rehearsal is a capture into a graph of its own, with listeners of its own, which is never replayed.
///
/// begin() comes before the runtime captures, started() right after that began, ended() when the capture has ended and
/// its template is alive and not yet visible elsewhere. When any step of the capture fails, at this listener, at
/// another or between them, and up to the end of CUDAGraph::capture_end, each listener whose begin() had returned gets
/// abandoned(), the last one first; a begin() that throws undoes what it did itself. Afterwards the listener can begin
/// again.
///
/// Threads: one call at a time. begin() to ended() come on the thread that captures, the others on any.
/// Capture mode: begin(), started() and ended() run in the mode of the user's thread, so that a listener whose calls
/// are potentially unsafe exchanges the mode itself.
class CaptureListener {
 public:
  virtual ~CaptureListener() = default;

  /// The name of the option for which this listener needs the body to be captured once before, in a rehearsal; null if
  /// there is none. Only capture() can do that; other captures are refused.
  virtual const char* needs_rehearsal(const GraphOptions& /*options*/) const noexcept { return nullptr; }
  /// Before begin(), if it does: the rehearsal went well, and `listener` was the one of this kind in it. The rehearsed
  /// graph is thrown away after this.
  virtual void rehearsed(CaptureListener& /*listener*/) {}

  virtual void begin(const CaptureContext& /*context*/) {}    ///< may throw: the capture does not begin
  virtual void started(const CaptureContext& /*context*/) {}  ///< may throw: the capture is abandoned
  /// `template_graph` may be changed, but stays the graph's own. May throw: the capture fails.
  virtual void ended(const CaptureContext& /*context*/, GraphHandle /*template_graph*/) {}
  /// The runtime's capture is over, or about to be abandoned; before ended() or abandoned(). Adds what this listener
  /// knows of it.
  virtual void describe(CaptureReport& /*report*/) {}
  /// The report of the capture is complete, whether or not there is anything to tell.
  virtual void reported(const CaptureReport& /*report*/) noexcept {}
  /// The capture failed: release everything acquired for it.
  virtual void abandoned() noexcept {}

  /// There is an executable, made from the template, in the place of the one that there may have been.
  virtual void instantiated(GraphHandle /*template_graph*/, GraphExecHandle /*exec*/) noexcept {}

  /// Queried once after each capture: true if the next three are needed for it.
  virtual bool takes_part_in_replays() const noexcept { return false; }
  /// Right before each launch, the last listener first, on the thread of the replay, one replay after the other. May
  /// throw: nothing is launched, and those that were called before get replay_failed().
  virtual void before_replay(const StreamRef& /*stream*/) {}
  /// It was launched; the first listener first.
  virtual void replayed(const StreamRef& /*stream*/) noexcept {}
  /// It was not, although before_replay() had returned.
  virtual void replay_failed() noexcept {}

  /// After ended(): a resource that must live as long as the template, the executables and their running launches,
  /// released by its destructor; null if there is none. It may be destroyed after the listener, on any thread that
  /// calls this library, during any capture: it exchanges the capture mode itself.
  virtual std::shared_ptr<void> take_resource() { return nullptr; }

  /// The graph is empty again: forget the capture.
  virtual void reset() noexcept {}
};

}  // namespace reprise::graphs
