// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "backend/backend.h"
#include "inspect/nodes/graph_walk.h"
#include "reprise/annotations.h"
#include "reprise/detail/export.h"

namespace reprise::inspect {

/// ScannedWord::place of a copy.
inline constexpr std::uint32_t copy_source = 0;
inline constexpr std::uint32_t copy_destination = 1;

/// An 8-byte word in the parameters of a node: an address, or something else.
struct ScannedWord {
  std::uint32_t node = 0;  ///< index in GraphScan::nodes
  /// Place in the parameters. For a kernel, the offset in the parameter block, or 8 times the number of the operand
  /// where that is no argument; for a copy, copy_source or copy_destination.
  std::uint32_t place = 0;
  std::uintptr_t value = 0;
  /// False for a part of a larger parameter, which code may have left uninitialised, and for a number.
  bool whole = true;
  /// What the work uses is known: no address one past the end of a buffer.
  bool used = true;
};

/// The words in the parameters of a template's nodes, in order of creation, and within a node by place.
struct GraphScan {
  struct Range {
    std::uintptr_t begin = 0;
    std::size_t bytes = 0;
  };

  std::vector<ScannedNode> nodes;
  std::vector<ScannedWord> words;
  std::vector<Omission> omissions;
  std::vector<Range> own;  ///< memory of its allocation nodes
};

/// Scans all nodes, including child graphs and bodies of conditional nodes. Of kernels of this library the operands are
/// taken. Nodes whose parameters the runtime does not provide are omissions.
/// \param known as GraphWalk takes it.
/// \throws BackendError if the runtime fails.
REPRISE_EXPORT_INTERNAL GraphScan scan_graph(backend::Backend& backend, GraphHandle template_graph,
                                             ScannedNodes which = ScannedNodes::all,
                                             graphs::NodeChanges* known = nullptr);

/// Describes a word: "kernel Scale (node 3)", "memcpy source (node 5)", with the node's annotation, if it has one.
std::string use_text(backend::Backend& backend, const ScannedNode& node, std::uint32_t place,
                     const Annotation* annotation);

}  // namespace reprise::inspect
