// SPDX-License-Identifier: Apache-2.0
#include "graph/resources/runtime_estimate.h"

#include <malloc.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdio>
#include <exception>
#include <string>
#include <vector>

#include "backend/check.h"
#include "backend/per_device.h"
#include "graph/capture/internal_streams.h"
#include "random/capture_draws.h"
#include "text/format.h"

namespace reprise::graphs {
namespace {

using backend::Backend;
using backend::Call;
using backend::Checked;
using backend::RelaxedCaptureMode;
using backend::WarnOnError;

// The free memory of a device changes in steps of 2 MiB: the batch of large graphs is to need several of them.
constexpr std::size_t large_nodes = 256, large_graphs = 64, small_graphs = 256;

/// Bytes in use.
struct InUse {
  double host = 0;
  double device = 0;
};

double resident_bytes() noexcept {
  std::FILE* const file = std::fopen("/proc/self/statm", "re");
  if (file == nullptr) return 0;
  unsigned long total = 0, resident = 0;
  const int read = std::fscanf(file, "%lu %lu", &total, &resident);
  std::fclose(file);
  return read == 2 ? static_cast<double>(resident) * static_cast<double>(::sysconf(_SC_PAGESIZE)) : 0;
}

// Returns the bytes allocated on the heap. Resident memory would not do: it does not grow where freed memory is reused.
double heap_bytes() noexcept {
  const struct mallinfo2 info = ::mallinfo2();
  return static_cast<double>(info.uordblks) + static_cast<double>(info.hblkhd);
}

/// The growth of memory from the construction on.
class Growth {
 public:
  explicit Growth(Backend& runtime)
      : runtime_(runtime), resident_(resident_bytes()), heap_(heap_bytes()), free_(free_bytes()) {}

  InUse so_far() const {
    const double host = std::max(resident_bytes() - resident_, heap_bytes() - heap_);
    return {std::max(host, 0.0), std::max(free_ - free_bytes(), 0.0)};
  }

 private:
  double free_bytes() const {
    MemoryInfo info;
    Checked(runtime_).memory_info(&info);
    return static_cast<double>(info.free);
  }

  Backend& runtime_;
  const double resident_, heap_, free_;
};

/// Templates, of kernels that never run, and their executables.
class Batch {
 public:
  explicit Batch(const Device& device) : runtime_(device.backend()), stream_(device) {
    Checked(runtime_).kernel_function(random::advance_record(), &kernel_.function);
    kernel_.params = pointers_.data();
  }
  ~Batch() {
    const WarnOnError runtime(runtime_);
    for (GraphExecHandle const each : executables_) runtime.graph_exec_destroy(each);
    for (GraphHandle const each : templates_) runtime.graph_destroy(each);
  }
  Batch(const Batch&) = delete;
  Batch& operator=(const Batch&) = delete;

  void make_templates(std::size_t graphs, std::size_t nodes) {
    const Checked runtime(runtime_);
    templates_.reserve(graphs);
    executables_.reserve(graphs);
    for (std::size_t i = 0; i < graphs; ++i) {
      GraphHandle graph = nullptr;
      runtime.graph_create(&graph);
      templates_.push_back(graph);
      backend::NodeParams params = kernel_;
      GraphNodeHandle last = nullptr;
      for (std::size_t node = 0; node < nodes; ++node) {
        const GraphNodeHandle before = last;
        runtime.graph_add_node(&last, graph, {&before, node == 0 ? 0U : 1U}, params);
      }
    }
  }
  // The upload allocates the memory of the device.
  void make_executables() {
    const Checked runtime(runtime_);
    for (GraphHandle const each : templates_) {
      GraphExecHandle made = nullptr;
      runtime.graph_instantiate(&made, each, InstantiateFlags::none, nullptr);
      executables_.push_back(made);
      runtime.graph_upload(made, stream_.ref().native());
    }
    runtime.stream_synchronize(stream_.ref().native());
  }

 private:
  Backend& runtime_;
  const InternalStream stream_;
  std::uint64_t* words_ = nullptr;
  random::Advance by_ = {};
  std::array<void*, 2> pointers_{&words_, &by_};
  backend::KernelNodeParams kernel_;
  std::vector<GraphHandle> templates_;
  std::vector<GraphExecHandle> executables_;
};

/// Bytes of a graph without nodes, and of each node.
struct Rate {
  double graph = 0;
  double node = 0;

  Rate() = default;
  Rate(double small, double large)
      : graph(0), node(std::max(large / large_graphs - small / small_graphs, 0.0) / (large_nodes - 1)) {
    graph = std::max(small / small_graphs - node, 0.0);
  }

  std::uint64_t of(std::size_t graphs, std::size_t nodes) const noexcept {
    return static_cast<std::uint64_t>(
        std::llround(graph * static_cast<double>(graphs) + node * static_cast<double>(nodes)));
  }
};

struct Rates {
  bool measured = false;
  Rate template_host, template_device, executable_host, executable_device;
};

struct BatchGrowth {
  InUse templates, executables;
};

BatchGrowth measure(const Device& device, std::size_t graphs, std::size_t nodes) {
  BatchGrowth grown;
  Batch batch(device);
  const Growth of_templates(device.backend());
  batch.make_templates(graphs, nodes);
  grown.templates = of_templates.so_far();
  const Growth of_executables(device.backend());
  batch.make_executables();
  grown.executables = of_executables.so_far();
  return grown;
}

void measure(const Device& device, Rates& rates) {
  const RelaxedCaptureMode relaxed(device.backend());
  measure(device, 1, 1);  // what the first graph of a process allocates stays out of it
  const BatchGrowth small = measure(device, small_graphs, 1);
  const BatchGrowth large = measure(device, large_graphs, large_nodes);
  rates.template_host = {small.templates.host, large.templates.host};
  rates.template_device = {small.templates.device, large.templates.device};
  rates.executable_host = {small.executables.host, large.executables.host};
  rates.executable_device = {small.executables.device, large.executables.device};
  rates.measured = true;
}

}  // namespace

GraphMemoryEstimate estimate_of(const Device& device, const GraphCounts& counts) {
  Rates rates = backend::PerDevice<Rates>::use(device, [](const Rates& known) { return known; });
  if (!rates.measured) {
    try {
      measure(device, rates);
      backend::PerDevice<Rates>::use(device, [&](Rates& known) { known = rates; });
    } catch (const std::exception& error) {
      rates = {};
      warn(
          text::format("The memory of {} that graphs need could not be measured: {}. The estimate is 0; the next call "
                       "measures again.",
                       device.str(), error.what()));
    }
  }
  GraphMemoryEstimate estimate;
  estimate.template_host_bytes = rates.template_host.of(counts.templates, counts.template_nodes);
  estimate.template_device_bytes = rates.template_device.of(counts.templates, counts.template_nodes);
  estimate.executable_host_bytes = rates.executable_host.of(counts.executables, counts.executable_nodes);
  estimate.executable_device_bytes = rates.executable_device.of(counts.executables, counts.executable_nodes);
  return estimate;
}

}  // namespace reprise::graphs
