// SPDX-License-Identifier: Apache-2.0
#include "inspect/compare/written_memory.h"

#include <algorithm>
#include <string>
#include <type_traits>
#include <utility>
#include <variant>

#include "backend/condition_record.h"
#include "inspect/nodes/graph_walk.h"

namespace reprise::inspect {
namespace {

std::uintptr_t number_of(const void* address) {
  return reinterpret_cast<std::uintptr_t>(address);
}

NodeWork known_work(std::vector<MemoryRange> writes) {
  NodeWork work;
  work.known = true;
  work.writes = std::move(writes);
  return work;
}

NodeWork work_of_own(const KernelRecord& kernel, void* const* params) {
  NodeWork work = known_work({});
  if (kernel.name == "reprise_advance_random") {
    work.runs = false;
    work.random_words = number_of(*static_cast<std::uint64_t* const*>(params[0]));
    return work;
  }
  if (&kernel == &backend::condition_record()) work.sets = *static_cast<const backend::ConditionalHandle*>(params[0]);
  for (const MemoryAccess& access : kernel.accesses(params))
    if (access.writes && access.bytes != 0) work.writes.push_back({number_of(access.address), access.bytes});
  return work;
}

NodeWork work_of(const backend::NodeParams& params, const KernelArguments& arguments) {
  return std::visit(
      [&](const auto& of_type) -> NodeWork {
        using Params = std::decay_t<decltype(of_type)>;
        NodeWork work;
        if constexpr (std::is_same_v<Params, backend::KernelNodeParams>) {
          if (arguments.own != nullptr) return work_of_own(*arguments.own, of_type.params);
        } else if constexpr (std::is_same_v<Params, backend::MemcpyNodeParams>) {
          work = known_work({{number_of(of_type.destination), of_type.bytes}});
          work.copies = true;
        } else if constexpr (std::is_same_v<Params, backend::PitchedCopyNodeParams>) {
          work.copies = true;
          if (of_type.destination.address == nullptr) return work;  // an array
          work.known = true;
          work.writes.push_back({number_of(of_type.destination.address), of_type.destination.bytes});
        } else if constexpr (std::is_same_v<Params, backend::MemsetNodeParams>) {
          work = known_work({{number_of(of_type.destination), of_type.count * of_type.element_bytes}});
        } else if constexpr (std::is_same_v<Params, backend::PitchedSetNodeParams>) {
          work = known_work({{number_of(of_type.destination), of_type.bytes}});
        } else if constexpr (std::is_same_v<Params, backend::EmptyNodeParams> ||
                             std::is_same_v<Params, backend::EventRecordNodeParams> ||
                             std::is_same_v<Params, backend::EventWaitNodeParams> ||
                             std::is_same_v<Params, backend::ChildGraphNodeParams>) {
          work.known = true;
          work.runs = false;
        } else if constexpr (std::is_same_v<Params, backend::ConditionalNodeParams>) {
          work.known = true;  // what is in its bodies is added
        }
        return work;
      },
      params);
}

void add_to(NodeWork& whole, const NodeWork& part) {
  whole.known &= part.known;
  whole.copies |= part.copies;
  whole.writes.insert(whole.writes.end(), part.writes.begin(), part.writes.end());
}

}  // namespace

std::vector<MemoryRange> merged(std::vector<MemoryRange> ranges) {
  std::erase_if(ranges, [](const MemoryRange& range) { return range.bytes == 0; });
  std::ranges::sort(ranges, {}, &MemoryRange::begin);
  std::vector<MemoryRange> all;
  for (const MemoryRange& range : ranges) {
    if (all.empty() || range.begin >= all.back().end())
      all.push_back(range);
    else
      all.back().bytes = std::max(all.back().end(), range.end()) - all.back().begin;
  }
  return all;
}

std::vector<std::size_t> conditional_around(const std::vector<ScannedNode>& nodes) {
  std::vector<std::size_t> found(nodes.size(), in_no_body);
  for (std::size_t i = 0; i < nodes.size(); ++i) {
    const std::size_t outer = nodes[i].parent;
    if (outer == ScannedNode::no_parent) continue;
    found[i] = found[outer] != in_no_body                            ? found[outer]
               : nodes[outer].type == backend::NodeType::conditional ? outer
                                                                     : in_no_body;
  }
  return found;
}

std::vector<NodeWork> read_work(const ComparedGraph& graph) {
  ComparedGraph::Impl& impl = graph.graph();
  std::vector<NodeWork> work(graph.values.nodes.size());
  std::vector<std::optional<backend::ConditionalHandle>> condition_of(work.size());
  GraphWalk walk(impl.backend(), ScannedNodes::all, &impl.changes);
  walk.run(impl.template_graph, [&](const backend::NodeParams& params, const KernelArguments& arguments) {
    const std::size_t index = walk.nodes().size() - 1;
    work[index] = work_of(params, arguments);
    if (const auto* const conditional = std::get_if<backend::ConditionalNodeParams>(&params))
      condition_of[index] = conditional->handle;
  });
  const std::vector<std::size_t> conditional = conditional_around(graph.values.nodes);
  for (std::size_t i = 0; i < work.size(); ++i) {
    if (!impl.changes.enabled(graph.values.nodes[i].handle)) work[i].runs = false;
    std::size_t whole = conditional[i];
    for (std::size_t j = i + 1; whole == in_no_body && work[i].sets && j < work.size(); ++j)
      if (condition_of[j] == work[i].sets) whole = j;
    if (whole == in_no_body) continue;
    add_to(work[whole], work[i]);
    work[i].runs = false;
    work[i].known = true;
    work[i].writes.clear();
  }
  return work;
}

}  // namespace reprise::inspect
