// SPDX-License-Identifier: Apache-2.0
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <cstdint>
#include <string>
#include <utility>

#include "backend/cuda/cuda_backend.h"
#include "tests/fakes/fake_driver.h"

// The numbers by which profilers name nodes, from a driver that knows them.

namespace reprise::backend::cuda::test {
namespace {

using ::testing::IsEmpty;
using ::testing::Pair;
using ::testing::StartsWith;
using ::testing::UnorderedElementsAre;

// Handles of the nodes of a template, which are their numbers in graph 3.
constexpr std::uintptr_t graph_three = std::uintptr_t{3} << 32U;
const std::array nodes = {handle<CUgraphNode>(graph_three + 4), handle<CUgraphNode>(graph_three + 6),
                          handle<CUgraphNode>(graph_three + 7)};
constexpr std::uint64_t in_exec = std::uint64_t{0x51} << 32U;

class ProfilerIds : public ::testing::Test {
 protected:
  ProfilerIds() {
    DriverApi& api = driver_.api();
    api.cuGraphGetNodes = [](CUgraph, CUgraphNode* found, std::size_t* count) {
      if (found != nullptr) std::copy(nodes.begin(), nodes.end(), found);
      *count = nodes.size();
      return CUDA_SUCCESS;
    };
    api.cuGraphNodeGetToolsId = [](CUgraphNode node, unsigned long long* id) {
      *id = reinterpret_cast<std::uintptr_t>(node);
      return FakeDriver::instance().result;
    };
    api.cuGraphExecGetId = [](CUgraphExec, unsigned* id) {
      *id = 0x51;
      return CUDA_SUCCESS;
    };
  }
  auto ids() { return backend_.monitor().profiler_ids(handle<CUgraph>(1), handle<CUgraphExec>(2), &why_); }

  FakeDriver driver_;
  CudaBackend backend_{driver_.api(), 3, 3};
  std::string why_;
};

TEST_F(ProfilerIds, AreThoseOfTheExecutable) {
  EXPECT_THAT(ids(), UnorderedElementsAre(Pair(nodes[0], in_exec + 4), Pair(nodes[1], in_exec + 6),
                                          Pair(nodes[2], in_exec + 7)));
  EXPECT_EQ(why_, "");
}

TEST_F(ProfilerIds, OfNodesInAChildGraphFollowThoseOfTheTemplate) {
  static const std::array top = {handle<CUgraphNode>(graph_three + 0), handle<CUgraphNode>(graph_three + 1),
                                 handle<CUgraphNode>(graph_three + 2)};
  static const std::array inner = {handle<CUgraphNode>(0x900), handle<CUgraphNode>(0x901)};
  static const CUgraph child = handle<CUgraph>(0x90);
  DriverApi& api = driver_.api();
  api.cuGraphNodeGetType = [](CUgraphNode node, CUgraphNodeType* type) {
    *type = node == top[1] ? CU_GRAPH_NODE_TYPE_GRAPH : CU_GRAPH_NODE_TYPE_KERNEL;
    return CUDA_SUCCESS;
  };
  api.cuGraphChildGraphNodeGetGraph = [](CUgraphNode, CUgraph* graph) {
    *graph = child;
    return CUDA_SUCCESS;
  };
  api.cuGraphGetNodes = [](CUgraph graph, CUgraphNode* found, std::size_t* count) {
    *count = graph == child ? inner.size() : top.size();
    if (found != nullptr) std::copy_n(graph == child ? inner.data() : top.data(), *count, found);
    return CUDA_SUCCESS;
  };
  EXPECT_THAT(ids(), UnorderedElementsAre(Pair(top[0], in_exec), Pair(top[1], in_exec + 1), Pair(top[2], in_exec + 2),
                                          Pair(inner[0], in_exec + 3), Pair(inner[1], in_exec + 4)));
  EXPECT_EQ(why_, "");
}

TEST_F(ProfilerIds, OfNodesInAChildGraphAreUnknownAfterTheRemovalOfOthers) {
  DriverApi& api = driver_.api();
  api.cuGraphNodeGetType = [](CUgraphNode node, CUgraphNodeType* type) {
    *type = node == nodes[1] ? CU_GRAPH_NODE_TYPE_GRAPH : CU_GRAPH_NODE_TYPE_KERNEL;
    return CUDA_SUCCESS;
  };
  api.cuGraphChildGraphNodeGetGraph = [](CUgraphNode, CUgraph* graph) {
    *graph = handle<CUgraph>(0x90);
    return CUDA_SUCCESS;
  };
  api.cuGraphGetNodes = [](CUgraph graph, CUgraphNode* found, std::size_t* count) {
    const bool child = graph == handle<CUgraph>(0x90);
    *count = child ? 1 : nodes.size();
    if (found != nullptr && child) *found = handle<CUgraphNode>(0x900);
    if (found != nullptr && !child) std::copy(nodes.begin(), nodes.end(), found);
    return CUDA_SUCCESS;
  };
  EXPECT_THAT(ids(), UnorderedElementsAre(Pair(nodes[0], in_exec + 4), Pair(nodes[1], in_exec + 6),
                                          Pair(nodes[2], in_exec + 7)));
  EXPECT_EQ(
      why_,
      "Nodes of the template were removed, so that the numbers of those in child graphs and bodies are not known.");
}

TEST_F(ProfilerIds, OfNodesInAConditionalNodeOfOtherCodeAreUnknown) {
  driver_.api().cuGraphNodeGetType = [](CUgraphNode node, CUgraphNodeType* type) {
    *type = node == nodes[1] ? CU_GRAPH_NODE_TYPE_CONDITIONAL : CU_GRAPH_NODE_TYPE_KERNEL;
    return CUDA_SUCCESS;
  };
  EXPECT_EQ(ids().size(), nodes.size());
  EXPECT_EQ(
      why_,
      "Nodes from the first conditional node on whose bodies are not known have other numbers in the executable.");
}

TEST_F(ProfilerIds, AreUnknownWhenTheDriverFailsWhichSaysSo) {
  driver_.result = CUDA_ERROR_INVALID_HANDLE;
  EXPECT_THAT(ids(), IsEmpty());
  EXPECT_EQ(why_, "The ids for profilers are not known: the driver returned cudaErrorInvalidResourceHandle.");
}

TEST_F(ProfilerIds, OfAnOlderDriverNeedCupti) {
  driver_.api().cuGraphNodeGetToolsId = nullptr;
  EXPECT_THAT(ids(), IsEmpty());
  EXPECT_THAT(why_, StartsWith("The ids for profilers are not known: the driver is older than CUDA 13.1, which knows "
                               "the ids, and "));
}

TEST_F(ProfilerIds, AreQueriedInRelaxedMode) {
  static CUstreamCaptureMode mode;
  driver_.api().cuGraphExecGetId = [](CUgraphExec, unsigned*) {
    mode = FakeDriver::capture_mode();
    return CUDA_SUCCESS;
  };
  ids();
  EXPECT_EQ(mode, CU_STREAM_CAPTURE_MODE_RELAXED);
  EXPECT_EQ(FakeDriver::capture_mode(), CU_STREAM_CAPTURE_MODE_GLOBAL);
}

}  // namespace
}  // namespace reprise::backend::cuda::test
