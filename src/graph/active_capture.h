// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <optional>
#include <span>
#include <thread>
#include <utility>

#include "captures/registry.h"
#include "graph/capture_listener.h"

namespace reprise::graphs {

/// One capture, from its beginning until nothing of it can fail any more: the runtime's capture, its place in the
/// registry, and the listeners that take part.
///
///     begun -> ended (the runtime's capture is over, the template is the caller's) -> committed
///
/// Destroyed before it is committed, it releases everything in the reverse order: ends the runtime's capture, destroys
/// its graph, and abandons the listeners.
///
/// Threads: one at a time. In the modes `global` and `thread_local_` the runtime requires the end on the thread of the
/// beginning; the release is possible on any.
class ActiveCapture {
 public:
  /// Begins. The listeners, in their order, must outlive this object, and so must the list.
  /// \throws exceptions of listeners; BackendError if the runtime cannot begin. Everything is released then.
  ActiveCapture(const CaptureContext& context, std::span<CaptureListener* const> listeners);
  ~ActiveCapture();
  ActiveCapture(const ActiveCapture&) = delete;
  ActiveCapture& operator=(const ActiveCapture&) = delete;

  /// Ends the runtime's capture and lets the listeners see the template, which is the caller's.
  /// \throws CaptureError if the capture was broken or came out empty; what a listener throws. There is no template
  ///         then, and this object is to be destroyed.
  GraphHandle end();

  /// Nothing can fail any more: the listeners keep what they acquired.
  void commit() noexcept { listeners_begun_ = 0; }

  const CaptureContext& context() const noexcept { return context_; }
  /// Releases everything, as the destructor does, unless it was committed.
  void unwind() noexcept;
  /// The report of the ended or abandoned capture; nullopt if there is none.
  std::optional<CaptureReport> take_report() noexcept { return std::exchange(report_, std::nullopt); }
  std::thread::id owner() const noexcept { return registered_.capture().owner(); }  ///< the thread that began it

 private:
  void begin();
  void drop_runtime_capture() noexcept;
  GraphHandle end_runtime_capture();
  void refuse_empty(GraphHandle template_graph);
  /// What is known now, while the runtime still captures.
  CaptureReport describe() const;
  /// Keeps the report if it tells something.
  void keep(const CaptureReport& report);

  captures::Registration registered_;
  CaptureContext context_;
  const std::span<CaptureListener* const> listeners_;
  std::uint64_t thread_number_;  // of the thread that began it, for reports
  std::size_t listeners_begun_ = 0;
  bool capturing_ = false;            // the runtime captures for us
  std::optional<std::size_t> nodes_;  // that were captured, from the last report; not set if unknown
  std::optional<CaptureReport> report_;
};

}  // namespace reprise::graphs
