// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>
#include <torch/torch.h>

#include "backend/framework.h"
#include "reprise/capture.h"
#include "reprise/libtorch/host_device.h"

// A program that is linked with the component and uses nothing of it but a header.

namespace reprise::libtorch::test {
namespace {

TEST(Component, IsInstalledWhereItsHeaderIsIncluded) {
  const backend::Framework* const framework = backend::installed_framework();
  ASSERT_NE(framework, nullptr) << "the linker dropped it";
  EXPECT_EQ(framework->name(), "libtorch");
  EXPECT_NE(framework->captures(), nullptr) << "captures leave the operators out";
}

TEST(Component, HasTheOperatorsOfTensorsInCaptures) {
  const DeviceGuard guard(Device::parse("host"));
  torch::Tensor x = torch::zeros({4}, host_device());
  CUDAGraph graph = capture([&] { x.add_(1); });
  EXPECT_GT(graph.node_count(), 0U);
  EXPECT_EQ(x.cpu().sum().item<float>(), 0);
  graph.replay();
  graph.replay();
  EXPECT_EQ(x.cpu().sum().item<float>(), 8);
}

}  // namespace
}  // namespace reprise::libtorch::test
