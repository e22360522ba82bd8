// SPDX-License-Identifier: Apache-2.0
#include "tests/libtorch/both_devices/device_fixture.h"

// GraphOptions::discard_template with tensors.

namespace reprise::libtorch::test {
namespace {

class DiscardedTemplates : public OnDevice {};

TEST_F(DiscardedTemplates, GraphsWithDropoutDrawOtherNumbersInEachReplayAsEagerWorkDoes) {
  const Tensor ones = torch::ones({256}, device_);
  const auto dropped = [&] { return torch::dropout(ones, 0.5, /*train=*/true); };
  Tensor y = dropped();  // libtorch prepares the device
  torch::manual_seed(5);
  const Tensor first = dropped().clone(), second = dropped().clone();
  torch::manual_seed(5);
  CUDAGraph graph = capture({.discard_template = true}, [&] { y = dropped(); });
  graph.replay();
  EXPECT_TRUE(same(y, first));
  graph.replay();
  EXPECT_TRUE(same(y, second));
  EXPECT_FALSE(same(first, second));
  torch::manual_seed(5);
  graph.replay();
  EXPECT_TRUE(same(y, first)) << "the node that has the seed was not changed";
}

TEST_F(DiscardedTemplates, GraphsWithoutRandomNumbersReplayAndHaveNoTemplate) {
  Tensor x = torch::ones({8}, device_);
  CUDAGraph graph = capture({.discard_template = true}, [&] { x.mul_(2); });
  graph.replay();
  graph.replay();
  EXPECT_TRUE(same(x, torch::full({8}, 4.0F)));
  EXPECT_THROW(static_cast<void>(graph.node_count()), UsageError);
}

}  // namespace
}  // namespace reprise::libtorch::test
