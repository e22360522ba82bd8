// SPDX-License-Identifier: Apache-2.0
#include <nccl.h>

#include <optional>
#include <vector>

#include "tests/cuda_libraries/cuda_test.h"

// NCCL in captures, one process for all devices.

namespace reprise::test {
namespace {

constexpr std::size_t values_of_rank = 10000;

// One rank for each device: communicator, stream and buffers.
struct Ranks {
  explicit Ranks(const std::vector<Device>& devices) : communicators(devices.size()) {
    std::vector<int> indices;
    for (const Device device : devices) {
      indices.push_back(device.index());
      streams.emplace_back(device);
      in.emplace_back(values_of_rank, streams.back());
      out.emplace_back(values_of_rank, streams.back());
    }
    EXPECT_EQ(ncclCommInitAll(communicators.data(), static_cast<int>(indices.size()), indices.data()), ncclSuccess);
  }
  ~Ranks() {
    for (const ncclComm_t communicator : communicators) EXPECT_EQ(ncclCommDestroy(communicator), ncclSuccess);
  }
  Ranks(const Ranks&) = delete;
  Ranks& operator=(const Ranks&) = delete;

  std::size_t count() const { return communicators.size(); }

  // From and back to the first stream, which may be capturing.
  void all_reduce(const StreamRef& first) {
    for (std::size_t i = 1; i < count(); ++i) streams[i].wait(first);
    EXPECT_EQ(ncclGroupStart(), ncclSuccess);
    for (std::size_t i = 0; i < count(); ++i) {
      const StreamHandle stream = i == 0 ? first.native() : streams[i].native();
      EXPECT_EQ(
          ncclAllReduce(in[i].data(), out[i].data(), values_of_rank, ncclFloat, ncclSum, communicators[i], stream),
          ncclSuccess);
    }
    EXPECT_EQ(ncclGroupEnd(), ncclSuccess);
    for (std::size_t i = 1; i < count(); ++i) first.wait(streams[i]);
  }

  // Inputs for a round, and nothing of an earlier one in the outputs; there when it returns.
  void prepare(unsigned round) {
    for (std::size_t i = 0; i < count(); ++i) {
      in[i].write_async(whole_numbers(values_of_rank, seed(round, i)), streams[i]);
      out[i].fill_bytes_async(0xff, streams[i]);
    }
    for (const Stream& stream : streams) stream.synchronize();
  }
  void expect_sums(unsigned round) const {
    std::vector<float> sums(values_of_rank, 0);
    for (std::size_t i = 0; i < count(); ++i) {
      const std::vector<float> part = whole_numbers(values_of_rank, seed(round, i));
      for (std::size_t k = 0; k < values_of_rank; ++k) sums[k] += part[k];
    }
    for (std::size_t i = 0; i < count(); ++i) {
      std::vector<float> found(values_of_rank);
      out[i].read_async(found, streams[i]);
      streams[i].synchronize();
      EXPECT_EQ(found, sums) << "rank " << i;
    }
  }
  static unsigned seed(unsigned round, std::size_t rank) { return 100 * round + static_cast<unsigned>(rank); }

  std::vector<ncclComm_t> communicators;
  std::vector<Stream> streams;
  std::vector<Buffer<float>> in, out;
};

class Nccl : public CudaTest {
 protected:
  static void expect_replays(const std::vector<Device>& devices) {
    Ranks ranks(devices);
    const StreamRef stream = ranks.streams.front();
    // The first time NCCL connects the ranks, and allocates.
    ranks.prepare(1);
    ranks.all_reduce(stream);
    stream.synchronize();
    ranks.expect_sums(1);

    GraphOptions options;
    options.stream = stream;
    options.capture_error_mode = CaptureMode::thread;  // NCCL has threads of its own
    CUDAGraph graph;                                   // gone before the communicators, which it uses
    capture(graph, options, [&] { ranks.all_reduce(stream); });
    for (unsigned round = 2; round < 6; ++round) {
      ranks.prepare(round);
      graph.replay(stream);
      stream.synchronize();
      ranks.expect_sums(round);
    }
  }
};

TEST_F(Nccl, ACapturedAllReduceOfOneRankIsReplayed) {
  expect_replays({device()});
}

TEST_F(Nccl, ACapturedAllReduceOverTwoDevicesIsReplayed) {
  const std::vector<Device> found = cuda_devices();
  if (found.size() < 2) GTEST_SKIP() << "needs two CUDA devices";
  expect_replays({found[0], found[1]});
}

}  // namespace
}  // namespace reprise::test
