// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <cstring>
#include <initializer_list>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "backend/check.h"
#include "backend/rules/kernel_text.h"
#include "graph/cuda_graph_impl.h"
#include "graph/nodes/inner_nodes.h"
#include "graph/nodes/nodes_by_name.h"
#include "reprise/detail/public_call.h"
#include "text/format.h"

// Views of the nodes of a graph, and the changes made through them.

namespace reprise {

using backend::Checked;
using graphs::NodeChange;
using graphs::NodeImage;
using graphs::NodePlace;

const std::shared_ptr<graphs::GraphLink>& CUDAGraph::Impl::link() {
  if (node_link == nullptr) node_link = std::make_shared<graphs::GraphLink>(graphs::GraphLink{this});
  return node_link;
}

std::string CUDAGraph::Impl::node_text(GraphNodeHandle node) const {
  const std::vector<graphs::NumberedNode> all = graphs::numbered_nodes(backend(), template_graph);
  const auto found = std::ranges::find(all, node, &graphs::NumberedNode::handle);
  return found != all.end() ? listeners.node_text(backend(), node, found->top, found->number)
                            : listeners.node_text(backend(), node, nullptr, "?");
}

bool CUDAGraph::Impl::wants_same_values() const {
  return std::ranges::any_of(in_replays, [](const graphs::CaptureListener* each) { return each->wants_same_values(); });
}

void CUDAGraph::Impl::change_nodes(std::span<NodeChange> changed, std::span<const graphs::SetPlace> set) {
  in_replays.reserve(in_replays.size() + listeners.in_order().size());
  std::vector<graphs::CaptureListener*> joining;
  joining.reserve(listeners.in_order().size());
  changes.apply(
      backend(), exec, changed, [this](GraphNodeHandle node) { return node_text(node); },
      [&] {
        for (graphs::CaptureListener* const listener : listeners.in_order())
          if (listener->nodes_changed(template_graph, changes, resources, set)) joining.push_back(listener);
      });
  for (graphs::CaptureListener* const listener : joining)
    if (std::ranges::find(in_replays, listener) == in_replays.end()) in_replays.push_back(listener);
  replays_notify = replays_notify || !in_replays.empty();
}

namespace graphs {

/// The graph of a view, locked: members of GraphNode work with it.
struct NodeViews {
  using Impl = GraphAccess::Impl;

  NodeViews(const GraphNode& node, const char* call, bool changes)
      : public_call_(call), node_(node), impl_(*inside(node, call, changes)), lock_(impl_) {
    impl_.require_template(call);
    if (impl_.keep == KeepGraph::yes) require_in_template(call);
  }
  NodeViews(const NodeViews&) = delete;
  NodeViews& operator=(const NodeViews&) = delete;

  Impl& impl() const { return impl_; }
  GraphNodeHandle handle() const { return node_.handle_; }
  /// The node of the template that it is, or lies in.
  GraphNodeHandle top() const { return node_.inner_ != nullptr ? node_.inner_->top : node_.handle_; }
  /// The graph that contains the node.
  GraphHandle graph() const { return node_.inner_ != nullptr ? node_.inner_->graph : impl_.template_graph; }
  std::string text() const { return impl_.listeners.node_text(impl_.backend(), node_.handle_, top(), node_.number()); }

  /// The values as the template has them now.
  const NodeImage& values() const {
    impl_.forget_editable();
    return impl_.changes.values(impl_.backend(), node_.handle_);
  }
  /// The values. \throws UsageError for a node of another type.
  const NodeImage& values(const char* call, NodeType type) const {
    if (node_.type_ != type)
      throw UsageError(text::format("{} needs a {} node; found the {}.", call, backend::node_type_name(type), text()));
    return values();
  }
  /// Likewise, of one whose values are known.
  const NodeImage& known_values(const char* call, NodeType type) const {
    const NodeImage& found = values(call, type);
    if (!found.unknown().empty())
      throw UsageError(text::format("{}: the parameters of the {} are not known: {}.", call, text(), found.unknown()));
    return found;
  }

  const KernelParam& parameter(const char* call, const NodeImage& kernel, std::size_t index,
                               const node_detail::TypedSize& as) const;
  /// Gives the node other values. `set`: the addresses among them, or what may contain one.
  void change(const char* call, NodeImage to, std::initializer_list<NodePlace> set) const;

