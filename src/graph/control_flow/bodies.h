// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <mutex>
#include <optional>
#include <vector>

#include "captures/body.h"
#include "graph/capture/internal_streams.h"
#include "reprise/error.h"

namespace reprise::graphs {

/// The conditional and child nodes of a capture that are being added: how many are incomplete, the bodies that are
/// being captured, and their streams. Thread-safe.
///
/// CUDA 13.0 destroys the graph of a body whose capture fails, but the conditional node keeps it: whatever destroys the
/// node afterwards crashes, and so does the end of a body's capture after its node was destroyed. So the capture of a
/// body is ended only where that succeeds; one that is broken stays as it is until drop() ends the capture around it.
class Bodies {
 public:
  /// A node was, or is about to be, added to a graph of the capture, where no node can be removed: unless
  /// end_addition() follows, the capture fails at its end.
  void begin_addition() noexcept { ++incomplete_; }
  void end_addition() noexcept { --incomplete_; }
  bool is_complete() const noexcept { return incomplete_ == 0; }

  /// The stream on which a body is captured whose node comes next on `outer`, a stream of the capture, or body, with
  /// the id `outer_id`.
  ///
  /// Allocators assume that work of one stream is ordered, and reuse memory freed on a stream for that stream. So a
  /// body of a `while` node has a stream of its own: what was allocated outside of it is not reused in it, where the
  /// next iteration may use it again. All other bodies of one stream share one, since their nodes run one after
  /// another.
  /// \throws BackendError if a stream is needed and cannot be made.
  StreamRef stream_for(const StreamRef& outer, std::uint64_t outer_id, bool repeats);
  /// True if the body of a node on this stream is being captured. Parameters as in stream_for().
  bool has_body_on(const StreamRef& outer, std::uint64_t outer_id) const noexcept;

  /// A body is being captured on this stream until end().
  /// \param outer the body that its node is in; null: none.
  void opened(const StreamRef& stream, std::shared_ptr<const captures::Body> outer);
  /// Right after opened(): the runtime has refused it.
  void not_begun(const StreamRef& stream) noexcept;
  /// Ends the capture of a body.
  /// \return stream_capture_unjoined if a stream that was forked off was not joined; it is now.
  ///         stream_capture_invalidated: the capture is broken, and drop() ends it. nullopt: drop() did already.
  /// \throws BackendError if a call fails; drop() ends the capture.
  std::optional<ErrorCode> end(const StreamRef& stream);
  /// The same where an error is underway.
  void drop_body(const StreamRef& stream) noexcept;
  /// Ends the captures of bodies and then the one that began on `origin`, whatever their state: otherwise the streams
  /// could not be used again. What was captured is destroyed.
  void drop(const StreamRef& origin) noexcept;

 private:
  struct Open {
    StreamRef stream;
    std::shared_ptr<const captures::Body> outer;
  };
  struct OwnStream {
    StreamHandle outer;
    std::uint64_t outer_id;
    bool repeats;
    std::unique_ptr<InternalStream> stream;
  };

  std::atomic<int> incomplete_ = 0;
  mutable std::mutex mutex_;        // guards the rest
  std::vector<OwnStream> streams_;  // until the end of the capture
  void drop_broken(const StreamRef& origin) noexcept;
  bool is_broken(const StreamRef& stream) const noexcept;
  /// One of the bodies around it is broken, too.
  bool is_in_broken(const Open& body) const noexcept;

  std::vector<Open> open_;
  std::vector<Open> broken_;
};

}  // namespace reprise::graphs
