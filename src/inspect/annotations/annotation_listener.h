// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <memory>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "graph/listeners/capture_listener.h"
#include "reprise/annotations.h"
#include "reprise/detail/export.h"

namespace reprise::inspect {

struct AnnotationLog;
class CaptureAnnotations;
class ProgressListener;
struct ScannedNode;

/// Annotations of the nodes of one graph: recorded in a capture with enable_annotations, kept until the graph is reset.
///
/// Calls of the runtime are queries, which are safe in every capture.
class AnnotationListener final : public graphs::ListenerOf<AnnotationListener> {
 public:
  explicit AnnotationListener(const ProgressListener& progress) : progress_(progress) {}
  ~AnnotationListener() override;
  void started(captures::Capture& capture) override;
  void body_began(captures::Capture& capture, const captures::Body& body) override;
  void body_ends(captures::Capture& capture, const captures::Body& body) override;
  void body_abandoned(captures::Capture& capture, const captures::Body& body) noexcept override;
  void describe(const captures::Capture& capture, const backend::CaptureFindings& findings,
                CaptureReport& report) override;
  void ended(captures::Capture& capture, graphs::CapturedGraph& graph) override;
  void abandoned(captures::Capture& capture) noexcept override;
  void added_as_child(const captures::ChildNode& child) override;
  void instantiated(GraphHandle template_graph, GraphExecHandle exec) noexcept override;
  std::function<void()> adopt_from(const AnnotationListener& theirs, graphs::Adoption& adoption) override;
  void reset() noexcept override;

  /// The annotated nodes of the template in order of creation, each followed by those in it.
  std::vector<AnnotatedNode> nodes() const;
  /// True if one of the annotations has this name.
  bool have_name(std::string_view name) const;
  /// Null if the node has none, or is not of this graph. Valid until the next capture, reset or instantiation.
  REPRISE_EXPORT_INTERNAL const Annotation* annotation_of(GraphNodeHandle node) const noexcept;
  /// Annotation of the node, else of the node of the template that it lies in.
  const Annotation* annotation_of(const ScannedNode& node) const noexcept;

 private:
  /// An annotated node in a child graph or body.
  struct InnerNode {
    GraphNodeHandle node = nullptr;
    GraphNodeHandle top = nullptr;  // the node of the template that it lies in
    std::string number_in_top;      // ".0", ".1.0"
  };

  void note_inner_nodes(GraphHandle template_graph, AnnotationLog& log);

  const ProgressListener& progress_;                        // of the same graph
  backend::Backend* runtime_ = nullptr;                     // of the capture
  std::shared_ptr<CaptureAnnotations> underway_;            // in a capture with annotations
  std::vector<GraphNodeHandle> order_;                      // all nodes of the template; empty if none is annotated
  std::vector<Annotation> annotations_;                     // each once
  std::unordered_map<GraphNodeHandle, std::size_t> which_;  // of annotations_
  std::vector<InnerNode> inner_;                            // in the order of the template
};

}  // namespace reprise::inspect
