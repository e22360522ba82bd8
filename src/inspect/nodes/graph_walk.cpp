// SPDX-License-Identifier: Apache-2.0
#include "inspect/nodes/graph_walk.h"

#include <algorithm>
#include <functional>
#include <iterator>
#include <utility>
#include <variant>

#include "backend/check.h"
#include "backend/own_records.h"
#include "graph/nodes/inner_nodes.h"
#include "inspect/nodes/node_text.h"
#include "text/format.h"

namespace reprise::inspect {

using backend::Backend;
using backend::Call;
using backend::Checked;

namespace {

std::string failure_text(Call call, ErrorCode result) {
  return text::format("{} failed with {} ({})", backend::cuda_name(call), result_name(result),
                      static_cast<int>(result));
}

// True if a node copies memory, or has graphs inside, whose nodes may.
bool may_copy(Backend& backend, GraphNodeHandle node, graphs::NodeChanges* known) {
  backend::NodeType type = backend::NodeType::empty;
  if (known != nullptr)
    type = known->values(backend, node).type();
  else
    Checked(backend).graph_node_type(node, &type);
  return type == backend::NodeType::memcpy || type == backend::NodeType::child_graph ||
         type == backend::NodeType::conditional;
}

}  // namespace

void GraphWalk::run(GraphHandle template_graph, const Visit& visit) {
  visit_ = &visit;
  graph(template_graph, "", ScannedNode::no_parent);
}

void GraphWalk::graph(GraphHandle within, const std::string& prefix, std::size_t parent) {
  std::vector<GraphNodeHandle> nodes;
  Checked(backend_).graph_nodes(within, &nodes);
  for (std::size_t i = 0; i < nodes.size(); ++i) {
    if (which_ == ScannedNodes::copies && !may_copy(backend_, nodes[i], known_)) continue;
    node({.handle = nodes[i],
          .top = parent != ScannedNode::no_parent ? nodes_[parent].top : nodes[i],
          .number = prefix + std::to_string(i),
          .graph = within,
          .parent = parent});
  }
}

// False if the runtime does not describe the node.
bool GraphWalk::read(GraphNodeHandle handle, const graphs::NodeImage* image, backend::NodeParams* params,
                     backend::NodeType* type) {
  const Checked runtime(backend_);
  if (image != nullptr) {
    *params = image->params(pointers_);
  } else if (!runtime.allowing(ErrorCode::not_supported).graph_node_params(handle, params)) {
    runtime.graph_node_type(handle, type);
    return false;
  }
  *type = backend::node_type(*params);
  return true;
}

void GraphWalk::node(ScannedNode node) {
  backend::NodeParams params = backend::EmptyNodeParams{};
  const graphs::NodeImage* image = known_ != nullptr ? &known_->values(backend_, node.handle) : nullptr;
  // The image of a kernel whose arguments are not known lacks what the runtime may have.
  if (image != nullptr && !image->has_params()) image = nullptr;
  const bool described = read(node.handle, image, &params, &node.type);
  const backend::NodeType type = node.type;
  nodes_.push_back(std::move(node));
  if (!described) return leave_out(failure_text(Call::graph_node_params, ErrorCode::not_supported));
  arguments_.own = nullptr;
  arguments_.list.clear();
  arguments_.one_block = false;
  if (const auto* const kernel = std::get_if<backend::KernelNodeParams>(&params)) find_arguments(*kernel, image);
  note_copy(params);
  (*visit_)(params, arguments_);
  const std::size_t index = nodes_.size() - 1;  // what follows adds to them
  if (const auto* const child = std::get_if<backend::ChildGraphNodeParams>(&params))
    graph(child->graph, graphs::number_within(nodes_[index].number, type, 0), index);
  const auto* const conditional = std::get_if<backend::ConditionalNodeParams>(&params);
  if (conditional == nullptr) return;
  nodes_[index].conditional = conditional->type;
  for (std::size_t i = 0; i < conditional->bodies.size(); ++i)
    graph(conditional->bodies[i], graphs::number_within(nodes_[index].number, type, i), index);
}

void GraphWalk::note_copy(const backend::NodeParams& params) {
  ScannedNode& node = nodes_.back();
  if (const auto* const copy = std::get_if<backend::MemcpyNodeParams>(&params))
    node.read_bytes = node.written_bytes = copy->bytes;
  const auto* const pitched = std::get_if<backend::PitchedCopyNodeParams>(&params);
  if (pitched == nullptr) return;
  node.read_bytes = pitched->source.bytes;
  node.written_bytes = pitched->destination.bytes;
  if (which_ == ScannedNodes::copies) return;  // arrays lie on the device
  if (pitched->source.address == nullptr) leave_out("its source is an array");
  if (pitched->destination.address == nullptr) leave_out("its destination is an array");
}

void GraphWalk::find_arguments(const backend::KernelNodeParams& kernel, const graphs::NodeImage* image) {
  nodes_.back().function = kernel.function;
  if (kernel.params != nullptr)
    arguments_.own = image != nullptr ? image->own_kernel() : backend::own_record(backend_, kernel.function);
  if (arguments_.own != nullptr) return;
  if (image != nullptr) {
    for (const KernelParam& param : image->layout())
      arguments_.list.push_back({param, image->block().data() + param.offset});
    return;
  }
  const graphs::KernelLayouts::Layout& layout = *layouts_.of(backend_, kernel.function);
  if (kernel.params == nullptr && kernel.extra != nullptr) return find_packed(kernel.extra, layout);
  if (!layout.unknown.empty()) return leave_out(layout.unknown);
  if (kernel.params == nullptr && !layout.params.empty()) return leave_out("the driver has no arguments of it");
  for (std::size_t i = 0; i < layout.params.size(); ++i)
    arguments_.list.push_back({layout.params[i], static_cast<const std::byte*>(kernel.params[i])});
}

void GraphWalk::find_packed(void* const* extra, const graphs::KernelLayouts::Layout& layout) {
  const auto block = backend::packed_arguments(extra);
  if (!block) return leave_out("its `extra` arguments have an unknown form");
  if (!layout.unknown.empty()) {
    arguments_.one_block = true;
    arguments_.list.push_back({{0, block->size()}, block->data()});
    return;
  }
  for (const KernelParam& param : layout.params) {
    if (param.offset > block->size() || param.size > block->size() - param.offset)
      return leave_out(
          text::format("its block of `extra` arguments has {} bytes, and parameters lie past its end", block->size()));
    arguments_.list.push_back({param, block->data() + param.offset});
  }
}

// The current node.
void GraphWalk::leave_out(std::string why) {
  omissions_.push_back({static_cast<std::uint32_t>(nodes_.size() - 1), std::move(why)});
}

ScannedNode scan_node(Backend& backend, GraphNodeHandle node, GraphNodeHandle top, std::string number) {
  ScannedNode scanned{node, top, backend::NodeType::empty, std::move(number)};
  Checked(backend).graph_node_type(node, &scanned.type);
  backend::NodeParams params = backend::EmptyNodeParams{};
  if (scanned.type == backend::NodeType::kernel &&
      Checked(backend).allowing(ErrorCode::not_supported).graph_node_params(node, &params))
    scanned.function = std::get<backend::KernelNodeParams>(params).function;
  return scanned;
}

std::string node_text(Backend& backend, const ScannedNode& node, const Annotation* annotation) {
  const bool kernel = node.type == backend::NodeType::kernel && node.function != nullptr;
  return node_text(kernel ? kernel_text(backend, node.function) : backend::node_type_name(node.type), node.number,
                   annotation);
}

std::string omission_text(Backend& backend, const ScannedNode& node, const Omission& omission,
                          const Annotation* annotation) {
  return text::format("the parameters of the {} are not known, {}", node_text(backend, node, annotation), omission.why);
}

std::string omissions_text(Backend& backend, std::span<const ScannedNode> nodes, std::span<const Omission> omissions) {
  if (omissions.empty()) return "";
  const Omission& first = omissions.front();
  const std::size_t more = omissions.size() - 1;
  return omission_text(backend, nodes[first.node], first, nullptr) +
         (more != 0 ? text::format("; and so for {} more nodes", more) : "");
}

std::vector<Omission> omissions_of_both(std::span<const Omission> first, std::span<const Omission> second) {
  std::vector<Omission> both;
  std::ranges::set_union(second, first, std::back_inserter(both), std::less<>{}, &Omission::node, &Omission::node);
  return both;
}

void require_same_nodes(Backend& backend, const char* option, std::span<const ScannedNode> first,
                        std::span<const ScannedNode> second) {
  const auto same_work = [](const ScannedNode& a, const ScannedNode& b) {
    return a.type == b.type && a.function == b.function && a.number == b.number;
  };
  const auto [at, other] = std::ranges::mismatch(first, second, same_work);
  if (at == first.end() && other == second.end()) return;
  const auto text_at = [&](std::span<const ScannedNode> nodes, auto node) {
    return node == nodes.end() ? std::string("nothing") : node_text(backend, *node, nullptr);
  };
  throw UsageError(text::format(
      "{} needs a body that captures the same nodes each time. The first difference: {} in the first capture, {} in "
      "the second ({} and {} nodes in all). Nothing was captured. If the body does something only the first time, set "
      "GraphOptions::warmup to 1; if its work depends on the iteration, capture a graph for "
      "each case.",
      option, text_at(first, at), text_at(second, other), first.size(), second.size()));
}

}  // namespace reprise::inspect
