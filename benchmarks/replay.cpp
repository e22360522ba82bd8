// SPDX-License-Identifier: Apache-2.0
// The cost of a step of many small kernels: each kernel launched by itself, the step replayed as a graph, and the same
// executable graph launched by a bare call of the device runtime. Also of dearer replays: a graph whose handles are
// accessible (KeepGraph::yes), and a foreign stream, whose destruction is not notified to the library.

#include <algorithm>
#include <functional>
#include <iterator>

#include "backend/backend.h"
#include "backend/check.h"
#include "small_kernels.h"
#include "submit.h"
#include "support.h"

namespace benchmarks {
namespace {

using reprise::StreamRef;
using reprise::backend::Checked;

/// Both in seconds a step.
struct Cost {
  Samples submit;  ///< until the host has submitted the step
  Samples done;    ///< until the device is done
};

/// A foreign stream: its destruction is not notified to the library.
class ForeignStream {
 public:
  explicit ForeignStream(reprise::Device device) : device_(device) {
    Checked(device_.backend()).stream_create(&handle_, reprise::backend::StreamFlags::non_blocking, 0);
  }
  ~ForeignStream() { device_.backend().stream_destroy(handle_); }
  ForeignStream(const ForeignStream&) = delete;
  ForeignStream& operator=(const ForeignStream&) = delete;
  StreamRef ref() const { return StreamRef(device_, handle_); }

 private:
  reprise::Device device_;
  reprise::StreamHandle handle_ = nullptr;
};

/// A burst of steps follow each other without a pause, then the device is waited for: a longer burst would fill the
/// queue of the stream, and the host would wait in its launches.
template <class F>
void measure(Cost& cost, unsigned bursts, unsigned steps, const StreamRef& stream, F&& step) {
  double submit = 0, done = 0;
  for (unsigned burst = 0; burst < bursts; ++burst) {
    stream.synchronize();
    done += seconds([&] {
      submit += seconds([&] {
        for (unsigned i = 0; i < steps; ++i) step();
      });
      stream.synchronize();
    });
  }
  cost.submit.add(submit / bursts / steps);
  cost.done.add(done / bursts / steps);
}

void compare(const Settings& settings, const StreamRef& stream, unsigned kernels) {
  reprise::Buffer<float> values(small_kernel_values);
  values.fill_bytes_async(0);
  const auto eager = [&] { launch_small_kernels(kernels, values.data()); };
  reprise::CUDAGraph graph;
  reprise::capture(graph, eager);
  const std::function<void()> bare = bare_launch(settings.device, graph.raw_cuda_graph_exec(), stream.native());
  const std::function<void()> replayed = [&] { graph.replay(); };
  reprise::CUDAGraph kept_graph(reprise::KeepGraph::yes);
  reprise::capture(kept_graph, eager);
  const std::function<void()> replayed_kept = [&] { kept_graph.replay(); };
  const ForeignStream foreign_stream(settings.device);
  const StreamRef foreign = foreign_stream.ref();
  const std::function<void()> replayed_on_foreign = [&] { graph.replay(foreign); };

  const unsigned steps = kernels < 1000 ? 20 : 5;
  const unsigned bursts = std::clamp(2000 / kernels, 10U, 50U);
  Cost by_launches, by_replay, by_runtime, by_kept, by_foreign;
  const std::function<void()> turns[] = {
      [&] { measure(by_launches, bursts, std::min(steps, 2000 / kernels), stream, eager); },
      [&] { measure(by_replay, bursts, steps, stream, replayed); },
      [&] { measure(by_runtime, bursts, steps, stream, bare); },
      [&] { measure(by_kept, bursts, steps, stream, replayed_kept); },
      [&] { measure(by_foreign, bursts, steps, foreign, replayed_on_foreign); },
  };
  // The first round warms up and is discarded.
  for (unsigned round = 0; round <= settings.rounds; ++round) {
    if (round == 1) by_launches = by_replay = by_runtime = by_kept = by_foreign = {};
    for (unsigned i = 0; i < std::size(turns); ++i) turns[turn_of(round, i, std::size(turns))]();
  }
  const auto us = [](const Samples& samples) { return 1e6 * samples.median(); };
  const double over = us(by_replay.submit) - us(by_runtime.submit);
  const bool within = over <= std::max(0.05 * us(by_runtime.submit), 0.06);
  print(
      "{:>7}  {:>10.2f} {:>10.2f} {:>10.2f} {:>+8.0f} ns {:>+6.1f} % {:>6} {:>10.2f} {:>10.2f}  {:>10.2f} {:>10.2f} "
      "{:>10.2f}\n",
      kernels, us(by_launches.submit), us(by_replay.submit), us(by_runtime.submit), 1e3 * over,
      100 * over / us(by_runtime.submit), within ? "yes" : "no", us(by_kept.submit), us(by_foreign.submit),
      us(by_launches.done), us(by_replay.done), us(by_runtime.done));
}

}  // namespace

void replay(const Settings& settings) {
  const reprise::Stream stream(settings.device);
  const reprise::StreamGuard guard(stream);
  print("A step of small kernels, us a step; \"bare\" is the runtime's graph launch of the same executable graph\n");
  print("{:>7}  {:^83}  {:^32}\n", "", "the host's part", "until the device is done");
  print("{:>7}  {:>10} {:>10} {:>10} {:>29} {:>10} {:>10}  {:>10} {:>10} {:>10}\n", "kernels", "eager", "replay",
        "bare", "replay over bare, allowed?", "KeepGraph", "foreign", "eager", "replay", "bare");
  for (const unsigned kernels : {1U, 10U, 100U, 1000U}) compare(settings, stream, kernels);
}

}  // namespace benchmarks
