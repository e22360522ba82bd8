// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <memory>
#include <mutex>
#include <vector>

#include "captures/body.h"
#include "graph/internal_streams.h"

namespace reprise::graphs {

/// Ends the runtime's capture that began on a stream, if it is still underway, whatever its state: otherwise the stream
/// could not be used again. A graph that comes out of it is destroyed, unless it is that of a conditional node.
enum class EndedGraph { destroy, belongs_to_node };
void drop_capture(const StreamRef& stream, EndedGraph graph) noexcept;

/// What a capture has of nodes that are made in several steps: how many are incomplete, the bodies that are being
/// captured, and the streams on which bodies are. Thread-safe.
class Bodies {
 public:
  /// A node was, or is about to be, added to a graph of the capture, where no node can be removed: unless
  /// end_addition() follows, the capture fails in the end.
  void begin_addition() noexcept;
  void end_addition() noexcept;
  bool is_complete() const noexcept;

  /// The stream on which a body is captured whose node comes next on `outer`, a stream of the capture, or body, with
  /// the id `outer_id`.
  ///
  /// Allocators take work of one stream for ordered, and give out for it what was freed on it. So a body of a `while`
  /// node has a stream of its own: what was allocated outside of it is not given out in it, where the next iteration
  /// may use it again. All other bodies of one stream share one, since their nodes run one after another.
  /// \throws BackendError if a stream is needed and cannot be made.
  StreamRef stream_for(const StreamRef& outer, std::uint64_t outer_id, bool repeats);

  /// A body is being captured on this stream until closed().
  void opened(const StreamRef& stream);
  /// False if drop_open() ended its capture.
  bool closed(const StreamRef& stream) noexcept;
  /// Ends the captures of open bodies, the innermost first.
  void drop_open() noexcept;

 private:
  struct OwnStream {
    StreamHandle outer;
    std::uint64_t outer_id;
    bool repeats;
    std::unique_ptr<InternalStream> stream;
  };

  mutable std::mutex mutex_;  // guards the rest
  int incomplete_ = 0;
  std::vector<OwnStream> streams_;  // until the end of the capture
  std::vector<StreamRef> open_;
};

}  // namespace reprise::graphs
