// SPDX-License-Identifier: Apache-2.0
// Captures a graph on the host device and replays it: enough to need every floor of an installed library.

#include <cstdio>
#include <vector>

#include <reprise/philox.h>
#include <reprise/reprise.h>

#if defined(NEEDS_NVCC) && !defined(__CUDACC__)
#error "expected nvcc to compile this file, as reprise_add_kernels says; found another compiler"
#endif
#if defined(NEEDS_COPY_OF_RANDOM123) && !defined(COPY_OF_RANDOM123)
#error "expected the copy of Random123 that is in no folder of the system; found another one"
#endif

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
  reprise::capture(graph, [&] {
    reprise::launch(x.size(), AddOne{}, x.data(), x.size());
    reprise::launch(x.size(), AddOne{}, x.data(), x.size());
  });
  for (int i = 0; i < 5; ++i) graph.replay();
  x.read_async(values);
  reprise::current_stream().synchronize();
  int wrong = 0;
  for (const int value : values) wrong += value == 10 ? 0 : 1;
  std::printf("reprise %s on %s: %zu nodes, 5 replays, %d wrong\n", REPRISE_VERSION,
              reprise::current_device().str().c_str(), graph.node_count(), wrong);
  return wrong == 0 ? 0 : 1;
}