  static GraphNode make(Impl& impl, std::size_t index, GraphNodeHandle handle,
                        std::shared_ptr<const NumberedNode> inner = nullptr) {
    return GraphNode(impl.link(), index, handle, Checked(impl.backend()).type_of(handle), std::move(inner));
  }
  static GraphNode make(Impl& impl, const NumberedNode& node) {
    return make(impl, node.index, node.handle,
                node.parent != nullptr ? std::make_shared<const NumberedNode>(node) : nullptr);
  }
  /// The nodes of a graph in this node, whose numbers begin with `prefix`.
  std::vector<GraphNode> nodes_in(GraphHandle graph, const std::string& prefix) const {
    const std::vector<GraphNodeHandle> handles = Checked(impl_.backend()).nodes_of(graph);
    std::vector<GraphNode> nodes;
    for (std::size_t i = 0; i < handles.size(); ++i)
      nodes.push_back(make(impl_, {.handle = handles[i],
                                   .graph = graph,
                                   .parent = handle(),
                                   .top = top(),
                                   .index = i,
                                   .number = prefix + std::to_string(i)}));
    return nodes;
  }

 private:
  static Impl* inside(const GraphNode& node, const char* call, bool changes) {
    if (node.link_ == nullptr)
      throw UsageError(text::format("{} was called on a GraphNode that was moved from.", call));
    Impl* const found = node.link_->graph;
    if (found == nullptr)
      throw UsageError(
          text::format("{} was called on a node whose graph was reset, destroyed or assigned to since: get the nodes "
                       "anew, from the graph that has them.",
                       call));
    if (changes) found->require_changeable(call);
    return found;
  }
  void require_in_template(const char* call) const {
    if (!is_in_template())
      throw UsageError(
          text::format("{} was called on node {}, which was removed from the template since: get the nodes anew.", call,
                       node_.number()));
  }
  bool is_in_template() const {
    if (node_.inner_ != nullptr)
      return std::ranges::any_of(numbered_nodes(impl_.backend(), impl_.template_graph), [&](const NumberedNode& node) {
        return node.handle == node_.handle_ && node.graph == node_.inner_->graph && node.top == node_.inner_->top;
      });
    const std::vector<GraphNodeHandle> nodes = Checked(impl_.backend()).nodes_of(impl_.template_graph);
    return std::ranges::find(nodes, node_.handle_) != nodes.end();
  }

