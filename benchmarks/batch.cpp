// SPDX-License-Identifier: Apache-2.0
// The cost of copying many buffers: one copy each, and all of them as a batch, submitted each time and replayed as a
// graph.

#include <functional>
#include <iterator>

#include "support.h"

namespace benchmarks {
namespace {

/// In seconds a step, the median of rounds.
struct Side {
  Samples submit;  ///< until the host has submitted the step
  Samples done;    ///< until the device is done
};

void measure(Side& side, const reprise::StreamRef& stream, const std::function<void()>& step) {
  constexpr unsigned steps = 10;
  stream.synchronize();
  const double done = seconds([&] {
    side.submit.add(seconds([&] {
                      for (unsigned i = 0; i < steps; ++i) step();
                    }) /
                    steps);
    stream.synchronize();
  });
  side.done.add(done / steps);
}

void compare(const Settings& settings, const reprise::StreamRef& stream, std::size_t buffers, std::size_t bytes) {
  const reprise::Buffer<std::byte> from(buffers * bytes), to(buffers * bytes);
  std::vector<reprise::CopyOp> batch;
  for (std::size_t i = 0; i < buffers; ++i) batch.push_back({to.data() + i * bytes, from.data() + i * bytes, bytes});
  const auto separately = [&] {
    for (const reprise::CopyOp& op : batch) reprise::copy_async(op.destination, op.source, op.bytes);
  };
  const auto together = [&] { reprise::copy_batch_async(batch); };
  reprise::CUDAGraph of_copies, of_batch;
  reprise::capture(of_copies, separately);
  reprise::capture(of_batch, together);

  Side sides[4];
  const std::function<void()> steps[] = {separately, together, [&] { of_copies.replay(); }, [&] { of_batch.replay(); }};
  for (unsigned round = 0; round <= settings.rounds; ++round) {
    // The first round warms up and is discarded.
    if (round == 1)
      for (Side& side : sides) side = {};
    for (unsigned i = 0; i < std::size(steps); ++i) {
      const unsigned turn = (round + i) % std::size(steps);
      measure(sides[turn], stream, steps[turn]);
    }
  }
  print("{:>7} {:>9}", buffers, bytes);
  for (const Side& side : sides) print("  {:>8.2f} {:>8.2f}", 1e6 * side.submit.median(), 1e6 * side.done.median());
  print("\n");
}

}  // namespace

void batch(const Settings& settings) {
  const reprise::Stream stream(settings.device);
  const reprise::StreamGuard guard(stream);
  print("Copying many buffers on the device, us: the host's part, and until the device is done\n");
  print("{:>7} {:>9}  {:^17}  {:^17}  {:^17}  {:^17}\n", "buffers", "bytes each", "a copy each", "a batch",
        "graph of copies", "graph of a batch");
  for (const std::size_t bytes : {std::size_t{4} << 10, std::size_t{1} << 20})
    for (const std::size_t buffers : {std::size_t{2}, std::size_t{10}, std::size_t{100}})
      compare(settings, stream, buffers, bytes);
}

}  // namespace benchmarks
