// SPDX-License-Identifier: Apache-2.0
// The cost of random numbers per replay: a graph of small kernels that draw, replayed again and again, and replayed
// after the generator was set; the same graph without random numbers; and bare launches of both executables.

#include <functional>
#include <iterator>

#include "small_kernels.h"
#include "submit.h"
#include "support.h"

namespace benchmarks {
namespace {

using reprise::StreamRef;

void compare_draws(const Settings& settings, const StreamRef& stream, unsigned kernels, Table& table) {
  reprise::Buffer<float> values(small_kernel_values);
  values.fill_bytes_async(0);
  reprise::Generator generator(settings.device);
  reprise::CUDAGraph plain, drawing;
  reprise::capture(plain, [&] { launch_small_kernels(kernels, values.data()); });
  reprise::capture(drawing, [&] { launch_drawing_kernels(kernels, values.data(), generator); });
  const auto bare_plain = bare_launch(settings.device, plain.raw_cuda_graph_exec(), stream.native());
  const auto bare_drawing = bare_launch(settings.device, drawing.raw_cuda_graph_exec(), stream.native());
  std::uint64_t offset = 0;
  const std::function<void()> sides[] = {
      bare_plain,
      bare_drawing,
      [&] { plain.replay(); },
      [&] { drawing.replay(); },
      [&] {
        generator.set_offset(offset = offset == 0 ? 1U << 20U : 0);
        drawing.replay();
      },
  };
  const std::vector<double> us =
      medians(settings, std::size(sides), [&](std::size_t side) { return 1e6 * submit_seconds(stream, sides[side]); });
  table.row({1.0 * kernels, us[0], us[1], us[2], us[3], 100 * (us[3] - us[2]) / us[2], us[4], us[4] - us[2]});
}

}  // namespace

void random_numbers(const Settings& settings) {
  const reprise::Stream stream(settings.device);
  const reprise::StreamGuard guard(stream);
  Table table(settings, "random", "Replays of small kernels without and with random numbers, the host's part",
              {{"kernels", "", 0},
               {"bare without", "us"},
               {"bare with", "us"},
               {"without", "us"},
               {"with", "us"},
               {"more", "%", 1},
               {"after set_offset", "us"},
               {"more", "us"}});
  for (const unsigned kernels : {1U, 10U, 100U}) compare_draws(settings, stream, kernels, table);
}

}  // namespace benchmarks
