// SPDX-License-Identifier: Apache-2.0
#include "inspect/liveness/graph_scan.h"

#include <algorithm>
#include <cstring>
#include <tuple>
#include <unordered_map>
#include <unordered_set>
#include <variant>

#include "backend/check.h"
#include "inspect/liveness/node_text.h"
#include "text/format.h"

namespace reprise::inspect {

using backend::Backend;
using backend::Call;
using backend::check;
using backend::Checked;

namespace {

constexpr std::uint32_t copy_source = 0;
constexpr std::uint32_t copy_destination = 1;

class Scanner {
 public:
  explicit Scanner(Backend& backend) : backend_(backend) {}

  void graph(GraphHandle graph, const std::string& prefix) {
    std::vector<GraphNodeHandle> nodes;
    Checked(backend_).graph_nodes(graph, &nodes);
    for (std::size_t i = 0; i < nodes.size(); ++i) {
      if (prefix.empty()) top_ = nodes[i];
      node(nodes[i], prefix + std::to_string(i));
    }
  }

  GraphScan finish() {
    if (!left_out_.empty())
      warn(text::format("Inputs of a graph may be missing among those whose liveness it checks: {}{}.", left_out_,
                        left_out_count_ > 1 ? text::format("; and so for {} more nodes", left_out_count_ - 1) : ""));
    return std::move(scan_);
  }

 private:
  void node(GraphNodeHandle handle, const std::string& number) {
    backend::NodeParams params = backend::EmptyNodeParams{};
    const ErrorCode result = backend_.graph_node_params(handle, &params);
    if (result == ErrorCode::not_supported) {
      backend::NodeType type = backend::NodeType::empty;
      Checked(backend_).graph_node_type(handle, &type);
      scan_.nodes.push_back({handle, top_, type, number});
      leave_out(Call::graph_node_params, result, backend::node_type_name(type), scan_.nodes.back());
      return;
    }
    check(backend_, Call::graph_node_params, result);
    scan_.nodes.push_back({handle, top_, backend::node_type(params), number});
    std::visit([&](const auto& of_type) { read(of_type, number); }, params);
  }

  void read(const backend::KernelNodeParams& kernel, const std::string& /*number*/) {
    scan_.nodes.back().function = kernel.function;
    const Layout& layout = layout_of(kernel.function);
    for (std::size_t i = 0; kernel.params != nullptr && i < layout.size(); ++i)
      for (std::size_t at = 0; at + sizeof(std::uintptr_t) <= layout[i].size; at += sizeof(std::uintptr_t)) {
        std::uintptr_t value = 0;
        std::memcpy(&value, static_cast<const std::byte*>(kernel.params[i]) + at, sizeof value);
        word(static_cast<std::uint32_t>(layout[i].offset + at), value);
      }
  }
  void read(const backend::MemcpyNodeParams& copy, const std::string& /*number*/) {
    word(copy_source, reinterpret_cast<std::uintptr_t>(copy.source));
    word(copy_destination, reinterpret_cast<std::uintptr_t>(copy.destination));
  }
  void read(const backend::MemsetNodeParams& set, const std::string& /*number*/) {
    word(0, reinterpret_cast<std::uintptr_t>(set.destination));
  }
  void read(const backend::MemoryAllocateNodeParams& allocation, const std::string& /*number*/) {
    scan_.own.push_back({reinterpret_cast<std::uintptr_t>(allocation.address), allocation.bytes});
  }
  void read(const backend::ChildGraphNodeParams& child, const std::string& number) { graph(child.graph, number + "."); }
  void read(const backend::ConditionalNodeParams& conditional, const std::string& number) {
    for (std::size_t i = 0; i < conditional.bodies.size(); ++i)
      graph(conditional.bodies[i], text::format("{}.{}.", number, i));
  }
  // Other nodes use no memory, or their use is known to the host only.
  template <class Params>
  void read(const Params& /*params*/, const std::string& /*number*/) {}

  void word(std::uint32_t place, std::uintptr_t value) {
    // Nothing is ever allocated in the first pages.
    constexpr std::uintptr_t least = 4096;
    if (value >= least)
      scan_.words.push_back({static_cast<std::uint32_t>(scan_.nodes.size() - 1), place, value, value});
  }

  using Layout = std::vector<KernelParam>;
  const Layout& layout_of(FunctionHandle function) {
    const auto known = layouts_.find(function);
    if (known != layouts_.end()) {
      if (unknown_layouts_.contains(function)) ++left_out_count_;
      return known->second;
    }
    Layout layout;
    KernelParam param;
    ErrorCode result;
    while ((result = backend_.function_param_info(function, layout.size(), &param)) == ErrorCode::success)
      layout.push_back(param);
    if (result != ErrorCode::invalid_value) {  // the code after the last parameter
      layout.clear();
      unknown_layouts_.insert(function);
      leave_out(Call::function_param_info, result, "kernel", scan_.nodes.back());
    }
    return layouts_.emplace(function, std::move(layout)).first->second;
  }

  void leave_out(Call call, ErrorCode result, std::string_view what, const ScannedNode& node) {
    if (left_out_count_++ == 0)
      left_out_ = text::format("the parameters of the {} are not known, {} failed with {} ({})",
                               node_text(what, node.number, nullptr), backend::cuda_name(call), result_name(result),
                               static_cast<int>(result));
  }

  Backend& backend_;
  GraphScan scan_;
  GraphNodeHandle top_ = nullptr;  // the current node of the template
  std::unordered_map<FunctionHandle, Layout> layouts_;
  std::unordered_set<FunctionHandle> unknown_layouts_;
  std::string left_out_;  // the first of them
  std::size_t left_out_count_ = 0;
};

}  // namespace

GraphScan scan_graph(Backend& backend, GraphHandle template_graph) {
  Scanner scanner(backend);
  scanner.graph(template_graph, "");
  return scanner.finish();
}

std::string use_text(Backend& backend, const ScannedNode& node, std::uint32_t place, const Annotation* annotation) {
  switch (node.type) {
    case backend::NodeType::kernel:
      return node_text(kernel_text(backend, node.function), node.number, annotation);
    case backend::NodeType::memcpy:
      return node_text(place == copy_source ? "memcpy source" : "memcpy destination", node.number, annotation);
    default:
      return node_text("memset destination", node.number, annotation);
  }
}

void GraphScan::confirm(const GraphScan& first) {
  const auto same_work = [](const ScannedNode& a, const ScannedNode& b) {
    return a.type == b.type && a.function == b.function;
  };
  if (!std::ranges::equal(nodes, first.nodes, same_work))
    throw UsageError(text::format(
        "GraphOptions::inputs.confirm needs a body that captures the same nodes each time, and "
        "the first capture came to {} nodes, the second to {}{}, so that neither can confirm the other's "
        "inputs. Run the body once before the capture, so that what it does only the first time is done, or "
        "remove the option.",
        first.nodes.size(), nodes.size(), nodes.size() == first.nodes.size() ? " of other types or kernels" : ""));
  auto other = first.words.begin();
  std::erase_if(words, [&](ScannedWord& word) {
    const auto place = [](const ScannedWord& w) { return std::tuple(w.node, w.place); };
    while (other != first.words.end() && place(*other) < place(word)) ++other;
    if (other == first.words.end() || place(*other) != place(word)) return true;
    word.rehearsed = other->value;
    return false;
  });
}

}  // namespace reprise::inspect
