// SPDX-License-Identifier: Apache-2.0
#include "reprise/graph_memory.h"

#include <functional>

#include "backend/framework.h"
#include "backend/per_device.h"
#include "graph/cuda_graph_impl.h"
#include "graph/resources/graph_counts.h"
#include "memory/allocator_impl.h"
#include "memory/node_memory.h"
#include "reprise/detail/public_call.h"
#include "text/format.h"
#include "text/size.h"

namespace reprise {

namespace graphs {

template <class Operation>
GraphCounts& GraphCounts::change(const GraphCounts& by, Operation operation) noexcept {
  for (const auto member : {&GraphCounts::graphs, &GraphCounts::nodes, &GraphCounts::template_nodes,
                            &GraphCounts::executables, &GraphCounts::executable_nodes, &GraphCounts::left_bytes})
    this->*member = operation(this->*member, by.*member);
  return *this;
}

GraphCounts& GraphCounts::operator+=(const GraphCounts& more) noexcept {
  return change(more, std::plus<>());
}

void CountedGraph::become(const GraphCounts& now) {
  if (!device_) return;
  backend::PerDevice<GraphCounts>::use(*device_, [&](GraphCounts& all) { all.change(counts_, std::minus<>()) += now; });
  counts_ = now;
  if (now.graphs == 0) device_.reset();
}

void CountedGraph::captured(const Device& device, std::size_t nodes, std::uint64_t left_bytes) {
  reset();
  device_ = device;
  become({.graphs = 1, .nodes = nodes, .template_nodes = nodes, .left_bytes = left_bytes});
}

void CountedGraph::template_discarded() noexcept {
  GraphCounts now = counts_;
  now.template_nodes = 0;
  become(now);
}

void CountedGraph::instantiated() noexcept {
  GraphCounts now = counts_;
  now.executables = 1;
  now.executable_nodes = now.nodes;
  become(now);
}

void CountedGraph::executable_destroyed() noexcept {
  GraphCounts now = counts_;
  now.executables = now.executable_nodes = 0;
  become(now);
}

GraphCounts counts_of(const CUDAGraph& graph) {
  auto& impl = GraphAccess::of(graph, "CUDAGraph::memory");
  const GraphAccess::Impl::LaunchLock lock(impl);
  return impl.counted.counts();
}

// The slopes and offsets of the table in docs/performance.md, "Memory of graphs": between 1 and 100 kernels, with and
// without the template.
GraphMemoryEstimate estimate_of(const GraphCounts& counts) noexcept {
  return {.host_bytes = 1930 * counts.template_nodes + 21'900 * counts.executables + 5890 * counts.executable_nodes,
          .device_bytes = 114'500 * counts.executables + 2420 * counts.executable_nodes};
}

GraphMemory memory_of(const Device& device, const GraphCounts& counts, MempoolId pool) {
  GraphMemory memory;
  if (device.type() == DeviceType::cuda) memory.estimate = estimate_of(counts);
  memory.graphs = counts.graphs;
  memory.executables = counts.executables;
  memory.nodes = counts.nodes;
  memory.left_bytes = counts.left_bytes;
  CachingAllocator& allocator = CachingAllocator::of(device);
  memory.pool = pool ? allocator.statistics(pool) : allocator.impl().private_pools();
  if (const backend::Framework* const framework = backend::installed_framework()) {
    const auto tensors = framework->pool_bytes(device, pool);
    memory.tensor_reserved_bytes = tensors.reserved;
    memory.tensor_allocated_bytes = tensors.allocated;
  }
  return memory;
}

}  // namespace graphs

GraphMemory CUDAGraph::memory() const {
  constexpr const char* call = "CUDAGraph::memory";
  const detail::PublicCall public_call(call);
  const Impl& impl = Impl::of(*this, call);
  impl.require(call, {Impl::State::captured, Impl::State::ready});
  return graphs::memory_of(*impl.device, graphs::counts_of(*this), impl.pool);
}

GraphMemory graph_memory(Device device) {
  const detail::PublicCall call("graph_memory");
  const auto counts = backend::PerDevice<graphs::GraphCounts>::use(device, [](const auto& all) { return all; });
  GraphMemory memory = graphs::memory_of(device, counts, {});
  memory.left_by_ended_bytes = memory::NodeMemory::on(device).of_ended;
  return memory;
}

std::string GraphMemory::str() const {
  const auto size = [](std::uint64_t bytes) { return text::size_text(bytes); };
  std::string lines = text::format("{} graphs, {} of them instantiated, with {} nodes\n", graphs, executables, nodes);
  lines += text::format("pools: {} reserved, {} of it allocated, at most {}\n", size(pool.reserved_bytes),
                        size(pool.allocated_bytes), size(pool.peak_allocated_bytes));
  if (tensor_reserved_bytes != 0)
    lines += text::format("pools of tensors: {} reserved, {} of it allocated\n", size(tensor_reserved_bytes),
                          size(tensor_allocated_bytes));
  if (left_bytes + left_by_ended_bytes != 0)
    lines += text::format("allocation nodes: {} that replays leave allocated, {} left by graphs that have ended\n",
                          size(left_bytes), size(left_by_ended_bytes));
  if (estimate.host_bytes + estimate.device_bytes != 0)
    lines += text::format("the driver, estimated: {} of the host, {} of the device\n", size(estimate.host_bytes),
                          size(estimate.device_bytes));
  return lines;
}

}  // namespace reprise
