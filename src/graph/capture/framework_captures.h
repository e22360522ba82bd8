// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <memory>
#include <vector>

#include "backend/framework.h"
#include "graph/listeners/capture_listener.h"
#include "reprise/annotations.h"

namespace reprise::inspect {
class InputSource;
class OperatorSource;
}  // namespace reprise::inspect

namespace reprise::graphs {

/// The listeners of a framework in one graph.
class FrameworkListeners {
 public:
  virtual ~FrameworkListeners() = default;
  /// In the order in which they join a capture.
  virtual std::vector<CaptureListener*> in_order() = 0;
  /// The state of the framework's generators that are registered with the graph: destroying the result restores it.
  /// Null if there are none.
  virtual std::shared_ptr<void> save_generators() const { return nullptr; }

 protected:
  FrameworkListeners() = default;
  FrameworkListeners(const FrameworkListeners&) = default;
  FrameworkListeners& operator=(const FrameworkListeners&) = default;
};

/// What a framework adds to captures: Framework::captures() returns it. Thread-safe.
class FrameworkCaptures {
 public:
  /// Makes the framework's listeners of one graph; never null. Listeners has their place in the order.
  virtual std::unique_ptr<FrameworkListeners> make_listeners() const = 0;
  /// What knows the inputs of a capture that is about to begin, in memory of the framework; null if that is none. May
  /// throw: the capture does not begin. In inspect/liveness/input_source.h.
  virtual std::unique_ptr<inspect::InputSource> make_input_source(const captures::Capture& capture) const = 0;
  /// What knows the operators of a capture that is about to begin and that looks for frozen values; null if nothing
  /// does. May throw: the capture does not begin. In inspect/frozen/operator_source.h.
  virtual std::shared_ptr<inspect::OperatorSource> make_operator_source(const captures::Capture& /*capture*/) const {
    return nullptr;
  }
  /// The state of the framework's default generator of a device: destroying the result restores it. Null if it has
  /// none.
  virtual std::shared_ptr<void> save_generators(const Device& /*device*/) const { return nullptr; }
  /// A body is about to run on a stream as a warm-up: the result is destroyed before its capture. May be null.
  virtual std::shared_ptr<void> watch_warm_up(const StreamRef& /*stream*/) const { return nullptr; }
  /// The annotation of nodes that the calling thread makes from now on in a capture, when it enters or leaves a scope
  /// before the end of the capture; empty outside of scopes. Must not enter scopes.
  virtual void annotation_changed(const captures::Capture& /*capture*/, const Annotation& /*now*/) const noexcept {}
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
