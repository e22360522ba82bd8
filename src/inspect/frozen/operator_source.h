// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <string>

#include "captures/capture.h"

// The operators of a framework that made the nodes of a graph: FrameworkCaptures makes one for each capture that looks
// for frozen values.

namespace reprise::inspect {

/// Finds the operators of one capture:
///
///     made -> started -> ended -> [operator_of, was_given ...]
///        \________\________\---> destroyed
///
/// While it lives, the framework notes the allocations of the capture in its AllocationLog.
///
/// Threads: one call at a time, as a CaptureListener.
class OperatorSource {
 public:
  virtual ~OperatorSource() = default;

  /// The runtime has begun to capture. An exception abandons the capture.
  virtual void started(captures::Capture& capture) = 0;
  /// The capture has ended.
  virtual void ended(GraphHandle template_graph) = 0;
  /// The name of the outermost operator that made the node; empty if none did.
  virtual std::string operator_of(GraphNodeHandle node) const = 0;
  /// True if operators made the node, and one of them was given the memory of the address: then a word of the node with
  /// this value is no uninitialised one.
  virtual bool was_given(GraphNodeHandle node, std::uintptr_t address) const = 0;
};

}  // namespace reprise::inspect
