// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <exception>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <span>
#include <string>
#include <thread>
#include <unordered_map>
#include <vector>

#include "backend/backend.h"
#include "captures/registry.h"
#include "inspect/annotations/annotation_log.h"
#include "reprise/annotations.h"
#include "reprise/capture_report.h"
#include "reprise/stream.h"

namespace reprise::inspect {

class ProgressMarks;

using NodeAnnotations = std::unordered_map<GraphNodeHandle, Annotation>;

/// Nodes that lie in nodes of a capture.
struct InnerNodes {
  NodeAnnotations of_bodies;    ///< that have ended; none is empty
  NodeAnnotations of_children;  ///< the annotations of their own
  bool has_children = false;
};

/// The scopes of one capture: the open ones of each thread, and the nodes of the graph whenever one was entered or
/// left. The body of a conditional node has an object of its own while it is captured, whose nodes have the annotation
/// that was in force where the node was added, and those of scopes in the body.
///
///     open -> finished    finish(), as the capture ends or is abandoned: scopes that are left afterwards do nothing
///
/// Attached to the capture from open() to finish(), so that scopes find it.
///
/// Threads: scopes are entered and left on any thread; other calls come from one thread at a time. The mutex is held
/// during queries of the runtime: the graph is not read by another thread, and does not end. A thread queries its own
/// streams only.
class CaptureAnnotations {
 public:
  /// \param body its graph, or that of the capture itself.
  CaptureAnnotations(captures::Capture& capture, const captures::Body& body, bool is_body, const Annotation& around,
                     std::shared_ptr<ProgressMarks> marks);
  CaptureAnnotations(const CaptureAnnotations&) = delete;
  CaptureAnnotations& operator=(const CaptureAnnotations&) = delete;

  /// Attaches new ones to a capture that has begun, where of() finds them.
  /// \param marks that scopes add to where they end; may be null.
  static std::shared_ptr<CaptureAnnotations> open(captures::Capture& capture, std::shared_ptr<ProgressMarks> marks);
  /// Null if the capture has no annotations.
  static std::shared_ptr<CaptureAnnotations> of(const captures::Capture& capture) noexcept;
  /// Annotations of the body that was found, if any, else of the capture; null if there are none.
  static std::shared_ptr<CaptureAnnotations> of(const captures::Found& found) noexcept;

  /// A body is captured from now on, by the calling thread.
  void begin_body(captures::Capture& capture, const captures::Body& body);
  /// The capture of the body is about to end: its nodes get their annotations.
  /// \throws the first error that could not be thrown before.
  void end_body(const captures::Body& body);
  void abandon_body(const captures::Body& body) noexcept;
  /// A child graph was added, whose nodes have these annotations of their own, from its capture.
  void add_child(NodeAnnotations nodes);
  InnerNodes take_inner_nodes();
  /// The annotation of the calling thread's innermost scope; empty outside of scopes.
  static std::string within() noexcept;

  /// Enters a scope of the calling thread. `tails`: the dependencies of the next node of `stream`.
  /// \return a number for leave(); 0 if the capture has ended.
  /// \throws BackendError if a query of the runtime fails.
  std::uint64_t enter(const Annotation& own, const StreamRef& stream, std::span<const GraphNodeHandle> tails);
  /// Leaves a scope, on any thread. take_log() throws errors met here.
  void leave(std::uint64_t scope) noexcept;
  /// After finish(): the calling thread's open scopes go on in the annotations of another capture, which has just begun
  /// on the stream that is captured; leave() then leaves them there.
  /// \throws BackendError if a query of the runtime fails.
  void continue_in(const std::shared_ptr<CaptureAnnotations>& next);
  /// Notifies that a stream is about to be destroyed.
  void stream_ends(const StreamRef& stream) noexcept;

  /// Reads the graph for the last time, before the capture ends. No-op when called again.
  void finish() noexcept;
  void capture_ends() noexcept { finish(); }  ///< by the slot
  /// After finish(): the annotation in which the capture, or a body of it, broke, if it did; `report`: that of the
  /// capture.
  Annotation broke_in(const CaptureReport& report) const;
  /// After finish(), of a capture without failure.
  /// \throws the first error that could not be thrown before.
  AnnotationLog take_log();
  /// After finish(), of a failed capture: warns of errors that could not be thrown, unless the capture broke.
  void give_up() noexcept;

 private:
  struct Scope {
    std::uint64_t number;
    std::optional<StreamRef> stream;  // at its beginning; nullopt once destroyed
    Annotation own;
    std::size_t merged;  // annotation with the enclosing ones: an index of the log
  };
  struct Thread {
    std::thread::id id;
    std::uint64_t number;  // the system's thread id
    std::vector<Scope> scopes;
    std::optional<std::size_t> broke_in;  // the annotation when it first found the capture broken
    std::size_t in_force() const { return scopes.empty() ? 0 : scopes.back().merged; }
  };
  using Nodes = std::vector<GraphNodeHandle>;

  std::shared_ptr<CaptureAnnotations> body_of(std::uint64_t id) const noexcept;
  std::shared_ptr<CaptureAnnotations> take_body(std::uint64_t id) noexcept;
  bool keep_if_broken(const std::shared_ptr<CaptureAnnotations>& body) noexcept;
  Annotation in_force() const;
  std::string within_this() const;
  std::size_t thread_of_caller();
  void found_broken(Thread& thread);
  /// Adds the dependencies of the streams of a thread's scopes. `known` was queried already.
  CaptureStatus query_streams(const Thread& thread, const std::optional<StreamRef>& known, Nodes* tails);
  CaptureStatus query(const StreamRef& stream, Nodes* tails);
  void look_at_graph();
  void remove(Thread& thread, std::size_t which);
  void leave_checked(std::uint64_t scope);
  void mark(const Scope& scope);
  void notify_framework(const Thread& thread) const noexcept;
  void finish_checked();

  const StreamRef stream_;
  const std::uint64_t capture_id_;
  const GraphHandle graph_;
  const bool is_body_;
  const std::shared_ptr<ProgressMarks> marks_;  // null: scopes leave none

  mutable std::mutex mutex_;    // guards the rest
  captures::Capture* open_in_;  // until finish()
  bool finished_ = false;
  bool broken_ = false;  // when it was finished
  std::uint64_t last_scope_ = 0;
  std::vector<Thread> threads_;
  std::optional<std::size_t> broke_in_;  // of the thread that first found it broken
  AnnotationLog log_;
  Nodes found_;                                                          // of look_at_graph(), kept for its memory
  std::exception_ptr failure_;                                           // the first error that could not be thrown
  std::map<std::uint64_t, std::shared_ptr<CaptureAnnotations>> bodies_;  // by the ids of their captures
  std::vector<std::shared_ptr<CaptureAnnotations>> broken_bodies_;       // that have ended
  InnerNodes inner_;
  std::shared_ptr<CaptureAnnotations> next_;          // where scopes go on
  std::map<std::uint64_t, std::uint64_t> continued_;  // their numbers here and there
};

}  // namespace reprise::inspect
