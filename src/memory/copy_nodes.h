// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <optional>
#include <span>
#include <vector>

#include "kernels/batch_kernels.h"
#include "reprise/batch.h"
#include "reprise/detail/export.h"
#include "reprise/handles.h"
#include "reprise/stream.h"

namespace reprise::memory {

/// Does the same as copy_batch_async() for memory that a graph uses, without a check that each range lies in one block:
/// blocks may have been freed since the capture of the graph, and other blocks of its pool may lie there now. A single
/// copy needs no kernel of this library. \throws UsageError, BackendError as copy_batch_async(), but for ranges
REPRISE_EXPORT_INTERNAL void copy_graph_memory(std::span<const CopyOp> batch, const StreamRef& stream);

/// Copies in a captured graph whose addresses change from replay to replay: kernel nodes as those of
/// copy_batch_async(), as many as the number of copies needs. Unchanged copies cost a replay nothing.
///
///     capture()  on the captured stream; the nodes copy nothing yet
///     set()      changes one of the copies
///     update()   updates the executable before its launch: replay_changed()
///
/// Threads: one at a time.
class REPRISE_EXPORT_INTERNAL CopyNodes {
 public:
  CopyNodes() = default;

  /// Captures `count` copies. May be called once.
  /// \throws UsageError if this build has no kernels for the device; BackendError
  void capture(const StreamRef& stream, std::size_t count);

  /// 0 bytes: no copy. Addresses as for copy_batch_async().
  void set(std::size_t copy, const CopyOp& op) {
    Node& node = nodes_[copy / batch_ops_per_kernel];
    CopyOp& known = node.table.ops[copy % batch_ops_per_kernel];
    if (known.bytes == op.bytes &&
        (op.bytes == 0 || (known.destination == op.destination && known.source == op.source)))
      return;
    known = op;
    node.up_to_date = false;
  }

  /// Updates the nodes whose copies have changed. After a failure, the next call does it.
  /// \param exec made from the captured template; always the same one.
  void update(GraphExecHandle exec) {
    for (Node& node : nodes_)
      if (!node.up_to_date) update(exec, node);
  }

 private:
  struct Node {
    GraphNodeHandle handle = nullptr;
    bool up_to_date = true;  // the executable has this table
    CopyTable table;
  };
  void update(GraphExecHandle exec, Node& node);

  std::optional<Device> device_;  // of the nodes
  std::vector<Node> nodes_;
};

}  // namespace reprise::memory
