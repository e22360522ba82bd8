// SPDX-License-Identifier: Apache-2.0
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "backend/cuda/cuda_backend.h"
#include "inspect/liveness/graph_scan.h"
#include "inspect/liveness/thread_stack.h"
#include "tests/fakes/fake_driver.h"

// What input liveness and the search for host memory read from the nodes of a CUDA graph.

namespace reprise::backend::cuda::test {
namespace {

using inspect::GraphScan;
using inspect::ScannedNodes;
using ::testing::ElementsAre;
using ::testing::IsEmpty;
using ::testing::SizeIs;

class NodeScan : public ::testing::Test {
 protected:
  NodeScan() {
    driver_.captured_nodes = 1;
    driver_.node_attributes[CU_LAUNCH_ATTRIBUTE_CLUSTER_DIMENSION] = {};
    driver_.api().cuFuncGetName = [](const char** name, CUfunction) {
      *name = "scale";
      return CUDA_SUCCESS;
    };
    // A pointer, and a float behind it.
    driver_.api().cuFuncGetParamInfo = [](CUfunction, std::size_t index, std::size_t* offset, std::size_t* size) {
      *offset = index * 8;
      *size = index == 0 ? 8 : 4;
      return index < 2 ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
    };
  }
  GraphScan scan(ScannedNodes which = ScannedNodes::all) {
    return inspect::scan_graph(backend_, handle<CUgraph>(1), which);
  }
  static std::vector<std::uintptr_t> values(const GraphScan& scan) {
    std::vector<std::uintptr_t> found;
    for (const inspect::ScannedWord& word : scan.words) found.push_back(word.value);
    return found;
  }

