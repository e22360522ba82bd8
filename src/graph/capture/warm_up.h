// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <optional>

#include "graph/capture/framework_captures.h"
#include "graph/capture/internal_streams.h"
#include "reprise/capture.h"
#include "reprise/capture_options.h"
#include "reprise/stream.h"

namespace reprise::graphs {

/// GraphOptions::warmup: the runs of a body before its capture. The stream of the capture is current until the end of
/// the scope; the stream that was current before continues after it.
///
/// Used on one thread.
class WarmUp {
 public:
  /// Runs the body, after the work of the current stream. Generators are as before at the end, also if it throws: the
  /// default one, those of `options`, to which the caller adds what is registered with the graph, and the framework's.
  /// \param framework what the framework has in the graph; null without one.
  /// \throws UsageError if the number of runs is negative, or the current stream is being captured; what the body
  /// throws.
  WarmUp(const GraphOptions& options, const CaptureBody& body, const FrameworkListeners* framework);
  WarmUp(const WarmUp&) = delete;
  WarmUp& operator=(const WarmUp&) = delete;

  const StreamRef& stream() const noexcept { return stream_; }

 private:
  /// Orders the stream that was current after the stream of the capture at the end, also if a run throws.
  struct Order {
    ~Order();
    const StreamRef& before;
    const StreamRef& stream;
  };

  const StreamRef before_;
  std::optional<InternalStream> internal_;  // without GraphOptions::stream
  const StreamRef stream_;
  const StreamGuard current_;
  const Order order_{before_, stream_};
};

}  // namespace reprise::graphs
