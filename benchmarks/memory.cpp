// SPDX-License-Identifier: Apache-2.0
// The memory of a live graph beside that of the same raw graph, of host and device: each side in a process of its own,
// which makes many graphs and keeps them.

#include "memory.h"

#include <unistd.h>

#include <charconv>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <functional>
#include <stdexcept>
#include <string>
#include <string_view>
#include <vector>

#include "backend/backend.h"
#include "backend/check.h"
#include "small_kernels.h"
#include "support.h"

namespace benchmarks {
namespace {

using reprise::backend::Checked;

constexpr std::string_view measures = "--measure-memory";
constexpr double limit = 5 * 1024;  // bytes that a graph may need beyond the raw one, of host and of device each

/// What is made.
enum class Side { reprise, raw, reprise_without_template, raw_without_template };

/// Bytes of a graph: what the processes print.
struct Bytes {
  double host = 0, device = 0;
};

Bytes in_use(const reprise::Device& device) {
  std::ifstream file("/proc/self/statm");
  std::uint64_t total = 0, resident = 0;
  file >> total >> resident;
  const reprise::MemoryInfo info = device.memory_info();
  return {static_cast<double>(resident) * 4096, static_cast<double>(info.total - info.free)};
}

/// Makes a graph, which is launched once, as that is when a driver allocates the memory of the device.
void make_graph(Side side, const reprise::StreamRef& stream, const std::function<void()>& body,
                std::vector<reprise::CUDAGraph>& graphs) {
  if (side == Side::reprise || side == Side::reprise_without_template) {
    graphs.push_back(reprise::capture({.discard_template = side == Side::reprise_without_template}, body));
    graphs.back().replay(stream);
    return;
  }
  const Checked runtime(stream.device().backend());
  reprise::GraphHandle made = nullptr;
  reprise::GraphExecHandle exec = nullptr;  // both are kept until the process ends
  runtime.stream_begin_capture(stream.native(), reprise::CaptureMode::thread);
  body();
  runtime.stream_end_capture(stream.native(), &made);
  runtime.graph_instantiate(&exec, made, reprise::InstantiateFlags::none, nullptr);
  if (side == Side::raw_without_template) runtime.graph_destroy(made);
  runtime.graph_launch(exec, stream.native());
}

void measure_side(Side side, unsigned kernels, unsigned graphs) {
  const reprise::Device device = reprise::default_device();
  const reprise::Stream stream(device);
  const reprise::StreamGuard guard(stream);
  reprise::Buffer<float> values(small_kernel_values);
  const std::function<void()> body = [&] { launch_small_kernels(kernels, values.data()); };
  std::vector<reprise::CUDAGraph> kept;
  kept.reserve(2 * graphs);
  const auto make = [&](unsigned count) {
    for (unsigned i = 0; i < count; ++i) make_graph(side, stream, body, kept);
    stream.synchronize();
  };
  make(graphs / 10);  // what the first ones allocate for all
  const Bytes before = in_use(device);
  make(graphs);
  const Bytes now = in_use(device);
  std::printf("%.1f %.1f\n", (now.host - before.host) / graphs, (now.device - before.device) / graphs);
  std::fflush(stdout);
  std::_Exit(0);  // the end of so many graphs takes longer than all of it
}

// Runs the same program again, by its path: a child of fork() could not use CUDA.
Bytes bytes_of(Side side, unsigned kernels, unsigned graphs) {
  const std::string command =
      fmt::format("exec /proc/{}/exe {} {} {} {}", ::getpid(), measures, static_cast<int>(side), kernels, graphs);
  std::FILE* const process = ::popen(command.c_str(), "re");
  if (process == nullptr) throw std::runtime_error("cannot start " + command);
  Bytes bytes;
  const int read = std::fscanf(process, "%lf %lf", &bytes.host, &bytes.device);
  if (::pclose(process) != 0 || read != 2) throw std::runtime_error(command + " failed");
  return bytes;
}

}  // namespace

std::optional<int> measure_memory(int argc, char** argv) {
  if (argc != 5 || argv[1] != measures) return std::nullopt;
  unsigned numbers[3] = {};
  for (int i = 0; i < 3; ++i) {
    const std::string_view text(argv[2 + i]);
    std::from_chars(text.data(), text.data() + text.size(), numbers[i]);
  }
  try {
    measure_side(static_cast<Side>(numbers[0]), numbers[1], numbers[2]);
  } catch (const std::exception& error) {
    std::fprintf(stderr, "%s\n", error.what());
  }
  return 1;
}

void memory(const Settings& settings) {
  Table table(settings, "memory",
              fmt::format("Memory of a live graph of small kernels beside that of the raw one; at most {:.0f} bytes "
                          "more are allowed of each",
                          limit),
              {{"kernels", "", 0},
               {"template", "", 0},
               {"host", "bytes", 0},
               {"raw", "bytes", 0},
               {"more", "bytes", 0},
               {"device", "bytes", 0},
               {"raw", "bytes", 0},
               {"more", "bytes", 0}});
  bool exceeded = false;
  for (const unsigned kernels : {1U, 20U, 100U}) {
    // The free memory of a device changes in steps of 2 MiB: with 2000 graphs, of 1 KiB for each.
    const unsigned graphs = settings.rounds == 1 ? 1000 : kernels == 100 ? 2000 : 4000;
    for (const bool kept : {true, false}) {
      const Bytes ours = bytes_of(kept ? Side::reprise : Side::reprise_without_template, kernels, graphs);
      const Bytes raw = bytes_of(kept ? Side::raw : Side::raw_without_template, kernels, graphs);
      const Bytes beyond{ours.host - raw.host, ours.device - raw.device};
      exceeded = exceeded || beyond.host > limit || beyond.device > limit;
      table.row({1.0 * kernels, kept ? "kept" : "discarded", ours.host, raw.host, beyond.host, ours.device, raw.device,
                 beyond.device});
    }
  }
  if (exceeded) throw std::runtime_error(fmt::format("a graph needs more than {} bytes beyond the raw one", limit));
}

}  // namespace benchmarks
