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

void compare_parts(const Settings& settings, const reprise::StreamRef& stream, unsigned kernels, Table& table) {
  constexpr unsigned breaks[] = {0, 1, 10, 10};
  Buffer<float> values(small_kernel_values);
  values.fill_bytes_async(0);
  reprise::CUDAGraph whole = reprise::capture([&] { launch_small_kernels(kernels, values.data()); });
  BreakableGraph graphs[std::size(breaks)];
  for (std::size_t i = 0; i < std::size(breaks); ++i)
    reprise::breakable(graphs[i], {}, [&] { submit(values, kernels, breaks[i], i == 3); });
  const std::vector<double> us = medians(settings, std::size(breaks) + 1, [&](std::size_t side) {
    return 1e6 * submit_seconds(stream, [&] { side == 0 ? whole.replay() : graphs[side - 1].replay(); });
  });
  table.row({1.0 * kernels, "CUDAGraph::replay", us[0], {}});
  for (std::size_t i = 0; i < std::size(breaks); ++i)
    table.row({1.0 * kernels, fmt::format("{} eager parts{}", breaks[i], i == 3 ? " that return a buffer" : ""),
               us[i + 1], (us[i + 1] - us[0]) / (breaks[i] == 0 ? 1 : breaks[i])});
}

}  // namespace

void eager_parts(const Settings& settings) {
  const reprise::Stream stream(settings.device);
  const reprise::StreamGuard guard(stream);
  Table table(settings, "eager_parts",
              "Replays with eager parts: the host's part, and what each part adds to that of a whole graph",
              {{"kernels", "", 0}, {"", "", 0, 36}, {"replay", "us"}, {"a part", "us"}});
  for (const unsigned kernels : {11U, 110U}) compare_parts(settings, stream, kernels, table);
}

}  // namespace benchmarks
