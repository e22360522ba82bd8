// SPDX-License-Identifier: Apache-2.0
#include "inspect/liveness/graph_scan.h"

#include <algorithm>
#include <cstring>
#include <tuple>
#include <unordered_map>
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

struct Layout {
  std::vector<KernelParam> params = {};
  std::string failure = {};  // why it is not known
};

class Scanner {
 public:
  Scanner(Backend& backend, ScannedNodes which) : backend_(backend), which_(which) {}

  void graph(GraphHandle graph, const std::string& prefix) {
    std::vector<GraphNodeHandle> nodes;
    Checked(backend_).graph_nodes(graph, &nodes);
    for (std::size_t i = 0; i < nodes.size(); ++i) {
      if (prefix.empty()) top_ = nodes[i];
      node(nodes[i], prefix + std::to_string(i));
    }
  }

  GraphScan finish() {
    if (!scan_.omissions.empty()) {
      const std::size_t more = scan_.omissions.size() - 1;
      warn(text::format("Inputs of a graph may be missing among those whose liveness it checks: {}{}.",
                        omission_text(backend_, scan_, scan_.omissions.front(), nullptr),
                        more != 0 ? text::format("; and so for {} more nodes", more) : ""));
    }
    return std::move(scan_);
  }

 private:
  void node(GraphNodeHandle handle, const std::string& number) {
    if (which_ == ScannedNodes::copies && !may_copy(handle)) return;
    backend::NodeParams params = backend::EmptyNodeParams{};
    const ErrorCode result = backend_.graph_node_params(handle, &params);
    if (result == ErrorCode::not_supported) {
      if (which_ == ScannedNodes::copies) return;
      backend::NodeType type = backend::NodeType::empty;
      Checked(backend_).graph_node_type(handle, &type);
      scan_.nodes.push_back({handle, top_, type, number});
      leave_out(failure_text(Call::graph_node_params, result));
      return;
    }
    check(backend_, Call::graph_node_params, result);
    scan_.nodes.push_back({handle, top_, backend::node_type(params), number});
    std::visit([&](const auto& of_type) { read(of_type, number); }, params);
  }

  bool may_copy(GraphNodeHandle handle) {
    backend::NodeType type = backend::NodeType::empty;
    Checked(backend_).graph_node_type(handle, &type);
    return type == backend::NodeType::memcpy || type == backend::NodeType::child_graph ||
           type == backend::NodeType::conditional;
  }

  void read(const backend::KernelNodeParams& kernel, const std::string& /*number*/) {
    scan_.nodes.back().function = kernel.function;
    const KernelRecord* const own = backend::own_record(backend_, kernel.function);
    if (own != nullptr && kernel.params != nullptr) return operands(*own, kernel.params);
    const Layout& layout = layout_of(kernel.function);
    if (kernel.params == nullptr && kernel.extra != nullptr) return packed(kernel.extra, layout);
    if (!layout.failure.empty()) return leave_out(layout.failure);
    if (kernel.params == nullptr && !layout.params.empty()) return leave_out("the driver has no arguments of it");
    for (std::size_t i = 0; i < layout.params.size(); ++i)
      argument(layout.params[i], static_cast<const std::byte*>(kernel.params[i]));
  }
  void operands(const KernelRecord& kernel, void* const* params) {
    std::uint32_t place = 0;
    for (const MemoryAccess& access : kernel.accesses(params)) {
      if (access.bytes != 0) word(place, reinterpret_cast<std::uintptr_t>(access.address));
      place += sizeof(std::uintptr_t);
    }
  }
  // All of the block is searched if its layout is not known.
  void packed(void* const* extra, const Layout& layout) {
    const auto block = backend::packed_arguments(extra);
    if (!block) return leave_out("its `extra` arguments have an unknown form");
    if (!layout.failure.empty()) return argument({0, block->size()}, block->data());
    for (const KernelParam& param : layout.params) {
      if (param.offset > block->size() || param.size > block->size() - param.offset)
        return leave_out(text::format("its block of `extra` arguments has {} bytes, and parameters lie past its end",
                                      block->size()));
      argument(param, block->data() + param.offset);
    }
  }
  void argument(const KernelParam& param, const std::byte* bytes) {
    for (std::size_t at = 0; at + sizeof(std::uintptr_t) <= param.size; at += sizeof(std::uintptr_t)) {
      std::uintptr_t value = 0;
      std::memcpy(&value, bytes + at, sizeof value);
      word(static_cast<std::uint32_t>(param.offset + at), value);
    }
  }
  void read(const backend::MemcpyNodeParams& copy, const std::string& /*number*/) {
    scan_.nodes.back().copied_bytes = copy.bytes;
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

  const Layout& layout_of(FunctionHandle function) {
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

  static std::string failure_text(Call call, ErrorCode result) {
    return text::format("{} failed with {} ({})", backend::cuda_name(call), result_name(result),
                        static_cast<int>(result));
  }

  // The last node.
  void leave_out(std::string why) {
    scan_.omissions.push_back({static_cast<std::uint32_t>(scan_.nodes.size() - 1), std::move(why)});
  }

  Backend& backend_;
  const ScannedNodes which_;
  GraphScan scan_;
  GraphNodeHandle top_ = nullptr;  // the current node of the template
  std::unordered_map<FunctionHandle, Layout> layouts_;
};

}  // namespace

GraphScan scan_graph(Backend& backend, GraphHandle template_graph, ScannedNodes which) {
  Scanner scanner(backend, which);
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

std::string node_text(Backend& backend, const ScannedNode& node, const Annotation* annotation) {
  const bool kernel = node.type == backend::NodeType::kernel && node.function != nullptr;
  return node_text(kernel ? kernel_text(backend, node.function) : backend::node_type_name(node.type), node.number,
                   annotation);
}

std::string omission_text(Backend& backend, const GraphScan& scan, const GraphScan::Omission& omission,
                          const Annotation* annotation) {
  return text::format("the parameters of the {} are not known, {}",
                      node_text(backend, scan.nodes[omission.node], annotation), omission.why);
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