  FakeDriver driver_;
  CudaBackend backend_{driver_.api(), 3, 3};
};

TEST_F(NodeScan, FindsTheArgumentsOfAKernelThatWasLaunchedWithExtra) {
  const std::uint64_t block[] = {0x123456, 0x3f800000};
  std::size_t bytes = 12;
  void* extra[] = {CU_LAUNCH_PARAM_BUFFER_POINTER, const_cast<std::uint64_t*>(block), CU_LAUNCH_PARAM_BUFFER_SIZE,
                   &bytes, CU_LAUNCH_PARAM_END};
  driver_.node_type = CU_GRAPH_NODE_TYPE_KERNEL;
  driver_.node_extra = extra;
  const GraphScan found = scan();
  EXPECT_THAT(values(found), ElementsAre(0x123456));
  EXPECT_THAT(found.omissions, IsEmpty());
}

TEST_F(NodeScan, NamesAKernelWhoseArgumentsTheDriverDoesNotReturn) {
  driver_.node_type = CU_GRAPH_NODE_TYPE_KERNEL;
  const GraphScan found = scan();
  ASSERT_THAT(found.omissions, SizeIs(1));
  EXPECT_EQ(inspect::omission_text(backend_, found.nodes[0], found.omissions[0], nullptr),
            "the parameters of the kernel scale (node 0) are not known, the driver has no arguments of it");
}

TEST_F(NodeScan, OfCopiesHasTheAddressesOfTheHostAndTheirSize) {
  int local = 0;
  driver_.node_type = CU_GRAPH_NODE_TYPE_MEMCPY;
  driver_.copy.srcMemoryType = CU_MEMORYTYPE_HOST;
  driver_.copy.srcHost = &local;
  driver_.copy.dstMemoryType = CU_MEMORYTYPE_DEVICE;
  driver_.copy.dstDevice = 0x10000;
  driver_.copy.WidthInBytes = 4;
  driver_.copy.Height = driver_.copy.Depth = 1;
  const GraphScan found = scan(ScannedNodes::copies);
  EXPECT_THAT(values(found), ElementsAre(reinterpret_cast<std::uintptr_t>(&local), 0x10000));
  ASSERT_THAT(found.nodes, SizeIs(1));
  EXPECT_EQ(found.nodes[0].read_bytes, 4U);
  EXPECT_EQ(found.nodes[0].written_bytes, 4U);
  EXPECT_EQ(found.words[0].place, inspect::copy_source);
  EXPECT_EQ(found.words[1].place, inspect::copy_destination);
}

TEST_F(NodeScan, OfCopiesReadsNoOtherNodes) {
  driver_.node_type = CU_GRAPH_NODE_TYPE_KERNEL;
  EXPECT_THAT(scan(ScannedNodes::copies).nodes, IsEmpty());
}

TEST_F(NodeScan, OfCopiesHasBothEndsOfRowsWithGaps) {
  int local[9] = {};
  driver_.node_type = CU_GRAPH_NODE_TYPE_MEMCPY;
  driver_.copy.srcMemoryType = CU_MEMORYTYPE_HOST;
  driver_.copy.srcHost = local;
  driver_.copy.srcPitch = 12;
  driver_.copy.dstMemoryType = CU_MEMORYTYPE_DEVICE;
  driver_.copy.dstDevice = 0x10000;
  driver_.copy.dstPitch = 64;
  driver_.copy.WidthInBytes = 4;
  driver_.copy.Height = 3;
  for (const ScannedNodes which : {ScannedNodes::all, ScannedNodes::copies}) {
    const GraphScan found = scan(which);
    EXPECT_THAT(values(found), ElementsAre(reinterpret_cast<std::uintptr_t>(local), 0x10000));
    EXPECT_EQ(found.nodes[0].read_bytes, 28U);
    EXPECT_EQ(found.nodes[0].written_bytes, 132U);
    EXPECT_THAT(found.omissions, IsEmpty());
  }
}

TEST_F(NodeScan, OfCopiesHasTheOtherEndOfAnArray) {
  int local = 0;
  driver_.node_type = CU_GRAPH_NODE_TYPE_MEMCPY;
  driver_.copy.srcMemoryType = CU_MEMORYTYPE_HOST;
  driver_.copy.srcHost = &local;
  driver_.copy.dstMemoryType = CU_MEMORYTYPE_ARRAY;
  driver_.copy.WidthInBytes = 4;
  const GraphScan copies = scan(ScannedNodes::copies), all = scan();
  for (const GraphScan* const found : {&copies, &all})
    EXPECT_THAT(values(*found), ElementsAre(reinterpret_cast<std::uintptr_t>(&local)));
  EXPECT_THAT(copies.omissions, IsEmpty()) << "arrays lie on the device";
  ASSERT_THAT(all.omissions, SizeIs(1));
  EXPECT_EQ(all.omissions[0].why, "its destination is an array");
}

TEST_F(NodeScan, OfCopiesNamesBodiesThatTheDriverDoesNotProvide) {
  driver_.node_type = CU_GRAPH_NODE_TYPE_CONDITIONAL;
  const GraphScan found = scan(ScannedNodes::copies);
  ASSERT_THAT(found.omissions, SizeIs(1));
  EXPECT_EQ(inspect::omission_text(backend_, found.nodes[0], found.omissions[0], nullptr),
            "the parameters of the conditional (node 0) are not known, cuGraphKernelNodeGetParams failed with "
            "cudaErrorNotSupported (801)");
}

TEST(EndedStack, IsTheRestOfTheOwnStackBelowAFrame) {
  const auto* const frame = static_cast<const char*>(__builtin_frame_address(0));
  const inspect::AddressRange ended = inspect::ended_stack(frame);
  const auto here = reinterpret_cast<std::uintptr_t>(frame);
  EXPECT_EQ(ended.end, here);
  EXPECT_TRUE(ended.overlaps(here - 64, 8));
  EXPECT_TRUE(ended.overlaps(here - 4, 8)) << "a part of it";
  EXPECT_FALSE(ended.overlaps(here, 8));
  EXPECT_FALSE(ended.overlaps(here - 64, 0));
  EXPECT_FALSE(ended.overlaps(ended.begin - 8, 8));
  EXPECT_TRUE(ended.overlaps(ended.begin - 8, 9));
}

TEST(EndedStack, IsEmptyForAFrameOfAnotherStack) {
  std::vector<char> of_a_fiber(4096);
  const inspect::AddressRange ended = inspect::ended_stack(of_a_fiber.data() + 2048);
  EXPECT_FALSE(ended.overlaps(reinterpret_cast<std::uintptr_t>(of_a_fiber.data()), 4096));
  EXPECT_FALSE(inspect::ended_stack(nullptr).overlaps(4096, 8));
}

}  // namespace
}  // namespace reprise::backend::cuda::test
