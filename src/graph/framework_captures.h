// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <memory>
#include <vector>

#include "backend/framework.h"
#include "graph/capture_listener.h"

namespace reprise::inspect {
class InputSource;
}

namespace reprise::graphs {

/// The listeners of a framework in one graph.
class FrameworkListeners {
 public:
  virtual ~FrameworkListeners() = default;
  /// In the order in which they join a capture.
  virtual std::vector<CaptureListener*> in_order() = 0;

 protected:
  FrameworkListeners() = default;
  FrameworkListeners(const FrameworkListeners&) = default;
  FrameworkListeners& operator=(const FrameworkListeners&) = default;
};

/// What a framework takes part in captures with: Framework::captures() returns it. Thread-safe.
class FrameworkCaptures {
 public:
  /// New ones for one graph; never null. They stand at ListenerOrder::framework.
  virtual std::unique_ptr<FrameworkListeners> make_listeners() const = 0;
  /// What knows the inputs of a capture that is about to begin, in memory of the framework; null if that is none. May
  /// throw: the capture does not begin. In inspect/liveness/input_source.h.
  virtual std::unique_ptr<inspect::InputSource> make_input_source(const CaptureContext& context) const = 0;
  /// An exception is about to leave capture(), whose body raised it. Called in the handler: what is known beyond it may
  /// be added to the exception.
  virtual void add_to_exception() const noexcept {}

 protected:
  FrameworkCaptures() = default;
  ~FrameworkCaptures() = default;
  FrameworkCaptures(const FrameworkCaptures&) = default;
  FrameworkCaptures& operator=(const FrameworkCaptures&) = default;
};

/// Null if no framework takes part in captures.
inline const FrameworkCaptures* framework_captures() noexcept {
  const backend::Framework* const framework = backend::installed_framework();
  return framework != nullptr ? framework->captures() : nullptr;
}

}  // namespace reprise::graphs
