// SPDX-License-Identifier: Apache-2.0
#include "graph/resources/live_graphs.h"

#include "backend/per_device.h"
#include "memory/node_memory.h"

namespace reprise::graphs {
namespace {

// In their place until the device ends, which outlives its graphs.
LiveGraphs& live_on(const Device& device) {
  return *backend::PerDevice<LiveGraphs>::use(device, [](LiveGraphs& live) { return &live; });
}

}  // namespace

GraphCounts& GraphCounts::operator+=(const GraphCounts& more) noexcept {
  graphs += more.graphs;
  nodes += more.nodes;
  templates += more.templates;
  template_nodes += more.template_nodes;
  executables += more.executables;
  executable_nodes += more.executable_nodes;
  left_bytes += more.left_bytes;
  return *this;
}

void CountedGraph::captured(const Device& device, std::size_t nodes, std::uint64_t left_bytes) {
  reset();
  live_ = &live_on(device);
  nodes_ = nodes;
  left_bytes_ = left_bytes;
  has_template_ = true;
  ++live_->graphs;
  live_->nodes += nodes_;
  ++live_->templates;
  live_->template_nodes += nodes_;
}

void CountedGraph::template_discarded() noexcept {
  if (!std::exchange(has_template_, false)) return;
  --live_->templates;
  live_->template_nodes -= nodes_;
}

void CountedGraph::instantiated() noexcept {
  if (live_ == nullptr || std::exchange(has_executable_, true)) return;
  ++live_->executables;
  live_->executable_nodes += nodes_;
}

void CountedGraph::executable_destroyed() noexcept {
  if (!std::exchange(has_executable_, false)) return;
  --live_->executables;
  live_->executable_nodes -= nodes_;
}

void CountedGraph::reset() noexcept {
  if (live_ == nullptr) return;
  executable_destroyed();
  template_discarded();
  --live_->graphs;
  live_->nodes -= nodes_;
  live_ = nullptr;
  nodes_ = 0;
}

void CountedGraph::swap(CountedGraph& other) noexcept {
  std::swap(live_, other.live_);
  std::swap(nodes_, other.nodes_);
  std::swap(left_bytes_, other.left_bytes_);
  std::swap(has_template_, other.has_template_);
  std::swap(has_executable_, other.has_executable_);
}

GraphCounts CountedGraph::counts() const noexcept {
  GraphCounts counts;
  if (live_ == nullptr) return counts;
  counts.graphs = 1;
  counts.nodes = nodes_;
  counts.left_bytes = left_bytes_;
  if (has_template_) counts.templates = 1, counts.template_nodes = nodes_;
  if (has_executable_) counts.executables = 1, counts.executable_nodes = nodes_;
  return counts;
}

GraphCounts live_graphs(const Device& device) {
  const LiveGraphs& live = live_on(device);
  return {live.graphs,
          live.nodes,
          live.templates,
          live.template_nodes,
          live.executables,
          live.executable_nodes,
          memory::NodeMemory::on(device).of_graphs};
}

}  // namespace reprise::graphs
