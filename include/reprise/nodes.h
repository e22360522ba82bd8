// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <array>
#include <cstddef>
#include <memory>
#include <span>
#include <string>
#include <type_traits>
#include <typeinfo>
#include <utility>
#include <vector>

#include "reprise/annotations.h"
#include "reprise/detail/export.h"
#include "reprise/graph_types.h"
#include "reprise/handles.h"
#include "reprise/kernel.h"

/// \file
/// The nodes of a captured graph: what they are, their parameters, and changes of these.

namespace reprise {

class CUDAGraph;

/// A node that another one depends on.
struct NodeDependency {
  std::size_t index = 0;  ///< GraphNode::index() of that node
  EdgeData data = {};
  friend bool operator==(const NodeDependency&, const NodeDependency&) = default;
};

/// An argument of a kernel node. A value.
struct NodeArgument {
  std::size_t offset = 0;             ///< in bytes from the start of the parameter block
  std::string type = {};              ///< as written in C++; empty if it is not known
  std::vector<std::byte> bytes = {};  ///< the value; padding may have any contents
};

namespace graphs {
struct GraphLink;
struct NumberedNode;
struct NodeViews;
}  // namespace graphs

namespace node_detail {

/// A value that is passed to, or read from, a parameter of a kernel: its size, and the types that the parameter may
/// have, the value's own first; none: any type. For internal use.
struct TypedSize {
  std::size_t bytes = 0;
  std::array<const std::type_info*, 3> types = {};  ///< null: fewer
};

// Pointers convert as in a call: to pointers to const and to void.
template <class T>
struct Types {
  static TypedSize to_parameter() { return {sizeof(T), {&typeid(T)}}; }
  static TypedSize from_parameter() { return {sizeof(T), {&typeid(T)}}; }
};
template <class T>
requires(!std::is_function_v<T>) struct Types<T*> {
  static TypedSize to_parameter() { return {sizeof(T*), {&typeid(T*), &typeid(const T*), &typeid(const void*)}}; }
  static TypedSize from_parameter() { return {sizeof(T*), {&typeid(T*), &typeid(std::remove_const_t<T>*)}}; }
};

}  // namespace node_detail

/// A node of a captured graph: a view, cheap to copy, made by CUDAGraph::nodes() and CUDAGraph::node().
///
///     graph.node("Scale").set_arg(0, 0.25f);
///
/// *Values.* Template and executable have the same values: each change is made in both, and instantiate() keeps it.
/// Without an executable the template changes alone. What other code changes through CUDAGraph::raw_cuda_graph() is
/// seen here, and reaches an executable at the next instantiate(), or with the next change of that node.
///
/// *Changes* count for later replays, not for those that were launched before, and are thread-safe like replay(). A
/// call that throws has changed nothing. Inputs, their liveness and retained memory follow (CUDAGraph::inputs()).
/// CUDA changes the values of an executable within limits, which are checked beforehand: copies and sets are
/// one-dimensional, stay on their devices, and do not move from device memory to pageable memory; a kernel keeps its
/// cluster and whether it is cooperative. Refused are nodes of other types, nodes of this library (random numbers,
/// batches, staged inputs), graphs of graphed callables, and changes within a hook of the graph. Nodes of child graphs
/// and bodies (inner()) change likewise, in this graph alone: a child is a copy.
///
/// *Validity.* A view is valid until the graph is reset, destroyed or assigned to; moving the graph keeps it valid.
/// Except for index(), number() and type(), every call of a view that is not valid throws UsageError; so do calls for a
/// node that other code removed from the template.
///
/// Threads: any, as for the graph: reset() must not run concurrently.
class REPRISE_EXPORT GraphNode {
 public:
  /// The number of the node among all nodes of its graph, in order of creation, when this view was made. Its graph is
  /// the template, or the child graph or body that has it.
  std::size_t index() const noexcept { return index_; }
  /// The same as text, beginning with the number of the node that it lies in: "3"; "3.0" in the child graph of node 3,
  /// "3.1.0" in the second body of the conditional node 3.
  std::string number() const;
  NodeType type() const noexcept { return type_; }
  /// The nodes in this one, in order of creation, as views: of a child graph node one list; of a conditional node one
  /// for each body, in the order of the call (`if_else`: the second is the else). No list for nodes of other types.
  ///
  ///     const auto inner = graph.node("solve").inner();
  ///     for (const GraphNode& node : inner.front()) std::puts(node.str().c_str());
  ///
  /// \throws UsageError if the driver does not describe the node: a conditional node that other code made.
  std::vector<std::vector<GraphNode>> inner() const;
  /// `cudaGraphNode_t`, a node of the template, or of a graph in it.
  GraphNodeHandle native() const;

