// SPDX-License-Identifier: Apache-2.0
#include "graph/ordered_replay.h"

#include "graph/cuda_graph_impl.h"

namespace reprise::graphs {

[[gnu::hot]] std::exception_ptr replay_in_order(memory::LastLaunch& last, CUDAGraph& graph, const StreamRef& stream) {
  const GraphAccess::Impl& impl = GraphAccess::of(graph, "CUDAGraph::replay");
  std::exception_ptr thrown;
  last.launch(stream, [&] { thrown = impl.thrown_after_launch([&] { graph.replay(stream); }); });
  return thrown;
}

}  // namespace reprise::graphs
