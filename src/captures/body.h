// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <memory>

#include "reprise/handles.h"
#include "reprise/stream.h"

namespace reprise::captures {

/// The body of a conditional node while a capture of this library fills it, on a stream and with an id of its own.
/// Bodies nest: the node may lie in the body of another one.
struct Body {
  std::uint64_t id = 0;                    ///< of the runtime's capture into the body
  StreamRef stream;                        ///< that the capture began on
  GraphHandle graph = nullptr;             ///< holds the body's nodes
  GraphNodeHandle node = nullptr;          ///< the conditional node
  GraphHandle outer_graph = nullptr;       ///< the graph that the node is in
  std::shared_ptr<const Body> outer = {};  ///< the body that this graph is; null: it is that of the capture
  bool repeats = false;                    ///< of a `while` node
  /// The number of the iteration, from 0, in device memory; null unless it repeats.
  const std::uint32_t* iteration = nullptr;
  std::uint32_t max_iterations = 0;  ///< of a body that repeats; 0: no limit
};

/// The nearest of a body and those around it that repeats; null if there is none.
inline const Body* repeating(const Body* body) noexcept {
  while (body != nullptr && !body->repeats) body = body->outer.get();
  return body;
}

/// A node of a graph of the capture.
struct PlacedNode {
  GraphNodeHandle node = nullptr;
  GraphHandle graph = nullptr;            ///< that it is in
  std::shared_ptr<const Body> body = {};  ///< that this graph is; null: it is that of the capture
};

/// The conditional node that the node lies in, as a node of the graph around.
inline PlacedNode around(const PlacedNode& inner) {
  return {inner.body->node, inner.body->outer_graph, inner.body->outer};
}

/// Raises the nodes to the innermost graph that both lie in: edges connect nodes of one graph.
inline void raise_to_common_graph(PlacedNode& one, PlacedNode& other) {
  const auto depth = [](const PlacedNode& node) {
    int levels = 0;
    for (const Body* body = node.body.get(); body != nullptr; body = body->outer.get()) ++levels;
    return levels;
  };
  while (depth(one) > depth(other)) one = around(one);
  while (depth(other) > depth(one)) other = around(other);
  while (one.body != other.body) {
    one = around(one);
    other = around(other);
  }
}

}  // namespace reprise::captures
