// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <memory>
#include <span>
#include <vector>

#include "graph/capture_listener.h"

namespace reprise::inspect {
class AnnotationListener;
class LivenessListener;
}  // namespace reprise::inspect

namespace reprise::graphs {

class FrameworkListeners;
class RandomListener;
class RetainListener;

/// The listeners of one graph: the one place that names the concerns which take part in captures.
///
/// Owned and used by one graph, as its other parts.
class Listeners {
 public:
  /// Those of this library, and of the framework if there is one.
  Listeners();
  ~Listeners();
  Listeners(const Listeners&) = delete;
  Listeners& operator=(const Listeners&) = delete;

  /// Adds those of a framework that was installed since. To be called while the graph is empty.
  void join_framework();

  /// All, in the order in which they join a capture. Valid until join_framework().
  std::span<CaptureListener* const> in_order() const noexcept { return in_order_; }

  RandomListener& random() const noexcept;
  inspect::AnnotationListener& annotations() const noexcept;
  inspect::LivenessListener& liveness() const noexcept;
  RetainListener& retain() const noexcept;
  /// Null without a framework that takes part in captures.
  FrameworkListeners* framework() const noexcept { return framework_.get(); }

 private:
  struct Own;

  const std::unique_ptr<Own> own_;  // those of this library
  std::unique_ptr<FrameworkListeners> framework_;
  std::vector<CaptureListener*> in_order_;
};

}  // namespace reprise::graphs
