// SPDX-License-Identifier: Apache-2.0
#include "inspect/liveness/graph_scan.h"

#include <algorithm>
#include <cstddef>
#include <cstring>
#include <variant>

#include "backend/host_work.h"
#include "inspect/nodes/node_text.h"

namespace reprise::inspect {

using backend::Backend;

namespace {

class Scanner {
 public:
  Scanner(Backend& backend, ScannedNodes which, graphs::NodeChanges* known) : walk_(backend, which, known) {}

  GraphScan run(GraphHandle template_graph) {
    walk_.run(template_graph, [&](const backend::NodeParams& params, const KernelArguments& arguments) {
      if (const auto* const kernel = std::get_if<backend::KernelNodeParams>(&params))
        read(*kernel, arguments);
      else
        std::visit([&](const auto& of_type) { read(of_type); }, params);
    });
    scan_.nodes = walk_.take_nodes();
    scan_.omissions = walk_.take_omissions();
    return std::move(scan_);
  }

 private:
  void read(const backend::KernelNodeParams& kernel, const KernelArguments& arguments) {
    if (arguments.own != nullptr) return operands(*arguments.own, kernel.params);
    for (const auto& [param, value] : arguments.list) argument(param, value);
  }
  // Operands of an operator are arguments, which parameters set.
  void operands(const KernelRecord& kernel, void* const* params) {
    const bool are_arguments = backend::is_enqueued(kernel);
    std::size_t number = 0;
    for (const MemoryAccess& access : kernel.accesses(params)) {
      const std::size_t place = are_arguments ? kernel.params[number + 1].offset + offsetof(MemoryAccess, address)
                                              : number * sizeof(std::uintptr_t);
      if (access.bytes != 0) word(static_cast<std::uint32_t>(place), reinterpret_cast<std::uintptr_t>(access.address));
      ++number;
    }
  }
  void argument(const KernelParam& param, const std::byte* bytes) {
    const bool whole = param.size == sizeof(std::uintptr_t) && !graphs::is_number(param.type);
    for (std::size_t at = 0; at + sizeof(std::uintptr_t) <= param.size; at += sizeof(std::uintptr_t)) {
      std::uintptr_t value = 0;
      std::memcpy(&value, bytes + at, sizeof value);
      word(static_cast<std::uint32_t>(param.offset + at), value, whole, /*used=*/false);
    }
  }
  void read(const backend::MemcpyNodeParams& copy) {
    word(copy_source, reinterpret_cast<std::uintptr_t>(copy.source));
    word(copy_destination, reinterpret_cast<std::uintptr_t>(copy.destination));
  }
  void read(const backend::PitchedCopyNodeParams& copy) {
    word(copy_source, reinterpret_cast<std::uintptr_t>(copy.source.address));
    word(copy_destination, reinterpret_cast<std::uintptr_t>(copy.destination.address));
  }
  void read(const backend::MemsetNodeParams& set) { word(0, reinterpret_cast<std::uintptr_t>(set.destination)); }
  void read(const backend::PitchedSetNodeParams& set) { word(0, reinterpret_cast<std::uintptr_t>(set.destination)); }
  void read(const backend::MemoryAllocateNodeParams& allocation) {
    scan_.own.push_back({reinterpret_cast<std::uintptr_t>(allocation.address), allocation.bytes});
  }
  // Other nodes use no memory, or their use is known to the host only.
  template <class Params>
  void read(const Params& /*params*/) {}

  void word(std::uint32_t place, std::uintptr_t value, bool whole = true, bool used = true) {
    // Nothing is ever allocated in the first pages.
    constexpr std::uintptr_t least = 4096;
    if (value >= least)
      scan_.words.push_back({static_cast<std::uint32_t>(walk_.nodes().size() - 1), place, value, whole, used});
  }

  GraphWalk walk_;
  GraphScan scan_;
};

}  // namespace

GraphScan scan_graph(Backend& backend, GraphHandle template_graph, ScannedNodes which, graphs::NodeChanges* known) {
  return Scanner(backend, which, known).run(template_graph);
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

}  // namespace reprise::inspect
