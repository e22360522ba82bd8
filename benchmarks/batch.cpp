// SPDX-License-Identifier: Apache-2.0
// The cost of copying many buffers: one copy each, and all of them as a batch, submitted each time and replayed as a
// graph.

#include <array>
#include <functional>
#include <iterator>

#include "support.h"

namespace benchmarks {
namespace {

/// In us a step: until the host has submitted it, and until the device is done.
std::array<double, 2> measure(const reprise::StreamRef& stream, const std::function<void()>& step) {
  constexpr unsigned steps = 10;
  double submit = 0;
  stream.synchronize();
  const double done = seconds([&] {
    submit = seconds([&] {
      for (unsigned i = 0; i < steps; ++i) step();
    });
    stream.synchronize();
  });
  return {1e6 * submit / steps, 1e6 * done / steps};
}

void compare(const Settings& settings, const reprise::StreamRef& stream, std::size_t buffers, std::size_t bytes,
             Table& table) {
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

  const std::function<void()> steps[] = {separately, together, [&] { of_copies.replay(); }, [&] { of_batch.replay(); }};
  const auto us =
      medians_of<2>(settings, std::size(steps), [&](std::size_t side) { return measure(stream, steps[side]); });
  std::vector<Cell> cells{static_cast<double>(buffers), static_cast<double>(bytes)};
  for (const auto& side : us) cells.insert(cells.end(), side.begin(), side.end());
  table.row(cells);
}

}  // namespace

void batch(const Settings& settings) {
  const reprise::Stream stream(settings.device);
  const reprise::StreamGuard guard(stream);
  Table table(settings, "batch", "Copying many buffers on the device: the host's part, and until the device is done",
              {{"buffers", "", 0},
               {"bytes each", "", 0},
               {"a copy each", "us"},
               {"done", "us"},
               {"a batch", "us"},
               {"done", "us"},
               {"graph of copies", "us"},
               {"done", "us"},
               {"graph of a batch", "us"},
               {"done", "us"}});
  for (const std::size_t bytes : {std::size_t{4} << 10, std::size_t{1} << 20})
    for (const std::size_t buffers : {std::size_t{2}, std::size_t{10}, std::size_t{100}})
      compare(settings, stream, buffers, bytes, table);
}

}  // namespace benchmarks
