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

void compare(const Settings& settings, const StreamRef& stream, unsigned kernels) {
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
  constexpr std::size_t count = std::size(sides);
  Samples samples[count];
  for (unsigned round = 0; round <= settings.rounds; ++round)
    for (std::size_t i = 0; i < count; ++i) {
      const std::size_t side = turn_of(round, i, count);
      const double took = submit_seconds(stream, sides[side]);
      if (round > 0) samples[side].add(took);  // the first one warms up
    }
  double us[count];
  for (std::size_t i = 0; i < count; ++i) us[i] = 1e6 * samples[i].median();
  print("{:>7}  {:>10.2f} {:>10.2f}  {:>10.2f} {:>10.2f} {:>+6.1f} % {:>10.2f} {:>+7.2f} us\n", kernels, us[0], us[1],
        us[2], us[3], 100 * (us[3] - us[2]) / us[2], us[4], us[4] - us[2]);
}

}  // namespace

void random_numbers(const Settings& settings) {
  const reprise::Stream stream(settings.device);
  const reprise::StreamGuard guard(stream);
  print("Replays of small kernels without and with random numbers, the host's part, us a replay\n");
  print("{:>7}  {:^21}  {:^52}\n", "", "bare launch", "replay");
  print("{:>7}  {:>10} {:>10}  {:>10} {:>10} {:>8} {:>10} {:>10}\n", "kernels", "without", "with", "without", "with",
        "over", "after set", "over");
  for (const unsigned kernels : {1U, 10U, 100U}) compare(settings, stream, kernels);
}

}  // namespace benchmarks
