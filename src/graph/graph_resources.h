// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <chrono>
#include <memory>

#include "backend/backend.h"
#include "backend/release_queue.h"

namespace reprise::graphs {

/// The resources of a graph, hung on one user object of its template: they live as long as template, clones,
/// executables and their running launches.
///
///     attach -> [the runtime drops the last reference] -> queued -> [somebody drains the release queue] -> given back
///
/// The user object's destructor comes 10 to 160 us after the last reference is gone, on a thread of the runtime's own
/// that may not call the runtime; therefore the queue.
///
/// Owner: one graph; used by one thread at a time. Destroying this object gives nothing back and waits for nothing.
class GraphResources {
 public:
  using Resources = backend::ReleaseQueue::Resources;

  GraphResources() = default;  ///< holds nothing

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

}  // namespace reprise::graphs
