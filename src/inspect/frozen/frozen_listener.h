// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <memory>

#include "graph/listeners/capture_listener.h"
#include "inspect/annotations/annotation_listener.h"
#include "inspect/frozen/operator_source.h"
#include "inspect/nodes/node_values.h"
#include "memory/watches/allocation_log.h"

namespace reprise::inspect {

/// GraphOptions::check_frozen_values: compares the parameters of all nodes with those of the dry run, and refuses the
/// capture if values differ.
///
/// Calls of the runtime are queries of nodes, which are safe in every capture.
class FrozenListener final : public graphs::ListenerOf<FrozenListener> {
 public:
  explicit FrozenListener(const AnnotationListener& annotations) : annotations_(annotations) {}

  void inherit_from(const FrozenListener& before) override { dry_run_ = before.values_; }
  void begin(captures::Capture& capture) override;
  void started(captures::Capture& capture) override;
  void ended(captures::Capture& capture, graphs::CapturedGraph& graph) override;
  void abandoned(captures::Capture& /*capture*/) noexcept override { reset(); }
  void reset() noexcept override;

 private:
  NodeValues read(const captures::Capture& capture, const graphs::CapturedGraph& graph);
  void compare(const captures::Capture& capture, const NodeValues& second);
  FrozenValue frozen_value(backend::Backend& backend, const ScannedNode& node, const ChangedValue& changed) const;

  const AnnotationListener& annotations_;
  std::shared_ptr<memory::AllocationLog> log_;  // while a capture that is checked is underway
  std::shared_ptr<OperatorSource> operators_;   // likewise; null without a framework that has operators
  std::shared_ptr<const NodeValues> values_;    // of a dry run
  std::shared_ptr<const NodeValues> dry_run_;   // of the dry run before this capture
};

}  // namespace reprise::inspect
