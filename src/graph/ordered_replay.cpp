// SPDX-License-Identifier: Apache-2.0
#include "graph/ordered_replay.h"

#include "graph/cuda_graph_impl.h"

namespace reprise::graphs {

[[gnu::hot]] std::exception_ptr replay_in_order(memory::LastLaunch& last, CUDAGraph& graph, const StreamRef& stream) {
  const GraphAccess::Impl& impl = GraphAccess::of(graph, "CUDAGraph::replay");
  const std::uint64_t before = impl.launches;
  std::exception_ptr thrown;
  last.launch(stream, [&] {
    try {
      graph.replay(stream);
    } catch (...) {
      if (impl.launches == before) throw;
      thrown = std::current_exception();
    }
  });
  return thrown;
}

}  // namespace reprise::graphs
