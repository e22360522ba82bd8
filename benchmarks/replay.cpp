// SPDX-License-Identifier: Apache-2.0
// The cost of a step of many small kernels: each kernel launched by itself, by reprise::launch() and by <<<>>>, the
// step replayed as a graph, and the same executable graph launched by a bare call of the device runtime. Also of dearer
// replays: a graph whose handles are accessible (KeepGraph::yes), and a foreign stream, whose destruction is not
// notified to the library.

#include <algorithm>
#include <array>
#include <functional>
#include <memory>
#include <vector>

#include "backend/backend.h"
#include "backend/check.h"
#include "small_kernels.h"
#include "submit.h"
#include "support.h"

namespace benchmarks {
namespace {

using reprise::StreamRef;
using reprise::backend::Checked;

/// Times of steps, in us each: until the host has submitted them, and until the device is done.
using Cost = std::array<double, 2>;

/// A foreign stream: its destruction is not notified to the library.
class ForeignStream {
 public:
  explicit ForeignStream(reprise::Device device) : device_(device) {
    Checked(device_.backend()).stream_create(&handle_, reprise::backend::StreamFlags::non_blocking, 0);
  }
  ~ForeignStream() { reprise::backend::WarnOnError(device_.backend()).stream_destroy(handle_); }
  ForeignStream(const ForeignStream&) = delete;
  ForeignStream& operator=(const ForeignStream&) = delete;
  StreamRef ref() const { return StreamRef(device_, handle_); }

 private:
  reprise::Device device_;
  reprise::StreamHandle handle_ = nullptr;
};

/// A burst of steps follow each other without a pause, then the device is waited for: a longer burst would fill the
/// queue of the stream, and the host would wait in its launches.
Cost measure(unsigned bursts, unsigned steps, const StreamRef& stream, const std::function<void()>& step) {
  double submit = 0, done = 0;
  step();  // not measured: what the side before left in the caches would count
  for (unsigned burst = 0; burst < bursts; ++burst) {
    stream.synchronize();
    done += seconds([&] {
      submit += seconds([&] {
        for (unsigned i = 0; i < steps; ++i) step();
      });
      stream.synchronize();
    });
  }
  return {1e6 * submit / bursts / steps, 1e6 * done / bursts / steps};
}

constexpr unsigned branches = 4;

using LaunchKernels = void (*)(unsigned count, float* values);

/// A step of small kernels, one after another, or in branches on streams that fork from the current one and join it.
class Step {
 public:
  Step(const Settings& settings, unsigned kernels, bool forked, LaunchKernels launch)
      : kernels_(kernels), launch_(launch) {
    for (unsigned i = 0; i < (forked ? branches : 1); ++i) {
      values_.emplace_back(small_kernel_values).fill_bytes_async(0);
      if (i > 0) side_.push_back(std::make_unique<reprise::Stream>(settings.device));
    }
  }

  void operator()() {
    const StreamRef here = reprise::current_stream();
    const auto count = static_cast<unsigned>(values_.size());
    for (const auto& each : side_) each->wait(here);
    for (unsigned i = 0; i < count; ++i) {
      const reprise::StreamGuard guard(i == 0 ? here : side_[i - 1]->ref());
      launch_(kernels_ * (i + 1) / count - kernels_ * i / count, values_[i].data());
    }
    for (const auto& each : side_) here.wait(*each);
  }

 private:
  const unsigned kernels_;
  const LaunchKernels launch_;
  std::vector<reprise::Buffer<float>> values_;
  std::vector<std::unique_ptr<reprise::Stream>> side_;
};

void compare(const Settings& settings, const StreamRef& stream, unsigned kernels, bool forked, Table& table) {
  Step step(settings, kernels, forked, &launch_small_kernels),
      plain_step(settings, kernels, forked, &launch_plain_kernels);
  const std::function<void()> eager = [&] { step(); };
  const bool is_plain = settings.device.type() == reprise::DeviceType::cuda && !nvcc_release().empty();
  const std::function<void()> plain = [&] { plain_step(); };
  reprise::CUDAGraph graph, kept(reprise::KeepGraph::yes);
  reprise::capture(graph, eager);
  reprise::capture(kept, eager);
  const ForeignStream foreign(settings.device);
  const std::function<void()> bare = bare_launch(settings.device, graph.raw_cuda_graph_exec(), stream.native());

  const unsigned steps = kernels < 1000 ? 20 : kernels == 1000 ? 5 : 2;
  const unsigned bursts = kernels > 1000 ? 3 : std::clamp(2000 / kernels, 10U, 50U);
  const unsigned eager_steps = std::clamp(2000 / kernels, 1U, steps);
  const std::function<Cost()> sides[] = {
      [&] { return measure(bursts, eager_steps, stream, eager); },
      [&] { return measure(bursts, steps, stream, [&] { graph.replay(); }); },
      [&] { return measure(bursts, steps, stream, bare); },
      [&] { return measure(bursts, steps, stream, [&] { kept.replay(); }); },
      [&] { return measure(bursts, steps, foreign.ref(), [&] { graph.replay(foreign.ref()); }); },
      [&] { return is_plain ? measure(bursts, eager_steps, stream, plain) : Cost{}; },
  };
  const auto us = medians_of<2>(settings, std::size(sides), [&](std::size_t side) { return sides[side](); });
  const double over = us[1][0] - us[2][0];
  const bool within = over <= std::max(0.05 * us[2][0], 0.06);
  const auto of_plain = [&](double time) { return is_plain ? Cell(time) : Cell(); };
  table.row({forked ? "4 branches" : "straight", 1.0 * kernels, of_plain(us[5][0]), us[0][0], us[1][0], us[2][0],
             1e3 * over, 100 * over / us[2][0], within ? "yes" : "no", us[3][0], us[4][0], of_plain(us[5][1]), us[0][1],
             us[1][1], us[2][1]});
}

}  // namespace

void replay(const Settings& settings) {
  const reprise::Stream stream(settings.device);
  const reprise::StreamGuard guard(stream);
  Table table(
      settings, "replay",
      "A step of small kernels: the host's part, then until the device is done. Eager kernels are launched by <<<>>> "
      "and by reprise::launch(). \"bare\" is the runtime's launch of the same executable; at most 5 % or 60 ns over it "
      "are allowed",
      {{"shape", "", 0, 10},
       {"kernels", "", 0},
       {"<<<>>>", "us"},
       {"launch()", "us"},
       {"replay", "us"},
       {"bare", "us"},
       {"over bare", "ns", 0},
       {"over bare", "%", 1},
       {"allowed"},
       {"KeepGraph", "us"},
       {"foreign stream", "us"},
       {"<<<>>>, done", "us"},
       {"launch(), done", "us"},
       {"replay, done", "us"},
       {"bare, done", "us"}});
  for (const unsigned kernels : {1U, 10U, 100U, 1000U, 5000U}) compare(settings, stream, kernels, false, table);
  for (const unsigned kernels : {10U, 100U, 1000U, 5000U}) compare(settings, stream, kernels, true, table);
}

}  // namespace benchmarks
