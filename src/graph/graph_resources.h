// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <chrono>
#include <memory>
#include <utility>

#include "backend/backend.h"
#include "backend/lifetime/last_launch.h"
#include "backend/lifetime/release_queue.h"

namespace reprise::graphs {

/// The resources of a graph whose handles others may have, hung on one user object of its template: they live as long
/// as template, clones, executables and their running launches. It makes each launch dearer; the benchmark `replay`
/// shows by how much.
///
///     attach -> [the runtime drops the last reference] -> queued -> [somebody drains the release queue] -> given back
///
/// The user object's destructor comes 10 to 160 us after the last reference is gone, on a thread of the runtime's own
/// that may not call the runtime; therefore the queue.
///
/// Owner: one graph; used by one thread at a time. Destroying this object gives nothing back and waits for nothing.
class AttachedResources {
 public:
  using Resources = backend::ReleaseQueue::Resources;

  AttachedResources() = default;  ///< holds nothing

  /// Hangs the resources on the template.
  /// \throws BackendError if that fails; the resources were given back then.
  void attach(backend::Backend& backend, GraphHandle template_graph, Resources resources);

  /// To be called when the owner has destroyed its template and executable: gives the resources back if the runtime
  /// lets go of them within `limit`. Otherwise it returns false, and a later drain of the queue does it.
  bool give_back(std::chrono::microseconds limit) noexcept;

 private:
  struct Progress;
  struct UserObject;

  std::shared_ptr<Progress> progress_;  // null: nothing is held
};

/// The resources of a graph that launches its executable itself, and whose template nobody keeps: they live until its
/// last launch is over. What that costs a launch is told at LastLaunch: next to nothing.
///
///     keep -> launch ... -> [the owner destroys template and executable] -> give_back -> given back, or queued until a
///                                                                                        drain finds the launch over
///
/// Owner: one graph; used by one thread at a time. Destroying this object gives nothing back.
class LaunchedResources {
 public:
  using Resources = backend::ReleaseQueue::Resources;

  void keep(Resources resources) { resources_ = std::make_unique<Resources>(std::move(resources)); }

  /// Calls `launch`; see LastLaunch.
  template <class Launch>
  void launch(const StreamRef& stream, Launch&& launch) {
    last_launch_.launch(stream, std::forward<Launch>(launch));
  }

  /// To be called when the owner has destroyed its template and executable. Waits a few microseconds at most.
  void give_back() noexcept;

 private:
  std::unique_ptr<Resources> resources_;  // null: nothing is held
  backend::LastLaunch last_launch_;
};

}  // namespace reprise::graphs
