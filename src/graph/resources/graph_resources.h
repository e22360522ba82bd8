// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <chrono>
#include <functional>
#include <memory>
#include <utility>

#include "backend/backend.h"
#include "memory/lifetime/last_launch.h"
#include "memory/lifetime/release_queue.h"
#include "reprise/graph.h"

namespace reprise::graphs {

/// Resources of a captured graph, held until nothing can use them any more:
///
///     hold -> launch ... -> [the owner destroys template and executable] -> release -> released, or deferred to a
///                                                                           drain of the release queue
///
/// - KeepGraph::no: only the owner launches, and the template is its own. Released after the last launch.
/// - KeepGraph::yes: others may have the handles. A user object of the template owns what is held, which lives as
///   long as template, clones, executables and their running launches. Each launch costs more; the benchmark `replay`
///   shows how much. The user object is destroyed 10 to 160 us after the last reference is gone, on a thread of the
///   runtime that must not call the runtime; therefore the queue.
///
/// LastLaunch remembers the owner's last launch, at next to no cost per launch; with KeepGraph::yes only from
/// track_launches() on.
///
/// Owner: one graph; used by one thread at a time. Destroying this object releases nothing and waits for nothing.
class GraphResources {
 public:
  using Resources = memory::ReleaseQueue::Resources;

  /// \throws BackendError if the runtime fails; the resources were released then.
  void hold(KeepGraph keep, backend::Backend& backend, GraphHandle template_graph, Resources resources);
  /// True from hold() to release().
  bool holds() const noexcept { return holds_; }
  /// After hold(): one resource more, to be released first.
  void add(std::shared_ptr<void> resource);
  /// After hold(): all of them, to be held by another graph, too.
  Resources share() const;
  /// After hold(): holds `next` instead. What was held is released when all launches so far have completed.
  /// \param update called in between; to update the executable to the template, which then has the user object for
  ///        `next`.
  /// \throws BackendError if the runtime fails, and what `update` throws: nothing has changed.
  void exchange(backend::Backend& backend, GraphHandle template_graph, Resources next,
                const std::function<void()>& update);

  /// After hold(): holds what later launches need in addition; the previous one is released after the launches so far.
  /// Not in share(): other graphs get it from where it came. Launches that other code makes by raw handles are not
  /// known, also with KeepGraph::yes.
  void hold_source(std::unique_ptr<Resources> source) noexcept;

  /// Calls `launch`.
  template <class Launch>
  void launch(const StreamRef& stream, Launch&& launch) {
    if (keep_ == KeepGraph::no || tracked_)
      last_launch_.launch(stream, std::forward<Launch>(launch));
    else
      launch();
  }

  /// Remembers launches, until release(), for release_after_launches().
  void track_launches() noexcept { tracked_ = true; }
  /// None that is remembered: an empty one.
  const memory::LastLaunch& last_launch() const noexcept { return last_launch_; }
  /// Queues an object that is not held, or not any more, until the launches that were remembered are over.
  void release_after_launches(std::shared_ptr<void> object) const;

  /// Call it when the owner has destroyed its template and executable. With KeepGraph::yes it waits up to `limit`
  /// for the runtime's last reference, else some microseconds for the last launch. False if the runtime holds a
  /// reference for longer; a later drain of the queue releases then.
  bool release(std::chrono::microseconds limit) noexcept;

 private:
  struct Progress;
  struct UserObject;
  // With KeepGraph::yes: what the template owns by a user object.
  struct Attached {
    UserObjectHandle handle = nullptr;
    std::shared_ptr<Progress> progress = {};    // null: nothing is attached
    std::shared_ptr<Resources> resources = {};  // the user object holds them, too
  };

  static Attached attach(backend::Backend& backend, GraphHandle template_graph, Resources resources);
  void exchange_attached(backend::Backend& backend, GraphHandle template_graph, Resources next,
                         const std::function<void()>& update);
  static bool wait_for_release(Attached attached, std::chrono::microseconds limit) noexcept;
  void release_after_launch() noexcept;

  KeepGraph keep_ = KeepGraph::no;
  bool tracked_ = false;  // also with KeepGraph::yes
  memory::LastLaunch last_launch_;
  bool holds_ = false;
  std::unique_ptr<Resources> resources_;  // with KeepGraph::no; null: there are none
  Attached attached_;                     // with KeepGraph::yes, while something is held
  std::unique_ptr<Resources> source_;
};

}  // namespace reprise::graphs
