// SPDX-License-Identifier: Apache-2.0
#include "inspect/liveness/graph_walk.h"

#include <utility>
#include <variant>

#include "backend/check.h"
#include "backend/own_records.h"
#include "inspect/liveness/node_text.h"
#include "text/format.h"

namespace reprise::inspect {

using backend::Backend;
using backend::Call;
using backend::check;
using backend::Checked;

namespace {

std::string failure_text(Call call, ErrorCode result) {
  return text::format("{} failed with {} ({})", backend::cuda_name(call), result_name(result),
                      static_cast<int>(result));
}

}  // namespace

void GraphWalk::run(GraphHandle template_graph, const Visit& visit) {
  visit_ = &visit;
  graph(template_graph, "");
}

void GraphWalk::graph(GraphHandle graph, const std::string& prefix) {
  std::vector<GraphNodeHandle> nodes;
  Checked(backend_).graph_nodes(graph, &nodes);
  for (std::size_t i = 0; i < nodes.size(); ++i) {
    if (prefix.empty()) top_ = nodes[i];
    node(nodes[i], prefix + std::to_string(i));
  }
}

bool GraphWalk::may_copy(GraphNodeHandle handle) const {
  backend::NodeType type = backend::NodeType::empty;
  Checked(backend_).graph_node_type(handle, &type);
  return type == backend::NodeType::memcpy || type == backend::NodeType::child_graph ||
         type == backend::NodeType::conditional;
}

void GraphWalk::node(GraphNodeHandle handle, const std::string& number) {
  if (which_ == ScannedNodes::copies && !may_copy(handle)) return;
  backend::NodeParams params = backend::EmptyNodeParams{};
  const ErrorCode result = backend_.graph_node_params(handle, &params);
  if (result == ErrorCode::not_supported) {
    if (which_ == ScannedNodes::copies) return;
    backend::NodeType type = backend::NodeType::empty;
    Checked(backend_).graph_node_type(handle, &type);
    nodes_.push_back({handle, top_, type, number});
    return leave_out(failure_text(Call::graph_node_params, result));
  }
  check(backend_, Call::graph_node_params, result);
  nodes_.push_back({handle, top_, backend::node_type(params), number});
  arguments_ = {};
  if (const auto* const kernel = std::get_if<backend::KernelNodeParams>(&params)) find_arguments(*kernel);
  if (const auto* const copy = std::get_if<backend::MemcpyNodeParams>(&params))
    nodes_.back().copied_bytes = copy->bytes;
  (*visit_)(nodes_.back(), params, arguments_);
  if (const auto* const child = std::get_if<backend::ChildGraphNodeParams>(&params)) graph(child->graph, number + ".");
  if (const auto* const conditional = std::get_if<backend::ConditionalNodeParams>(&params))
    for (std::size_t i = 0; i < conditional->bodies.size(); ++i)
      graph(conditional->bodies[i], text::format("{}.{}.", number, i));
}

void GraphWalk::find_arguments(const backend::KernelNodeParams& kernel) {
  nodes_.back().function = kernel.function;
  if (kernel.params != nullptr) arguments_.own = backend::own_record(backend_, kernel.function);
  if (arguments_.own != nullptr) return;
  const Layout& layout = layout_of(kernel.function);
  if (kernel.params == nullptr && kernel.extra != nullptr) return find_packed(kernel.extra, layout);
  if (!layout.failure.empty()) return leave_out(layout.failure);
  if (kernel.params == nullptr && !layout.params.empty()) return leave_out("the driver has no arguments of it");
  for (std::size_t i = 0; i < layout.params.size(); ++i)
    arguments_.list.push_back({layout.params[i], static_cast<const std::byte*>(kernel.params[i])});
}

void GraphWalk::find_packed(void* const* extra, const Layout& layout) {
  const auto block = backend::packed_arguments(extra);
  if (!block) return leave_out("its `extra` arguments have an unknown form");
  if (!layout.failure.empty()) {
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

const GraphWalk::Layout& GraphWalk::layout_of(FunctionHandle function) {
  const auto known = layouts_.find(function);
  if (known != layouts_.end()) return known->second;
  Layout layout;
  KernelParam param;
  ErrorCode result;
  while ((result = backend_.function_param_info(function, layout.params.size(), &param)) == ErrorCode::success)
    layout.params.push_back(param);
  if (result != ErrorCode::invalid_value) {  // the code after the last parameter
    layout.params.clear();
    layout.failure = failure_text(Call::function_param_info, result);
  }
  return layouts_.emplace(function, std::move(layout)).first->second;
}

// The current node.
void GraphWalk::leave_out(std::string why) {
  omissions_.push_back({static_cast<std::uint32_t>(nodes_.size() - 1), std::move(why)});
}

std::string GraphWalk::omissions_text() const {
  if (omissions_.empty()) return "";
  const Omission& first = omissions_.front();
  const std::size_t more = omissions_.size() - 1;
  return omission_text(backend_, nodes_[first.node], first, nullptr) +
         (more != 0 ? text::format("; and so for {} more nodes", more) : "");
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

}  // namespace reprise::inspect
