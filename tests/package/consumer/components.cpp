// SPDX-License-Identifier: Apache-2.0
// Uses the components compare, timings and c: they find the graph, the device and the errors of the same core.

#include <cstdio>
#include <string>
#include <vector>

#include <reprise/c_api.h>
#include <reprise/compare.h>
#include <reprise/reprise.h>
#include <reprise/timings.h>

namespace {

struct Scale {
  REPRISE_KERNEL void operator()(reprise::Thread t, float factor, float* x, std::size_t n) const {
    if (t.global_x() < n) x[t.global_x()] *= factor;
  }
};

}  // namespace

int main() {
  reprise::Buffer<float> x{std::vector<float>(8, 1.0f)};
  float factor = 2;
  const auto step = [&] {
    reprise::launch(x.size(), Scale{}, 3.0f, x.data(), x.size());
    reprise::launch(x.size(), Scale{}, factor, x.data(), x.size());
  };
  reprise::CUDAGraph graph = reprise::capture(step);
  factor = 4;
  const reprise::Comparison found = reprise::compare(graph, step);
  if (found.difference) std::printf("compare: node %zu differs\n", found.difference->first->index);
  const reprise::ReplayTiming timing = reprise::time_replay(graph);
  std::printf("timings: %zu nodes\n", timing.nodes.size());
  reprise::CUDAGraph empty;
  try {
    reprise::time_replay(empty);
  } catch (const reprise::UsageError&) {
    std::puts("timings: an empty graph is refused");
  }
  const bool same_version = std::string(reprise_version()) == REPRISE_VERSION;
  std::printf("c: %s version\n", same_version ? "the same" : "another");
  void* memory = nullptr;
  if (reprise_allocate(64, nullptr, &memory) == REPRISE_ERROR_USAGE) std::puts("c: a missing stream is refused");
  return 0;
}
