// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <optional>
#include <thread>

#include "graph/listeners/capture_listener.h"

// Autocast's cache has the casts of weights until the end of the outermost region of autocast, for all threads. In a
// capture a cast is a node, computed at each replay: a cast from the cache would be an input of the graph that its user
// does not know, and one that a capture left in the cache would be used by eager work that ran before any replay.
//
// So operators in a capture run with NoAutocastCache (OperatorWatch, on each thread), and a region of autocast that
// ends in a capture does not clear the cache (AutocastListener).

namespace reprise::libtorch {

/// Disables autocast's cache on the calling thread until the end of the scope.
class NoAutocastCache {
 public:
  NoAutocastCache();
  ~NoAutocastCache();
  NoAutocastCache(const NoAutocastCache&) = delete;
  NoAutocastCache& operator=(const NoAutocastCache&) = delete;

 private:
  bool before_;
};

/// Leaves autocast's cache as it was before a capture, when regions of autocast end in it on its thread.
class AutocastListener final : public graphs::CaptureListener {
 public:
  void started(captures::Capture& capture) override;
  void ended(captures::Capture& /*capture*/, graphs::CapturedGraph& /*graph*/) override { leave(); }
  void abandoned(captures::Capture& /*capture*/) noexcept override { leave(); }

 private:
  void leave() noexcept;

  // While a capture is underway: its thread, and how many regions that was in.
  struct Level {
    std::thread::id thread;
    int regions;
  };
  std::optional<Level> level_;
};

}  // namespace reprise::libtorch