  const detail::PublicCall public_call_;
  const GraphNode& node_;
  Impl& impl_;
  const Impl::LaunchLock lock_;
};

namespace {

std::string type_text(const std::type_info* type) {
  return type != nullptr ? detail::kernel_name(*type) : std::string();
}

}  // namespace

const KernelParam& NodeViews::parameter(const char* call, const NodeImage& kernel, std::size_t index,
                                        const node_detail::TypedSize& as) const {
  const auto layout = kernel.layout();
  if (index >= layout.size())
    throw UsageError(text::format("{}: the {} has {} argument{}, numbered from 0; found the number {}.", call, text(),
                                  layout.size(), layout.size() == 1 ? "" : "s", index));
  const KernelParam& param = layout[index];
  const std::type_info* const type = as.types.front();
  const bool same_type =
      param.type == nullptr || type == nullptr || std::ranges::any_of(as.types, [&](const std::type_info* allowed) {
        return allowed != nullptr && *allowed == *param.type;
      });
  if (param.size == as.bytes && same_type) return param;
  throw UsageError(
      text::format("{}: argument {} of the {} is {}{} bytes; found {}{} bytes. Pass the parameter's own type.", call,
                   index, text(), param.type != nullptr ? type_text(param.type) + ", " : "", param.size,
                   type != nullptr ? type_text(type) + ", " : "", as.bytes));
}

void NodeViews::change(const char* call, NodeImage to, std::initializer_list<NodePlace> set) const {
  const NodeImage& from = impl_.changes.values(impl_.backend(), node_.handle_);
  const auto begin = [&] { return text::format("{}, {}", call, text()); };
  NodeChanges::require_not_own(from, begin);
  impl_.changes.check(*impl_.device, impl_.exec, node_.handle_, from, to, begin);
  const bool same = !impl_.executable_may_differ() && from.same_values(to);
  if (same && !impl_.wants_same_values()) return;
  std::vector<SetPlace> places;
  for (const NodePlace& place : set) places.push_back({node_.handle_, place});
  NodeChange changed{node_.handle_, std::move(to)};
  impl_.change_nodes({&changed, same ? std::size_t{0} : std::size_t{1}}, places);
  impl_.parameters.node_changed(node_.handle_);
}

}  // namespace graphs

using graphs::NodeViews;

GraphNodeHandle GraphNode::native() const {
  const NodeViews view(*this, "GraphNode::native", false);
  view.impl().give_out_template();
  return view.handle();
}

std::string GraphNode::number() const {
  return inner_ != nullptr ? inner_->number : std::to_string(index_);
}

std::vector<std::vector<GraphNode>> GraphNode::inner() const {
  constexpr const char* call = "GraphNode::inner";
  const NodeViews view(*this, call, false);
  if (type_ != NodeType::child_graph && type_ != NodeType::conditional) return {};
  const NodeImage& values = view.values();
  if (!values.has_params())
    throw UsageError(text::format("{}: the graphs in the {} are not known: {}.", call, view.text(), values.unknown()));
  const std::vector<GraphHandle> graphs = values.inner_graphs();
  std::vector<std::vector<GraphNode>> found;
  for (std::size_t i = 0; i < graphs.size(); ++i)
    found.push_back(view.nodes_in(graphs[i], graphs::number_within(number(), type_, i)));
  return found;
}

std::string GraphNode::name() const {
  const NodeViews view(*this, "GraphNode::name", false);
  if (type_ != NodeType::kernel) return backend::node_type_name(type_);
  const char* symbol = nullptr;
  Checked(view.impl().backend()).function_name(view.values().function(), &symbol);
  return backend::kernel_text(symbol);
}

std::string GraphNode::str() const {
  return NodeViews(*this, "GraphNode::str", false).text();
}

Annotation GraphNode::annotation() const {
  const NodeViews view(*this, "GraphNode::annotation", false);
  const auto& listeners = view.impl().listeners;
  const Annotation* found = listeners.annotation_of(handle_);
  if (found == nullptr) found = listeners.annotation_of(view.top());
  return found != nullptr ? *found : Annotation();
}

std::vector<NodeDependency> GraphNode::dependencies() const {
  const NodeViews view(*this, "GraphNode::dependencies", false);
  const Checked runtime(view.impl().backend());
  const std::vector<backend::Edge> edges = runtime.edges_of(view.graph());
  const std::vector<GraphNodeHandle> nodes = runtime.nodes_of(view.graph());
  std::vector<NodeDependency> found;
  for (const backend::Edge& edge : edges)
    if (edge.to == handle_)
      found.push_back({static_cast<std::size_t>(std::ranges::find(nodes, edge.from) - nodes.begin()), edge.data});
  std::ranges::sort(found, {}, &NodeDependency::index);
  return found;
}

bool GraphNode::enabled() const {
  return NodeViews(*this, "GraphNode::enabled", false).impl().changes.enabled(handle_);
}

LaunchConfig GraphNode::launch_config() const {
  constexpr const char* call = "GraphNode::launch_config";
  return NodeViews(*this, call, false).values(call, NodeType::kernel).config();
}

std::size_t GraphNode::arg_count() const {
  constexpr const char* call = "GraphNode::arg_count";
  return NodeViews(*this, call, false).known_values(call, NodeType::kernel).layout().size();
}

std::vector<NodeArgument> GraphNode::args() const {
  constexpr const char* call = "GraphNode::args";
  const NodeViews view(*this, call, false);
  const NodeImage& kernel = view.known_values(call, NodeType::kernel);
  std::vector<NodeArgument> found;
  for (const KernelParam& param : kernel.layout()) {
    const auto bytes = kernel.block().subspan(param.offset, param.size);
    found.push_back({param.offset, graphs::type_text(param.type), {bytes.begin(), bytes.end()}});
  }
  return found;
}

void GraphNode::read_arg(std::size_t index, void* value, const node_detail::TypedSize& as) const {
  constexpr const char* call = "GraphNode::arg";
  const NodeViews view(*this, call, false);
  const NodeImage& kernel = view.known_values(call, NodeType::kernel);
  const KernelParam& param = view.parameter(call, kernel, index, as);
  std::memcpy(value, kernel.block().data() + param.offset, param.size);
}

MemcpyNodeParams GraphNode::memcpy_params() const {
  constexpr const char* call = "GraphNode::memcpy_params";
  return NodeViews(*this, call, false).known_values(call, NodeType::memcpy).copy();
}

MemsetNodeParams GraphNode::memset_params() const {
  constexpr const char* call = "GraphNode::memset_params";
  return NodeViews(*this, call, false).known_values(call, NodeType::memset).set();
}

void GraphNode::write_arg(std::size_t index, const void* value, const node_detail::TypedSize& as) const {
  constexpr const char* call = "GraphNode::set_arg";
  const NodeViews view(*this, call, true);
  NodeImage to = view.known_values(call, NodeType::kernel);
  const KernelParam& param = view.parameter(call, to, index, as);
  std::memcpy(to.block().data() + param.offset, value, param.size);
  view.change(call, std::move(to), {{NodePlace::Of::arguments, param.offset, param.size}});
}

void GraphNode::set_arg_bytes(std::size_t index, std::span<const std::byte> value) const {
  write_arg(index, value.data(), {value.size(), {}});
}

void GraphNode::set_params(const LaunchConfig& config) const {
  constexpr const char* call = "GraphNode::set_params";
  const NodeViews view(*this, call, true);
  NodeImage to = view.known_values(call, NodeType::kernel);
  to.config() = config;
  view.change(call, std::move(to), {});
}

void GraphNode::set_params(const MemcpyNodeParams& params) const {
  constexpr const char* call = "GraphNode::set_params";
  const NodeViews view(*this, call, true);
  NodeImage to = view.known_values(call, NodeType::memcpy);
  to.copy() = params;
  view.change(call, std::move(to), {{NodePlace::Of::source}, {NodePlace::Of::destination}});
}

void GraphNode::set_params(const MemsetNodeParams& params) const {
  constexpr const char* call = "GraphNode::set_params";
  const NodeViews view(*this, call, true);
  NodeImage to = view.known_values(call, NodeType::memset);
  to.set() = params;
  view.change(call, std::move(to), {{NodePlace::Of::destination}});
}

void GraphNode::set_enabled(bool enabled) const {
  constexpr const char* call = "GraphNode::set_enabled";
  const NodeViews view(*this, call, true);
  if (type_ != NodeType::kernel && type_ != NodeType::memcpy)
    throw UsageError(
        text::format("{} needs a kernel or memcpy node, the types that CUDA disables in order; found the {}. A set may "
                     "be given memory that nothing reads: GraphNode::set_params().",
                     call, view.text()));
  if (inner_ != nullptr)
    throw UsageError(
        text::format("{} needs a node of the graph itself; found the {} in a child graph or a body, where nodes are "
                     "not disabled. Capture the work in the body of if_, whose condition decides at each replay.",
                     call, view.text()));
  graphs::NodeChanges::require_not_own(view.values(), [&] { return text::format("{}, {}", call, view.text()); });
  auto& impl = view.impl();
  impl.changes.set_enabled(impl.backend(), impl.exec, handle_, index_, enabled,
                           [&](GraphNodeHandle) { return view.text(); });
}

std::vector<GraphNode> CUDAGraph::nodes() const {
  constexpr const char* call = "CUDAGraph::nodes";
  const detail::PublicCall public_call(call);
  Impl& impl = Impl::of(*this, call);
  const Impl::LaunchLock lock(impl);
  impl.require_template(call);
  const std::vector<GraphNodeHandle> handles = Checked(impl.backend()).nodes_of(impl.template_graph);
  std::vector<GraphNode> nodes;
  nodes.reserve(handles.size());
  for (std::size_t i = 0; i < handles.size(); ++i) nodes.push_back(NodeViews::make(impl, i, handles[i]));
  return nodes;
}

GraphNode CUDAGraph::node(std::string_view name) const {
  constexpr const char* call = "CUDAGraph::node";
  const detail::PublicCall public_call(call);
  Impl& impl = Impl::of(*this, call);
  const Impl::LaunchLock lock(impl);
  impl.require_template(call);
  return NodeViews::make(impl, graphs::node_with_name(impl, call, name));
}

}  // namespace reprise
