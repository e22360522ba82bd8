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
  const std::vector<double> us =
      medians(settings, sides.size(), [&](std::size_t side) { return 1e6 * submit_seconds(stream, sides[side]); });
  Table table(settings, "liveness",
              fmt::format("Replays of {} small kernels on {} inputs, the host's part", input_count, input_count),
              {{"", "", 0, 36}, {"bare", "us"}, {"replay", "us"}, {"over bare", "ns", 0}});
  const char* const names[] = {"not checked", "checked, memory of the allocator",
                               "checked, memory of the driver (all)"};
  for (std::size_t i = 0; i < graphs.size(); ++i)
    table.row({names[i], us[2 * i], us[2 * i + 1], 1e3 * (us[2 * i + 1] - us[2 * i])});
}

}  // namespace benchmarks
