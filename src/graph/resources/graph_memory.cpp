// SPDX-License-Identifier: Apache-2.0
#include "reprise/graph_memory.h"

#include "backend/framework.h"
#include "graph/cuda_graph_impl.h"
#include "graph/resources/runtime_estimate.h"
#include "memory/allocator_impl.h"
#include "memory/node_memory.h"
#include "reprise/public_call.h"
#include "text/format.h"
#include "text/size.h"

namespace reprise {

GraphMemory graphs::memory_of(const Device& device, const GraphCounts& counts, MempoolId pool) {
  GraphMemory memory;
  memory.estimate = estimate_of(device, counts);
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

graphs::GraphCounts graphs::counts_of(const CUDAGraph& graph) {
  auto& impl = GraphAccess::of(graph, "CUDAGraph::memory");
  const GraphAccess::Impl::LaunchLock lock(impl);
  return impl.counted.counts();
}

GraphMemory CUDAGraph::memory() const {
  constexpr const char* call = "CUDAGraph::memory";
  const detail::PublicCall public_call(call);
  const Impl& impl = Impl::of(*this, call);
  impl.require(call, {Impl::State::captured, Impl::State::ready});
  return graphs::memory_of(*impl.device, graphs::counts_of(*this), impl.pool);
}

GraphMemory graph_memory(Device device) {
  const detail::PublicCall call("graph_memory");
  GraphMemory memory = graphs::memory_of(device, graphs::live_graphs(device), {});
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
  lines += text::format("templates, estimated: {} of the host, {} of the device\n", size(estimate.template_host_bytes),
                        size(estimate.template_device_bytes));
  lines += text::format("executables, estimated: {} of the host, {} of the device\n",
                        size(estimate.executable_host_bytes), size(estimate.executable_device_bytes));
  return lines;
}

}  // namespace reprise
