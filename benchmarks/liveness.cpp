// SPDX-License-Identifier: Apache-2.0
// The cost of input checks per replay: a graph of ten small kernels, each on its own buffer, replayed without a check,
// with one, and with one of ten allocations of the driver; and bare launches of these executables.

#include <array>
#include <functional>
#include <memory>

#include "backend/backend.h"
#include "backend/check.h"
#include "small_kernels.h"
#include "submit.h"
#include "support.h"

namespace benchmarks {
namespace {

constexpr std::size_t input_count = 10;

/// Memory that is not from the allocator.
class DriverMemory {
 public:
  explicit DriverMemory(reprise::Device device) : backend_(device.backend()) {
    void* memory = nullptr;
    reprise::backend::Checked(backend_).memory_allocate(&memory, small_kernel_values * sizeof(float));
    values_ = static_cast<float*>(memory);
  }
  ~DriverMemory() { reprise::backend::WarnOnError(backend_).memory_free(values_); }
  DriverMemory(const DriverMemory&) = delete;
  DriverMemory& operator=(const DriverMemory&) = delete;
  float* data() const { return values_; }

 private:
  reprise::backend::Backend& backend_;
  float* values_ = nullptr;
};

}  // namespace

void liveness(const Settings& settings) {
  const reprise::Stream stream(settings.device);
  const reprise::StreamGuard guard(stream);
  std::vector<reprise::Buffer<float>> buffers;
  std::vector<std::unique_ptr<DriverMemory>> of_driver;
  std::vector<float*> ours, foreign;
  for (std::size_t i = 0; i < input_count; ++i) {
    ours.push_back(buffers.emplace_back(small_kernel_values).data());
    foreign.push_back(of_driver.emplace_back(std::make_unique<DriverMemory>(settings.device))->data());
    for (float* values : {ours[i], foreign[i]}) reprise::fill_async(values, 0, small_kernel_values * sizeof(float));
  }
  const auto use = [](const std::vector<float*>& inputs) {
    return [&inputs] {
      for (float* values : inputs) launch_small_kernels(1, values);
    };
  };
  reprise::GraphOptions check, check_all;
  check.check_input_liveness = check_all.check_input_liveness = true;
  check_all.inputs.scope = reprise::Liveness::all;
  std::array<reprise::CUDAGraph, 3> graphs;
  reprise::capture(graphs[0], use(ours));
  reprise::capture(graphs[1], check, use(ours));
  reprise::capture(graphs[2], check_all, use(foreign));

  std::vector<std::function<void()>> sides;
  for (reprise::CUDAGraph& graph : graphs) {
    sides.push_back(bare_launch(settings.device, graph.raw_cuda_graph_exec(), stream.native()));
    sides.emplace_back([&graph] { graph.replay(); });
  }
  std::vector<Samples> samples(sides.size());
  for (unsigned round = 0; round <= settings.rounds; ++round)
    for (std::size_t i = 0; i < sides.size(); ++i) {
      const std::size_t side = turn_of(round, i, sides.size());
      const double took = submit_seconds(stream, sides[side]);
      if (round > 0) samples[side].add(took);  // the first one warms up
    }
  print("Replays of {} small kernels on {} inputs, the host's part, us a replay\n", input_count, input_count);
  print("{:<46} {:>8} {:>8} {:>12}\n", "", "bare", "replay", "over bare");
  const char* const names[] = {"not checked", "checked, memory of the allocator",
                               "checked, memory of the driver (all)"};
  for (std::size_t i = 0; i < graphs.size(); ++i) {
    const double bare = 1e6 * samples[2 * i].median(), replayed = 1e6 * samples[2 * i + 1].median();
    print("{:<46} {:>8.2f} {:>8.2f} {:>+9.0f} ns\n", names[i], bare, replayed, 1e3 * (replayed - bare));
  }
}

}  // namespace benchmarks
