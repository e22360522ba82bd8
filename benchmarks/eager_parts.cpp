// SPDX-License-Identifier: Apache-2.0
// What an eager part costs: the same kernels as one graph, and in segments with functions between them that do nothing,
// or return a buffer.

#include <iterator>
#include <string>

#include "small_kernels.h"
#include "submit.h"
#include "support.h"

namespace benchmarks {
namespace {

using reprise::BreakableGraph;
using reprise::Buffer;

/// `kernels` kernels in `breaks` + 1 pieces.
void submit(Buffer<float>& values, unsigned kernels, unsigned breaks, bool returns) {
  for (unsigned piece = 0; piece <= breaks; ++piece) {
    launch_small_kernels(kernels * (piece + 1) / (breaks + 1) - kernels * piece / (breaks + 1), values.data());
    if (piece == breaks) continue;
    if (returns)
      static_cast<void>(reprise::eager([] { return Buffer<float>(small_kernel_values); }));
    else
      reprise::eager([] {});
  }
}

void compare(const Settings& settings, const reprise::StreamRef& stream, unsigned kernels) {
  constexpr unsigned breaks[] = {0, 1, 10, 10};
  Buffer<float> values(small_kernel_values);
  values.fill_bytes_async(0);
  reprise::CUDAGraph whole = reprise::capture([&] { launch_small_kernels(kernels, values.data()); });
  BreakableGraph graphs[std::size(breaks)];
  for (std::size_t i = 0; i < std::size(breaks); ++i)
    reprise::breakable(graphs[i], {}, [&] { submit(values, kernels, breaks[i], i == 3); });
  Samples sides[std::size(breaks) + 1];
  for (unsigned round = 0; round <= settings.rounds; ++round) {
    if (round == 1)  // the first round warms up and is discarded
      for (Samples& side : sides) side = {};
    for (std::size_t i = 0; i < std::size(sides); ++i) {
      const std::size_t at = turn_of(round, i, std::size(sides));
      if (at == 0)
        sides[at].add(submit_seconds(stream, [&] { whole.replay(); }));
      else
        sides[at].add(submit_seconds(stream, [&] { graphs[at - 1].replay(); }));
    }
  }
  print("  {:5} kernels  {:<36}{:8.2f} us\n", kernels, "CUDAGraph::replay", sides[0].median() * 1e6);
  for (std::size_t i = 0; i < std::size(breaks); ++i) {
    const double more = sides[i + 1].median() - sides[0].median();
    const std::string what = fmt::format("{} eager parts{}", breaks[i], i == 3 ? " that return a buffer" : "");
    print("  {:5} kernels  {:<36}{:8.2f} us  {:+8.2f} us a part\n", kernels, what, sides[i + 1].median() * 1e6,
          more * 1e6 / (breaks[i] == 0 ? 1 : breaks[i]));
  }
}

}  // namespace

void eager_parts(const Settings& settings) {
  const reprise::Stream stream(settings.device);
  const reprise::StreamGuard guard(stream);
  print("Replays with eager parts: the host's time to submit one, and what each part adds to that of a whole graph\n");
  for (const unsigned kernels : {11U, 110U}) compare(settings, stream, kernels);
}

}  // namespace benchmarks
