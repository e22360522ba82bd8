// SPDX-License-Identifier: Apache-2.0
#include <utility>

#include "tests/support/gate.h"
#include "tests/unit/inspect/liveness_fixture.h"

// Inputs of graphs whose nodes are changed.

namespace reprise::graphs::test {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;
using ::testing::UnorderedElementsAre;

class InputsOfChangedNodes : public ::testing::TestWithParam<KeepGraph> {
 protected:
  void capture_sum(const GraphOptions& options) {
    capture(graph_, options, [&] { multiply(x_, 10, y_); });
  }

  const SideStream side_;
  Buffer<int> x_ = zeros(n), y_ = zeros(n), z_ = zeros(n);
  CUDAGraph graph_{GetParam()};
};

INSTANTIATE_TEST_SUITE_P(Kept, InputsOfChangedNodes, ::testing::Values(KeepGraph::no, KeepGraph::yes),
                         [](const auto& info) {
                           return info.param == KeepGraph::yes ? std::string("yes") : std::string("no");
                         });

TEST_P(InputsOfChangedNodes, AreTheNewValues) {
  capture_sum(with_check());
  graph_.node("Multiply").set_arg(0, z_.data());
  EXPECT_THAT(addresses(graph_.inputs()), UnorderedElementsAre(y_.data(), z_.data()));
  EXPECT_THAT(graph_.inputs().front().nodes, ElementsAre("kernel reprise::graphs::test::Multiply (node 0)"));
  const void* const address = z_.data();
  x_.reset();
  graph_.replay();
  z_.reset();
  EXPECT_THAT(addresses(dead_inputs(graph_)), ElementsAre(address));
}

TEST_P(InputsOfChangedNodes, TheOthersStayAlsoIfTheyWereFreedBefore) {
  capture_sum(with_check());
  const void* const address = y_.data();
  y_.reset();
  graph_.node("Multiply").set_arg(0, z_.data());
  EXPECT_THAT(addresses(dead_inputs(graph_)), ElementsAre(address));
}

TEST_P(InputsOfChangedNodes, AChangeRemovesADeadInput) {
  capture_sum(with_check());
  x_.reset();
  EXPECT_THROW(graph_.replay(), DeadInputError);
  graph_.node("Multiply").set_arg(0, z_.data());
  graph_.replay();
}

TEST_P(InputsOfChangedNodes, ANewBufferAtTheAddressOfAFreedOneCountsOnceItIsSet) {
  capture_sum(with_check());
  int* const address = x_.data();
  for (int i = 0; i < 3; ++i) {
    x_.reset();
    x_ = zeros(n);
    ASSERT_EQ(x_.data(), address);
    if (i == 0) {
      EXPECT_THROW(graph_.replay(), DeadInputError);
    }
    if (i == 1) graph_.node("Multiply").set_arg(1, 3);
    if (i == 1) {
      EXPECT_THROW(graph_.replay(), DeadInputError);
    }
    graph_.node("Multiply").set_arg(0, x_.data());
    graph_.replay();
    current_stream().synchronize();
  }
  x_.reset();
  EXPECT_THROW(graph_.replay(), DeadInputError);
}

TEST_P(InputsOfChangedNodes, ANewBufferAtTheAddressOfAFreedOneIsAParameterOnceItIsSet) {
  capture_sum(with_check());
  const Parameter<int*> x = graph_.parameter(x_.data()), y = graph_.parameter(y_.data());
  int* const address = x_.data();
  x_.reset();
  x_ = zeros(n);
  ASSERT_EQ(x_.data(), address);
  graph_.set(y, z_.data());
  EXPECT_THAT(addresses(dead_inputs(graph_)), ElementsAre(address));
  graph_.set(x, x_.data());
  graph_.replay();
  current_stream().synchronize();
  x_.reset();
  y_.reset();
  x_ = zeros(n);
  y_ = zeros(n);
  graph_.set({{x, x_.data()}, {y, z_.data()}});
  graph_.replay();
  current_stream().synchronize();
}

TEST_P(InputsOfChangedNodes, NewMemoryAtTheAddressesOfACopyAndASetCountsOnceItIsSet) {
  capture(graph_, with_check(), [&] {
    copy_async(y_.data(), x_.data(), x_.size_bytes());
    fill_async(z_.data(), 0, z_.size_bytes());
  });
  int* const of_x = x_.data();
  int* const of_z = z_.data();
  x_.reset();
  z_.reset();
  x_ = zeros(n);
  z_ = zeros(n);
  if (x_.data() != of_x) std::swap(x_, z_);
  ASSERT_EQ(x_.data(), of_x);
  ASSERT_EQ(z_.data(), of_z);
  EXPECT_THAT(addresses(dead_inputs(graph_)), UnorderedElementsAre(of_x, of_z));
  graph_.nodes()[0].set_params(graph_.nodes()[0].memcpy_params());
  EXPECT_THAT(addresses(dead_inputs(graph_)), ElementsAre(of_z));
  graph_.nodes()[1].set_params(graph_.nodes()[1].memset_params());
  graph_.replay();
  current_stream().synchronize();
}

TEST_P(InputsOfChangedNodes, AGraphWithoutInputsChecksItsFirstOne) {
  const int* nothing = nullptr;
  capture(graph_, with_check(), [&] { launch(0, Multiply{}, nothing, 1, static_cast<int*>(nullptr), std::size_t{0}); });
  EXPECT_THAT(graph_.inputs(), IsEmpty());
  graph_.replay();
  graph_.node("Multiply").set_arg(0, x_.data());
  graph_.replay();
  x_.reset();
  EXPECT_THROW(graph_.replay(), DeadInputError);
}

TEST_P(InputsOfChangedNodes, CopiesAndSetsAndMemoryOfTheDriver) {
  HostBuffer<int> first_source(n), second_source(n);
  capture(graph_, with_check(Liveness::all), [&] {
    copy_async(x_.data(), first_source.data(), x_.size_bytes());
    fill_async(y_.data(), 0, y_.size_bytes());
  });
  graph_.nodes()[0].set_params(MemcpyNodeParams{z_.data(), second_source.data(), x_.size_bytes()});
  graph_.nodes()[1].set_params(MemsetNodeParams{x_.data(), 0, 4, n});
  EXPECT_THAT(addresses(graph_.inputs()), UnorderedElementsAre(z_.data(), second_source.data(), x_.data()));
  y_.reset();
  first_source = {};
  graph_.replay();
  current_stream().synchronize();
  const void* const address = second_source.data();
  second_source = {};
  EXPECT_THAT(addresses(dead_inputs(graph_)), ElementsAre(address));
}

TEST_P(InputsOfChangedNodes, OfAFailedChangeAreThoseBefore) {
  capture_sum(with_check());
  if (GetParam() == KeepGraph::yes) graph_.instantiate();
  EXPECT_THROW(graph_.node("Multiply").set_params(LaunchConfig{.block = Dim3(0)}), BackendError);
  EXPECT_THAT(addresses(graph_.inputs()), UnorderedElementsAre(x_.data(), y_.data()));
}

TEST_P(InputsOfChangedNodes, AreRetainedAndThoseBeforeAreFreedAfterTheirReplays) {
  CachingAllocator& allocator = CachingAllocator::of(current_device());
  const auto allocations = [&] { return allocator.statistics(MempoolId{}).allocations; };
  reprise::test::Gate gate;
  capture_sum(with_retain());
  graph_.upload();
  const std::uint64_t before = allocations();
  call_on_host(side_.ref(), &reprise::test::Gate::pass, &gate);
  graph_.replay();
  x_.reset();
  graph_.node("Multiply").set_arg(0, z_.data());
  z_.reset();
  for (int i = 0; i < 3; ++i) CUDAGraph().reset();
  EXPECT_EQ(allocations(), before) << "the replay will read it";
  gate.open();
  side_.ref().synchronize();
  EXPECT_TRUE(eventually([&] { return allocations() == before - 1; })) << allocations();
  graph_.replay();
  side_.ref().synchronize();
  graph_.reset();
  EXPECT_TRUE(eventually([&] { return allocations() == before - 2; })) << allocations();
}

}  // namespace
}  // namespace reprise::graphs::test
