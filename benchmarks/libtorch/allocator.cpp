// SPDX-License-Identifier: Apache-2.0
// Allocating and freeing device memory with the caching allocator and with libtorch's, by several threads, each on a
// stream of its own.

#include <c10/core/StreamGuard.h>
#include <c10/cuda/CUDACachingAllocator.h>
#include <c10/cuda/CUDAStream.h>

#include <algorithm>
#include <latch>
#include <thread>
#include <vector>

#include "libtorch/benchmarks.h"
#include "reprise/libtorch/graph.h"

namespace benchmarks {
namespace {

constexpr unsigned pairs = 10'000;

/// Each thread runs `pair` so many times. Returns ns a pair, of the slowest thread.
template <class MakePair>
double run(unsigned threads, MakePair&& make_pair) {
  std::latch ready(threads), finished(threads);
  std::vector<double> times(threads);
  const auto work = [&](unsigned index) {
    auto pair = make_pair();
    pair();  // cached from here on
    ready.arrive_and_wait();
    times[index] = seconds([&] {
      for (unsigned i = 0; i < pairs; ++i) pair();
    });
    finished.arrive_and_wait();
  };
  {
    std::vector<std::jthread> others;
    for (unsigned i = 1; i < threads; ++i) others.emplace_back(work, i);
    work(0);
  }
  return 1e9 * *std::max_element(times.begin(), times.end()) / pairs;
}

}  // namespace

void tensor_allocator(const Settings& settings) {
  if (settings.device.type() == reprise::DeviceType::host) {
    print("Allocators: left out, because libtorch's serves CUDA devices only\n");
    return;
  }
  tensor_device(settings);
  const auto index = static_cast<c10::DeviceIndex>(settings.device.index());
  Table table(settings, "tensor_allocator",
              "Allocating and freeing 512 bytes, a pair: the caching allocator beside libtorch's",
              {{"threads", "", 0}, {"reprise", "ns", 0}, {"c10", "ns", 0}});
  for (const unsigned threads : {1U, 2U, 4U, 8U, 16U}) {
    const auto ours = [&] {
      return [&, stream = reprise::Stream(settings.device)] {
        auto& allocator = reprise::CachingAllocator::of(settings.device);
        allocator.deallocate(allocator.allocate(512, stream));
      };
    };
    const auto theirs = [&] {
      return [stream = c10::cuda::getStreamFromPool(false, index)] {
        namespace c10_allocator = c10::cuda::CUDACachingAllocator;
        c10_allocator::raw_delete(c10_allocator::raw_alloc_with_stream(512, stream.stream()));
      };
    };
    const std::vector<double> ns =
        medians(settings, 2, [&](std::size_t side) { return side == 0 ? run(threads, ours) : run(threads, theirs); });
    table.row({1.0 * threads, ns[0], ns[1]});
  }
}

}  // namespace benchmarks