  /// The name of a kernel as written in C++, with namespaces and template arguments; for other nodes CUDA's word for
  /// the type, such as "memcpy".
  std::string name() const;
  /// Kind, number() and annotation, as in errors: "kernel Scale (node 3) in forward".
  std::string str() const;
  /// The keys and values of its scopes, with those of the nodes that it lies in; empty without
  /// GraphOptions::enable_annotations.
  Annotation annotation() const;
  /// The nodes of the same graph that come before it, in order of their indices.
  std::vector<NodeDependency> dependencies() const;
  /// False after set_enabled(false).
  bool enabled() const;

  /// The shape of the launch. Of an edge, not of a node: `programmatic`, which is false here.
  /// \throws UsageError unless this is a kernel node.
  LaunchConfig launch_config() const;
  /// The number of arguments.
  /// \throws UsageError unless this is a kernel node whose parameters the driver describes (CUDA 12.4).
  std::size_t arg_count() const;
  /// All arguments, in order.
  /// \throws UsageError as arg_count().
  std::vector<NodeArgument> args() const;
  /// One argument, as a value of type T.
  /// \throws UsageError as arg_count(); if there is no such argument, or it is of another size, or of another type as
  ///         far as that is known: for kernels of reprise::launch().
  template <class T>
  T arg(std::size_t index) const {
    static_assert(std::is_trivially_copyable_v<T> && std::is_default_constructible_v<T>, "arguments are read as bytes");
    T value{};
    read_arg(index, &value, node_detail::Types<T>::from_parameter());
    return value;
  }
  /// \throws UsageError unless this is a memcpy node of one dimension.
  MemcpyNodeParams memcpy_params() const;
  /// \throws UsageError unless this is a memset node of one dimension.
  MemsetNodeParams memset_params() const;

  /// Changes an argument of a kernel.
  /// \param index from 0.
  /// \param value copied. Its type is that of the parameter; `T*` is also a `const T*`, `void*` a `const void*`. For
  ///        kernels that other code launched the size alone is checked.
  /// \throws UsageError as arg(), and for what cannot be changed; BackendError if the runtime fails.
  template <class T>
  void set_arg(std::size_t index, const T& value) const {
    static_assert(std::is_trivially_copyable_v<T> && !std::is_array_v<T>, "arguments are copied as bytes");
    write_arg(index, &value, node_detail::Types<T>::to_parameter());
  }
  /// As above, with the bytes of the value, for bindings of other languages, which have no types of C++.
  /// \throws UsageError as above; the size alone is checked.
  void set_arg_bytes(std::size_t index, std::span<const std::byte> value) const;
  /// Changes the shape of a kernel's launch.
  /// \throws UsageError unless this is a kernel node that can be changed; for another cluster or `cooperative` while
  ///         there is an executable, and for `programmatic`; BackendError with 1 if the device cannot launch this
  ///         shape.
  void set_params(const LaunchConfig& config) const;
  /// Changes a copy.
  /// \throws UsageError unless this is a memcpy node of one dimension; for 0 bytes; for addresses on other devices
  ///         than those before, or in pageable memory in the place of device memory; BackendError if the runtime fails.
  void set_params(const MemcpyNodeParams& params) const;
  /// Changes a set.
  /// \throws UsageError unless this is a memset node of one dimension; for 0 elements, for a value of more bytes than
  ///         an element has, for an address that is not aligned to the elements, and for memory of another device or
  ///         pageable memory; BackendError if the runtime fails.
  void set_params(const MemsetNodeParams& params) const;
  /// Sets whether replays run the node; its dependencies stay. Kept by instantiate().
  /// \throws UsageError unless this is a kernel or memcpy node, and one of the template itself; BackendError if the
  ///         runtime fails.
  void set_enabled(bool enabled) const;

 private:
  friend struct graphs::NodeViews;
  GraphNode(std::shared_ptr<const graphs::GraphLink> link, std::size_t index, GraphNodeHandle handle, NodeType type,
            std::shared_ptr<const graphs::NumberedNode> inner)
      : link_(std::move(link)), index_(index), handle_(handle), type_(type), inner_(std::move(inner)) {}

  void read_arg(std::size_t index, void* value, const node_detail::TypedSize& as) const;
  void write_arg(std::size_t index, const void* value, const node_detail::TypedSize& as) const;

  std::shared_ptr<const graphs::GraphLink> link_;
  std::size_t index_;
  GraphNodeHandle handle_;
  NodeType type_;
  std::shared_ptr<const graphs::NumberedNode> inner_;  // null: a node of the template itself
};

}  // namespace reprise
