// SPDX-License-Identifier: Apache-2.0
#include "tests/libtorch/both_devices/device_fixture.h"

// GraphOptions::check_frozen_values with tensors.

namespace reprise::libtorch::test {
namespace {

using ::testing::IsEmpty;
using ::testing::Not;

class FrozenValuesOfTensors : public OnDevice {
 protected:
  std::vector<FrozenValue> refused(const std::function<void()>& body) {
    try {
      capture(graph_, {.warmup = 1, .check_frozen_values = [this] { ++i_; }}, body);
    } catch (const FrozenValuesError& error) {
      return error.values();
    }
    return {};
  }

  Tensor x_ = here(torch::zeros({64}));
  std::int64_t i_ = 0;
  CUDAGraph graph_;
};

TEST_F(FrozenValuesOfTensors, NameTheOperatorThatReadsAnotherSliceEachTime) {
  const std::vector<FrozenValue> values = refused([&] { x_.slice(0, 4 * i_, 4 * i_ + 4).add_(1); });
  ASSERT_THAT(values, Not(IsEmpty()));
  EXPECT_EQ(values[0].operator_name, "aten::add_");
  EXPECT_THAT(values[0].first_memory, ::testing::StartsWith(device_.is_cuda() ? "" : "offset 0 of"));
}

TEST_F(FrozenValuesOfTensors, ANumberOfAnOperatorIsFoundOnCuda) {
  REPRISE_CUDA_ONLY("the nodes of the host device hold a function object");
  const std::vector<FrozenValue> values = refused([&] { x_.add_(static_cast<double>(i_)); });
  ASSERT_THAT(values, Not(IsEmpty()));
  EXPECT_EQ(values[0].operator_name, "aten::add_");
}

TEST_F(FrozenValuesOfTensors, ResultsAndRandomNumbersMayLieElsewhereInEachCapture) {
  Tensor result;
  EXPECT_THAT(refused([&] {
                const Tensor noise = torch::rand({64}, x_.options());
                result = (x_ + 1) * 2 + (noise - noise);
              }),
              IsEmpty());
  graph_.replay();
  EXPECT_TRUE(same(result, torch::full({64}, 2.0F)));
}

}  // namespace
}  // namespace reprise::libtorch::test
