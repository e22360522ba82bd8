// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <atomic>
#include <cstddef>
#include <memory>
#include <optional>
#include <shared_mutex>
#include <span>
#include <utility>

#include "captures/registry.h"
#include "graph/control_flow/bodies.h"
#include "graph/listeners/capture_listener.h"
#include "reprise/error.h"

namespace reprise::graphs {

/// Carries out a capture, from its announcement until nothing of it can fail any more: enters it into the registry,
/// calls the runtime and the listeners, and undoes all of that on failure.
///
///     announced -> begun -> ended (the runtime's capture is over, the template is the caller's) -> committed
///
/// Destroyed before it is committed, it releases everything in the reverse order: ends the runtime's capture, destroys
/// its graph, and abandons the listeners.
///
/// Threads: one at a time. In the modes `global` and `thread` the runtime requires the end on the thread of the
/// beginning; the release is possible on any.
class ActiveCapture {
 public:
  /// Announces it, see captures::Registration. The listeners, in their order, must outlive this object, and so must
  /// the list.
  ActiveCapture(const StreamRef& stream, const GraphOptions& options, MempoolId pool,
                std::span<CaptureListener* const> listeners);
  ActiveCapture(const StreamRef& stream, GraphOptions&& options, MempoolId pool,
                std::span<CaptureListener* const> listeners) = delete;  ///< they must stay
  ~ActiveCapture() { unwind(); }
  ActiveCapture(const ActiveCapture&) = delete;
  ActiveCapture& operator=(const ActiveCapture&) = delete;

  /// \throws exceptions of listeners; UsageError if the stream is capturing; BackendError if the runtime cannot begin.
  ///         The object must then be destroyed.
  void begin(const char* call);

  /// Ends the runtime's capture and lets the listeners see the template, which is the caller's.
  /// \param frame CapturedGraph::end_frame; null if it is not known.
  /// \param known CapturedGraph::known.
  /// \throws CaptureError if the capture was broken or came out empty; what a listener throws. There is no template
  ///         then, and the object must be destroyed.
  CapturedGraph end(const void* frame = nullptr, NodeChanges* known = nullptr);

  /// Nothing can fail any more: the listeners keep what they acquired.
  void commit() noexcept { listeners_begun_ = 0; }

  captures::Capture& capture() const noexcept { return registered_.capture(); }
  /// Access to the ActiveCapture of a capture for a call on any thread, from begin() on: the end of the capture waits
  /// until it is destroyed. False once the end has begun, and for captures that have none. Not to be held while a body
  /// of the user's runs, nor twice by one thread.
  class Use {
   public:
    explicit Use(captures::Capture& capture) noexcept;
    explicit operator bool() const noexcept { return active_ != nullptr; }
    ActiveCapture* operator->() const noexcept { return active_.get(); }

   private:
    std::shared_lock<std::shared_mutex> lock_;
    std::shared_ptr<ActiveCapture> active_;  // owned by the graph
  };
  Bodies& bodies() noexcept { return bodies_; }
  /// The capture has nodes that lie in a node of it: those of a child graph or a body. On any thread that takes part.
  void add_inner_nodes(std::size_t number) noexcept { inner_nodes_ += number; }
  bool has_inner_nodes() const noexcept { return inner_nodes_ != 0; }
  /// Notify the listeners, see there. On any thread that takes part in the capture.
  void body_began(const captures::Body& body);
  void body_ends(const captures::Body& body);
  void body_abandoned(const captures::Body& body) noexcept;
  /// The capture of a body failed: the report is that of the whole capture, too.
  /// \param call the function of the library that captures it.
  /// \param findings of the body's stream, before the end.
  CaptureError body_failure(const char* call, const backend::CaptureFindings& findings, ErrorCode result);
  /// Makes the report for a body whose capture is broken and which an exception leaves.
  void body_broke(const backend::CaptureFindings& findings) {
    keep(describe(findings, {.code = ErrorCode::stream_capture_invalidated}));
  }
  /// The capture itself failed, or is broken.
  CaptureError failure(const backend::CaptureFindings& findings, ErrorCode result, std::string detail = {});
  /// Releases everything, as the destructor does, unless it was committed.
  void unwind() noexcept;
  /// The report of the ended or abandoned capture; nullopt if there is none.
  std::optional<CaptureReport> take_report() noexcept { return std::exchange(report_, std::nullopt); }

 private:
  void end_uses() noexcept;  // waits for those underway; later ones are false
  GraphHandle end_runtime_capture(const backend::CaptureFindings& findings);
  [[noreturn]] void refuse_incomplete(const backend::CaptureFindings& findings);
  void refuse_empty(GraphHandle template_graph);  // unless it has nodes
  /// What the device knows now, while the runtime still captures.
  backend::CaptureFindings observe() const;
  std::size_t own_nodes() const noexcept;  // of listeners, which make no capture of nothing a graph
  CaptureReport describe(const backend::CaptureFindings& findings) const;
  CaptureReport describe(const backend::CaptureFindings& findings, const CaptureFailure& failure) const;
  /// Keeps the report unless it is empty.
  void keep(const CaptureReport& report);
  /// Notifies the listeners that the exception being handled refuses the graph of a capture that ended well.
  /// Adds what listeners found in the graph, and makes the report for it if there is none.
  void add_to_report(const backend::CaptureFindings& findings, CapturedGraph& graph);

  captures::Registration registered_;
  const std::span<CaptureListener* const> listeners_;
  std::size_t listeners_begun_ = 0;
  bool capturing_ = false;  // the runtime captures for us
  std::optional<CaptureReport> report_;
  Bodies bodies_;
  std::atomic<std::size_t> inner_nodes_{0};
};

/// True if the capture failed, was broken, or left work out.
bool shows_a_fault(const CaptureReport& report) noexcept;

/// \throws UsageError for a `call` whose stream takes part in a capture.
[[noreturn]] void refuse_capturing_stream(const char* call);
/// Refuses a stream that takes part in a capture. \throws UsageError that begins with `call`.
void require_no_capture(const char* call, const StreamRef& stream);

}  // namespace reprise::graphs
