// SPDX-License-Identifier: Apache-2.0
// Captures a graph on the host device and replays it: enough to need every floor of an installed library.

#include <cstdio>
#include <vector>

#include <reprise/reprise.h>

namespace {

struct AddOne {
  REPRISE_KERNEL void operator()(reprise::Thread t, int* x, std::size_t n) const {
    if (t.global_x() < n) x[t.global_x()] += 1;
  }
};

}  // namespace

int main() {
  std::vector<int> values(1000, 0);
  reprise::Buffer<int> x{values};
  reprise::CUDAGraph graph;
  reprise::capture(graph, {}, [&] {
    reprise::launch(reprise::LaunchConfig::cover(x.size()), AddOne{}, x.data(), x.size());
    reprise::launch(reprise::LaunchConfig::cover(x.size()), AddOne{}, x.data(), x.size());
  });
  for (int i = 0; i < 5; ++i) graph.replay();
  x.copy_to(values);
  reprise::current_stream().synchronize();
  int wrong = 0;
  for (const int value : values) wrong += value == 10 ? 0 : 1;
  std::printf("reprise %s on %s: %zu nodes, 5 replays, %d wrong\n", REPRISE_VERSION,
              reprise::current_device().str().c_str(), graph.node_count(), wrong);
  return wrong == 0 ? 0 : 1;
}
