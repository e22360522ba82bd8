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
#include <vector>

#include "backend/backend.h"
#include "graph/capture_listener.h"
#include "inspect/annotations/annotation_log.h"
#include "reprise/annotations.h"
#include "reprise/capture_report.h"
#include "reprise/stream.h"

namespace reprise::inspect {

/// Hears what the calling thread says of the nodes that it makes from now on in a capture, when it enters and leaves a
/// scope, which may be after the end of the capture; empty if it is in none.
using ScopeObserver = void (*)(DeviceType type, std::uint64_t capture_id, const Annotation& now) noexcept;

/// From now on all scopes are told to `observer`, which must not call them. One in the process. Thread-safe.
void set_scope_observer(ScopeObserver observer) noexcept;

/// The scopes of one capture: who is in which, and what the capturing graph looked like whenever one was entered or
/// left.
///
///     open -> finished    finish(), as the capture ends or is abandoned: scopes that are left afterwards do nothing
///
/// Attached to the capture from open() to finish(), so that scopes find it.
///
/// Threads: scopes are entered and left on any; the rest comes from one at a time. The mutex is held while the runtime
/// is asked: nobody else looks at the graph then, and it does not end. A thread asks about its own streams only.
class CaptureAnnotations {
 public:
  CaptureAnnotations(const graphs::CaptureContext& context, GraphHandle graph);
  CaptureAnnotations(const CaptureAnnotations&) = delete;
  CaptureAnnotations& operator=(const CaptureAnnotations&) = delete;

  /// From now on of() finds them.
  static void open(captures::Capture& capture, const std::shared_ptr<CaptureAnnotations>& annotations);
  /// Null if the capture has no annotations.
  static std::shared_ptr<CaptureAnnotations> of(const captures::Capture& capture) noexcept;
  /// What the innermost scope of the calling thread says; empty if it is in none.
  static std::string within() noexcept;

  /// The calling thread enters a scope. `tails` is what the next node of `stream` will depend on.
  /// \return a number for leave(); 0 if the capture was over.
  /// \throws BackendError if the runtime does not tell.
  std::uint64_t enter(const Annotation& own, const StreamRef& stream, std::span<const GraphNodeHandle> tails);
  /// A scope is left, by any thread. What cannot be found out is thrown by take_log().
  void leave(std::uint64_t scope) noexcept;
  /// A stream is going to be destroyed.
  void stream_ends(const StreamRef& stream) noexcept;

  /// The capture is going to end: looks at the graph for the last time. Does nothing when called again.
  void finish() noexcept;
  /// After finish(): where the capture broke, if it did; `report` is what is known of that.
  Annotation broke_in(const CaptureReport& report) const;
  /// After finish(), of a capture that went well.
  /// \throws what could not be thrown when it happened.
  AnnotationLog take_log();
  /// After finish(), of a capture that did not: warns of what could not be thrown, unless the capture broke.
  void give_up() noexcept;

 private:
  struct Scope {
    std::uint64_t number;
    std::optional<StreamRef> stream;  // at its beginning; none when it was destroyed
    Annotation own;
    std::size_t merged;  // with those around it: of the log
  };
  struct Thread {
    std::thread::id id;
    std::uint64_t number;  // the system's
    std::vector<Scope> scopes;
    std::optional<std::size_t> broke_in;  // what was in force when it found the capture broken first
    std::size_t in_force() const { return scopes.empty() ? 0 : scopes.back().merged; }
  };
  using Nodes = std::vector<GraphNodeHandle>;

  std::string within_this() const;
  std::size_t thread_of_caller();
  std::size_t number_of(const Annotation& annotation);
  void found_broken(Thread& thread);
  /// Adds what the streams of a thread's scopes depend on. `known` was asked already.
  CaptureStatus ask_streams(const Thread& thread, const std::optional<StreamRef>& known, Nodes* tails);
  CaptureStatus ask(const StreamRef& stream, Nodes* tails);
  void look_at_graph();
  void remove(Thread& thread, std::size_t which);
  void leave_checked(std::uint64_t scope);
  void tell_observer(const Thread* thread) const noexcept;
  void finish_checked();

  const StreamRef stream_;
  const std::uint64_t capture_id_;
  const GraphHandle graph_;
  captures::Capture* open_in_ = nullptr;

  mutable std::mutex mutex_;  // guards the rest
  bool finished_ = false;
  bool broken_ = false;  // when it was finished
  std::uint64_t last_scope_ = 0;
  std::vector<Thread> threads_;
  std::map<Annotation, std::size_t> numbers_;
  std::optional<std::size_t> broke_in_;  // of the thread that found it broken first
  AnnotationLog log_;
  Nodes found_;                 // of look_at_graph(), kept for its memory
  std::exception_ptr failure_;  // the first one that nobody could be told of
};

}  // namespace reprise::inspect
