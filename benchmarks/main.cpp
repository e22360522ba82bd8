// SPDX-License-Identifier: Apache-2.0

#include "memory.h"
#include "run.h"
#include "small_kernels.h"

namespace {

constexpr benchmarks::Benchmark all[] = {
    {"replay", "eager launches against replays and bare graph launches", benchmarks::replay},
    {"capture", "capture and instantiation against the bare calls, reset, first replay", benchmarks::capture},
    {"update", "an executable that is updated to another capture against a new one", benchmarks::update},
    {"batch", "copies of many buffers, one by one against a batch", benchmarks::batch},
    {"allocator", "the caching allocator against the device runtime", benchmarks::allocator},
    {"random", "replays of a graph with and without random numbers", benchmarks::random_numbers},
    {"annotations", "scopes of annotate, in captures with and without annotations", benchmarks::annotations},
    {"liveness", "replays of a graph with and without a check of its inputs", benchmarks::liveness},
    {"parameters", "parameters that are set before a replay, and inputs patched against copied",
     benchmarks::parameters},
    {"cache", "calls of a cache of graphs against bare launches; captures and evictions", benchmarks::cache},
    {"memory", "memory of live graphs beside that of raw ones", benchmarks::memory},
    {"eager_parts", "replays with eager parts against a whole graph", benchmarks::eager_parts},
};

}  // namespace

int main(int argc, char** argv) {
  if (const auto status = benchmarks::measure_memory(argc, argv)) return *status;
  return benchmarks::main_of({"reprise_benchmarks", all, benchmarks::nvcc_release()}, argc, argv);
}
