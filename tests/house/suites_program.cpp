// SPDX-License-Identifier: Apache-2.0
// Suites that end in each way, for GpuSuitesTest.cmake.
#include <gtest/gtest.h>

#include <cstdlib>

namespace reprise {
namespace {

class OnDevice : public ::testing::Environment {
 public:
  void SetUp() override {
    if (std::getenv("NO_DEVICE") != nullptr) GTEST_SKIP() << "there is no device";
  }
};
const auto* const environment = ::testing::AddGlobalTestEnvironment(new OnDevice);

class GraphPools : public ::testing::TestWithParam<int> {};

TEST(Passes, SkipsOne) {
  GTEST_SKIP();
}
TEST(Passes, PassesOne) {}
TEST(Fails, FailsOne) {
  FAIL() << "as it should";
}
TEST(Fails, SkipsOne) {
  GTEST_SKIP();
}
TEST(Skips, SkipsOne) {
  GTEST_SKIP();
}
TEST(Skips, SkipsAnother) {
  GTEST_SKIP();
}
TEST(OutOfMemory, PassesOne) {}
TEST(InnerNodes, OfBodiesChangeToo) {}
TEST(Breaks, PassesOne) {}
TEST_P(GraphPools, PassesOne) {}
INSTANTIATE_TEST_SUITE_P(With, GraphPools, ::testing::Values(1, 2));

}  // namespace
}  // namespace reprise
