// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "backend/backend.h"
#include "graph/listeners/capture_listener.h"
#include "reprise/annotations.h"
#include "reprise/detail/export.h"

namespace reprise::inspect {
class AnnotationListener;
class LivenessListener;
class ProgressListener;
}  // namespace reprise::inspect

namespace reprise::graphs {

class ChildListener;
class CollectivesListener;
class FrameworkListeners;
class PoolListener;
class RandomListener;
class RetainListener;

/// The listeners of one graph: the one place that names the concerns which take part in captures.
///
/// Owned and used by one graph, as its other parts.
class REPRISE_EXPORT_INTERNAL Listeners {
 public:
  /// Makes the listeners of this library, and of the framework if there is one.
  Listeners();
  ~Listeners();
  Listeners(const Listeners&) = delete;
  Listeners& operator=(const Listeners&) = delete;

  /// Takes over what the user registered with the listeners of another graph: CaptureListener::inherit().
  void inherit(const Listeners& before);
  /// Exchanges the listeners of two graphs, of which none is in a capture.
  void swap(Listeners& other) noexcept;

  /// Adds those of a framework that was installed since. To be called while the graph is empty.
  void join_framework();

  /// All, in the order in which they join a capture. Valid until join_framework().
  std::span<CaptureListener* const> in_order() const noexcept { return in_order_; }

  PoolListener& pool() const noexcept;
  ChildListener& children() const noexcept;
  CollectivesListener& collectives() const noexcept;
  RandomListener& random() const noexcept;
  inspect::ProgressListener& progress() const noexcept;
  inspect::AnnotationListener& annotations() const noexcept;
  inspect::LivenessListener& liveness() const noexcept;
  RetainListener& retain() const noexcept;
  /// True if a set of this address is a mark of GraphOptions::progress_marks.
  bool is_progress_mark(const void* destination) const noexcept;
  /// Null if the node has none. Valid until the next capture, reset or instantiation.
  const Annotation* annotation_of(GraphNodeHandle node) const noexcept;
  /// True if a node of the template has an annotation with this name, itself or by the node that it lies in.
  bool annotations_have_name(std::string_view name) const;
  /// Describes a node: "kernel Scale (node 3) in forward". `top` is the same, or the node of the template that has it
  /// in a graph of its own.
  std::string node_text(backend::Backend& backend, GraphNodeHandle node, GraphNodeHandle top,
                        const std::string& number) const;
  /// Replaces, among the resources of this graph that another one shares, the lists that this graph changes later.
  void replace_by_copies(memory::ReleaseQueue::Resources& shared) const;
  /// Null without a framework that takes part in captures.
  FrameworkListeners* framework() const noexcept { return framework_.get(); }

 private:
  struct Own;

  std::unique_ptr<Own> own_;  // those of this library
  std::unique_ptr<FrameworkListeners> framework_;
  std::vector<CaptureListener*> in_order_;
};

}  // namespace reprise::graphs
