// SPDX-License-Identifier: Apache-2.0
#include <cstdint>
#include <string>

#include "tests/libtorch/both_devices/device_fixture.h"

// update() and recapture() of graphs of tensors, whose memory lies elsewhere in each capture.

namespace reprise::libtorch::test {
namespace {

class UpdatesOfTensors : public OnDevice {
 protected:
  Tensor filled(double value) const { return torch::full({rows_, rows_}, value, device_); }
  static constexpr std::int64_t rows_ = 16;
};

TEST_F(UpdatesOfTensors, TakeACopyFromMemoryOfAnotherPool) {
  Tensor x = filled(3), out = torch::empty_like(x);
  CUDAGraph graph, other;
  capture(graph, [&] { out.copy_(x * 2 + 1); });
  graph.replay();
  capture(other, [&] { out.copy_(x * 4 + 5); });
  graph.update(other);
  graph.replay();
  EXPECT_TRUE(same(out, torch::full({rows_, rows_}, 17.0F)));
}

TEST_F(UpdatesOfTensors, RecapturesAreMadeInPlaceAgainAndAgain) {
  Tensor x = filled(3), out = torch::empty_like(x);
  double factor = 2;
  const auto body = [&] { out.copy_(x * factor + 1); };
  CUDAGraph graph = capture(body);
  for (int i = 0; i < 25; ++i) {
    factor = i;
    const Recapture made = graph.recapture(body);
    ASSERT_TRUE(made.in_place) << i << ": " << made.reason;
    graph.replay();
    ASSERT_TRUE(same(out, torch::full({rows_, rows_}, static_cast<float>(3 * i + 1)))) << i;
  }
}

TEST_F(UpdatesOfTensors, TakeOtherInputsAndOutputs) {
  Tensor from = filled(3), to = filled(0), host_from = torch::full({rows_, rows_}, 5.0F).pin_memory(),
         host_to = torch::zeros({rows_, rows_}).pin_memory();
  const auto body = [&] {
    to.copy_(from);
    from.copy_(host_from, /*non_blocking=*/true);
    host_to.copy_(to, /*non_blocking=*/true);
    from.add_(1);
  };
  CUDAGraph graph = capture(body);
  graph.replay();
  // Memory of other segments, which need not be as large.
  const Tensor device_memory = torch::empty({4, 1 << 20}, device_),
               host_memory = torch::empty({4, 1 << 20}).pin_memory();
  const auto part_of = [](const Tensor& memory, std::int64_t which) {
    return memory.select(0, which).slice(0, 0, rows_ * rows_).view({rows_, rows_});
  };
  from = part_of(device_memory, 0).fill_(7);
  to = part_of(device_memory, 1).fill_(0);
  host_from = part_of(host_memory, 0).fill_(9);
  host_to = part_of(host_memory, 1).fill_(0);
  stream_.synchronize();
  const Recapture made = graph.recapture(body);
  EXPECT_TRUE(made.in_place) << made.reason;
  graph.replay();
  stream_.synchronize();
  EXPECT_TRUE(same(to, torch::full({rows_, rows_}, 7.0F)));
  EXPECT_TRUE(same(from, torch::full({rows_, rows_}, 10.0F)));
  EXPECT_TRUE(same(host_to, torch::full({rows_, rows_}, 7.0F)));
}

TEST_F(UpdatesOfTensors, NodesTakeOtherMemory) {
  REPRISE_CUDA_ONLY("on the host device a copy of tensors is a kernel");
  Tensor x = filled(3), out = torch::empty_like(x), other = filled(0);
  CUDAGraph graph = capture([&] { out.copy_(x); });
  graph.replay();
  const Parameter<float*> destination = graph.parameter(out.data_ptr<float>());
  graph.set(destination, other.data_ptr<float>());
  graph.replay();
  EXPECT_TRUE(same(other, torch::full({rows_, rows_}, 3.0F)));
}

}  // namespace
}  // namespace reprise::libtorch::test
