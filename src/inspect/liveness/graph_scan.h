// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "backend/backend.h"
#include "reprise/annotations.h"

namespace reprise::inspect {

/// A node of a template, or of a graph in one of its nodes.
struct ScannedNode {
  GraphNodeHandle handle = nullptr;
  GraphNodeHandle top = nullptr;  ///< the same, or the node of the template that it lies in
  backend::NodeType type = backend::NodeType::empty;
  std::string number;                 ///< as in node_text()
  FunctionHandle function = nullptr;  ///< of a kernel node
};

/// A word among the parameters of a node: an address, or anything else that has eight bytes.
struct ScannedWord {
  std::uint32_t node = 0;  ///< index in GraphScan::nodes
  std::uint32_t place =
      0;  ///< of a kernel: the offset in the parameter block; of a copy: 0 the source, 1 the destination
  std::uintptr_t value = 0;
  std::uintptr_t rehearsed = 0;  ///< in the rehearsal; the same if there was none
};

/// What a template uses, as far as its nodes tell. The order is that of the nodes' creation, and within a node that of
/// the places.
struct GraphScan {
  struct Range {
    std::uintptr_t begin = 0;
    std::size_t bytes = 0;
  };

  std::vector<ScannedNode> nodes;
  std::vector<ScannedWord> words;
  std::vector<Range> own;  ///< what its allocation nodes give it

  /// Keeps those words that have a value in another capture of the same work, and notes that value.
  /// \throws UsageError if the two captures have other nodes.
  void confirm(const GraphScan& first);
};

/// Looks at all nodes, through child graphs and bodies of conditional nodes. What the runtime does not tell is left
/// out, with one warning for all.
/// \throws BackendError if the runtime fails.
GraphScan scan_graph(backend::Backend& backend, GraphHandle template_graph);

/// What a word is to its node, in words: "kernel Scale (node 3)", "memcpy source (node 5)".
/// With the node's annotation, if it has one.
std::string use_text(backend::Backend& backend, const ScannedNode& node, std::uint32_t place,
                     const Annotation* annotation);

}  // namespace reprise::inspect
