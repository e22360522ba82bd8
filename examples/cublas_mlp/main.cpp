// SPDX-License-Identifier: Apache-2.0
// A small network on cuBLAS, captured once for each batch size, as in a server with requests of any size. The graphs
// share one memory pool, and so one workspace of cuBLAS. Shows that each has the same results as eager work and the
// host, the cost of both, and how little memory one more graph takes. For CUDA devices only.

#include <algorithm>
#include <cmath>
#include <deque>
#include <string>
#include <vector>

#include "mlp.h"
#include "reprise/reprise.h"
#include "support/program.h"

namespace mlp {
namespace {

using example::microseconds;
using example::say;

constexpr unsigned batches[] = {1, 2, 4, 8, 16, 32, 64, 128};

double mib(double bytes) {
  return bytes / (1 << 20);
}

/// The largest difference of two results, relative to the largest value.
double difference(const std::vector<float>& a, const std::vector<float>& b) {
  double largest = 0, apart = 0;
  for (std::size_t i = 0; i < a.size(); ++i) {
    largest = std::max(largest, std::abs(static_cast<double>(b[i])));
    const double distance = std::abs(static_cast<double>(a[i]) - b[i]);
    if (!(distance <= apart)) apart = distance;  // true for NaN, too
  }
  return apart / largest;
}

/// One graph: the network for one size of a batch.
struct Captured {
  explicit Captured(unsigned batch) : activations(batch) {}

  Network::Activations activations;
  reprise::CUDAGraph graph;
};

/// Runs it both ways, and prints a row of the table. True if all results are right.
bool show(Captured& captured, const Network& network, reprise::CublasHandle& blas, double pool_bytes) {
  Network::Activations& activations = captured.activations;
  const unsigned batch = activations.columns;
  const std::vector<float> input = random_values(activations.values[0].size(), 1000 + batch);
  activations.values[0].write_async(input);
  network.forward(blas, activations);
  const std::vector<float> eager = activations.values[Network::layers].read();
  activations.values[Network::layers].fill_bytes_async(0xff);
  captured.graph.replay();
  const std::vector<float> replayed = activations.values[Network::layers].read();
  const double to_eager = difference(replayed, eager);
  const double to_host = difference(replayed, network.forward_on_host(input, batch));

  constexpr unsigned calls = 500;
  const double eager_time = microseconds(calls, [&] { network.forward(blas, activations); });
  const double replay_time = microseconds(calls, [&] { captured.graph.replay(); });
  say("{:>5} {:>7} {:>10.1f} us {:>10.1f} us {:>12.1e} {:>12.1e} {:>10.1f} MiB\n", batch, captured.graph.node_count(),
      eager_time, replay_time, to_eager, to_host, mib(pool_bytes));
  return to_eager < 1e-5 && to_host < 1e-5;
}

bool run(const std::string& name) {
  example::require_cuda_devices("cuBLAS");
  const reprise::Device device = example::parse_device(name);
  if (device.type() != reprise::DeviceType::cuda)
    throw example::InputError("--device: cuBLAS has no kernels for the simulated host device; name a CUDA device");
  if (cudaSetDevice(device.index()) != cudaSuccess) throw reprise::Error("cudaSetDevice failed");  // required by cuBLAS
  const reprise::Stream stream(device);
  const reprise::StreamGuard guard(stream);

  reprise::CublasHandle blas;  // before any capture
  const Network network(1);
  say("device     {} ({})\n", device.str(), device.name());
  say("workspace  {:.0f} MiB for each captured stream\n\n", mib(static_cast<double>(blas.workspace_bytes())));

  reprise::GraphOptions options;
  options.pool = reprise::graph_pool_handle();  // one for all of them: they never run at the same time
  const auto& allocator = reprise::CachingAllocator::of(device);
  std::deque<Captured> all;  // all stay alive
  bool right = true;
  say("batch   nodes         eager      replayed     to eager      to host       pool\n");
  for (const unsigned batch : batches) {
    Captured& captured = all.emplace_back(batch);
    network.forward(blas, captured.activations);  // cuBLAS loads kernels at their first use: not in a capture
    captured.graph = reprise::capture(options, [&] { network.forward(blas, captured.activations); });
    right &= show(captured, network, blas, static_cast<double>(allocator.statistics(options.pool).reserved_bytes));
  }
  const double bytes = static_cast<double>(allocator.statistics(options.pool).reserved_bytes);
  say("\n{} graphs, all alive, hold {:.1f} MiB in one pool: {:.1f} MiB for each.\n"
      "Differences are parts of the largest output. {}\n",
      all.size(), mib(bytes), mib(bytes) / static_cast<double>(all.size()),
      right ? "All results are right." : "Some results are WRONG.");
  return right;
}

}  // namespace
}  // namespace mlp

int main(int argc, char** argv) {
  std::string device = "cuda";
  CLI::App app("A small network on cuBLAS, captured for several sizes of a batch into graphs that share memory.",
               "cublas_mlp");
  app.add_option("--device", device, "Where to run: cuda, cuda:1, ...")->capture_default_str()->type_name("DEVICE");
  return example::run(app, argc, argv, [&] { return mlp::run(device); });
}
