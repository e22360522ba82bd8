// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "graph/listeners/capture_listener.h"
#include "inspect/annotations/annotation_listener.h"

namespace reprise::inspect {

/// Finds the memory of the host that copies of a captured graph read or write at each replay. Copies of stack memory
/// whose function has returned are refused, and functions of launch_host() that refer to such memory, unless
/// InputOptions::allow_stack is set; with ReportDetail::full, pageable memory is listed in the report. Nodes that the
/// runtime does not describe, and that may copy, are notes of the report. Keeps nothing.
class HostCopiesListener final : public graphs::CaptureListener {
 public:
  explicit HostCopiesListener(const AnnotationListener& annotations) : annotations_(annotations) {}

  void ended(captures::Capture& capture, graphs::CapturedGraph& graph) override;

 private:
  const AnnotationListener& annotations_;
};

}  // namespace reprise::inspect
