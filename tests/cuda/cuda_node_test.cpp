// SPDX-License-Identifier: Apache-2.0
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "backend/cuda/conditional_nodes.h"
#include "backend/cuda/cuda_backend.h"
#include "backend/cuda/node_params.h"
#include "backend/own_records.h"
#include "graph/nodes/node_changes.h"
#include "inspect/nodes/node_values.h"
#include "tests/fakes/fake_driver.h"

// Nodes in this library's words and in the driver's.

namespace reprise::backend::cuda::test {
namespace {

using ::testing::ElementsAre;

class CudaNodeTest : public ::testing::Test {
 protected:
  const CUgraphNodeParams& add(NodeParams params) {
    params_ = std::move(params);
    EXPECT_EQ(backend_.graph_add_node(&node_, handle<CUgraph>(1), {}, params_), ErrorCode::success);
    EXPECT_EQ(driver_.added.type, static_cast<CUgraphNodeType>(backend::node_type(params_)));
    return driver_.added;
  }

  FakeDriver driver_;
  CudaBackend backend_{driver_.api(), 3, 3};
  NodeParams params_;
  GraphNodeHandle node_ = nullptr;
};

TEST_F(CudaNodeTest, KernelsKeepTheirShapeAndArguments) {
  void* arguments[] = {nullptr};
  LaunchConfig config;
  config.grid = {1, 2, 3};
  config.block = {4, 5, 6};
  config.shared_bytes = 7;
  const CUDA_KERNEL_NODE_PARAMS_v3& kernel = add(KernelNodeParams{handle<CUfunction>(0xf), config, arguments}).kernel;
  EXPECT_EQ(kernel.func, handle<CUfunction>(0xf));
  EXPECT_THAT((std::vector<unsigned>{kernel.gridDimX, kernel.gridDimY, kernel.gridDimZ, kernel.blockDimX,
                                     kernel.blockDimY, kernel.blockDimZ, kernel.sharedMemBytes}),
              ElementsAre(1, 2, 3, 4, 5, 6, 7));
  EXPECT_EQ(kernel.kernelParams, arguments);
  EXPECT_TRUE(driver_.node_attributes.empty()) << "none are requested, none are set";
}

TEST_F(CudaNodeTest, ClustersAndCooperationAreAttributesOfTheNode) {
  LaunchConfig config;
  config.cluster = {2, 1, 1};
  config.cooperative = true;
  add(KernelNodeParams{handle<CUfunction>(0xf), config, nullptr});
  EXPECT_EQ(driver_.node_attributes[CU_LAUNCH_ATTRIBUTE_CLUSTER_DIMENSION].clusterDim.x, 2U);
  EXPECT_EQ(driver_.node_attributes[CU_LAUNCH_ATTRIBUTE_COOPERATIVE].cooperative, 1);
}

TEST_F(CudaNodeTest, AChangeOfAKernelQueriesItsAttributesOnlyIfItHasOrGetsAny) {
  driver_.node_type = CU_GRAPH_NODE_TYPE_KERNEL;
  driver_.api().cuFuncGetParamInfo = [](CUfunction, std::size_t, std::size_t*, std::size_t*) {
    return CUDA_ERROR_INVALID_VALUE;
  };
  const auto queries_of_change = [&](bool has_cluster, bool gets_cooperative) {
    driver_.node_attributes[CU_LAUNCH_ATTRIBUTE_CLUSTER_DIMENSION].clusterDim = {has_cluster ? 2U : 0U, 1, 1};
    graphs::NodeChanges changes;
    graphs::NodeChange change{handle<CUgraphNode>(1), changes.values(backend_, handle<CUgraphNode>(1))};
    change.to.config().grid = {9, 1, 1};
    change.to.config().cooperative = gets_cooperative;
    driver_.attributes_queried = 0;
    changes.apply(backend_, nullptr, {&change, 1}, {}, [] {});
    EXPECT_EQ(driver_.changed.kernel.gridDimX, 9U);
    return driver_.attributes_queried;
  };
  EXPECT_EQ(queries_of_change(false, false), 0);
  EXPECT_EQ(queries_of_change(true, false), 2);
  EXPECT_EQ(queries_of_change(false, true), 2);
  EXPECT_EQ(driver_.node_attributes[CU_LAUNCH_ATTRIBUTE_COOPERATIVE].cooperative, 1);
}

TEST_F(CudaNodeTest, ANodeWhoseAttributesAreRefusedIsNotMade) {
  LaunchConfig config;
  config.cluster = {64, 1, 1};
  driver_.attribute_result = CUDA_ERROR_INVALID_VALUE;
  NodeParams params = KernelNodeParams{handle<CUfunction>(0xf), config, nullptr};
  EXPECT_EQ(backend_.graph_add_node(&node_, handle<CUgraph>(1), {}, params), ErrorCode::invalid_value);
  EXPECT_EQ(node_, nullptr);
  EXPECT_EQ(driver_.destroyed, handle<CUgraphNode>(0x20de));
}

TEST_F(CudaNodeTest, AProgrammaticKernelIsRefusedSinceThatIsAPropertyOfEdges) {
  LaunchConfig config;
  config.programmatic = true;
  NodeParams params = KernelNodeParams{handle<CUfunction>(0xf), config, nullptr};
  const Result refused = backend_.graph_add_node(&node_, handle<CUgraph>(1), {}, params);
  EXPECT_EQ(refused, ErrorCode::not_supported);
  EXPECT_THAT(refused.detail(), ::testing::HasSubstr("edge"));
}

TEST_F(CudaNodeTest, CopiesAreOneRowBetweenAnyMemory) {
  int from = 0, to = 0;
  const CUDA_MEMCPY_NODE_PARAMS& copy = add(MemcpyNodeParams{&to, &from, 12}).memcpy;
  EXPECT_EQ(copy.copyCtx, primary_context_of(3));
  EXPECT_EQ(copy.copyParams.srcMemoryType, CU_MEMORYTYPE_UNIFIED);
  EXPECT_EQ(copy.copyParams.dstMemoryType, CU_MEMORYTYPE_UNIFIED);
  EXPECT_EQ(copy.copyParams.srcDevice, to_address(&from));
  EXPECT_EQ(copy.copyParams.dstDevice, to_address(&to));
  EXPECT_EQ(copy.copyParams.WidthInBytes, 12U);
  EXPECT_EQ(copy.copyParams.Height, 1U);
  EXPECT_EQ(copy.copyParams.Depth, 1U);
}

TEST_F(CudaNodeTest, SetsAreOneRowOfElements) {
  int to = 0;
  const CUDA_MEMSET_NODE_PARAMS_v2& set = add(MemsetNodeParams{&to, 9, 2, 5}).memset;
  EXPECT_EQ(set.dst, to_address(&to));
  EXPECT_EQ(set.value, 9U);
  EXPECT_EQ(set.elementSize, 2U);
  EXPECT_EQ(set.width, 5U);
  EXPECT_EQ(set.height, 1U);
  EXPECT_EQ(set.ctx, primary_context_of(3));
}

TEST_F(CudaNodeTest, AllocationsAreOnTheDeviceAndTellTheirAddress) {
  const CUDA_MEM_ALLOC_NODE_PARAMS_v2& allocation = add(MemoryAllocateNodeParams{64}).alloc;
  EXPECT_EQ(allocation.bytesize, 64U);
  EXPECT_EQ(allocation.poolProps.allocType, CU_MEM_ALLOCATION_TYPE_PINNED);
  EXPECT_EQ(allocation.poolProps.location.type, CU_MEM_LOCATION_TYPE_DEVICE);
  EXPECT_EQ(allocation.poolProps.location.id, 3);
  EXPECT_EQ(std::get<MemoryAllocateNodeParams>(params_).address, to_pointer(0xa110c));
}

TEST_F(CudaNodeTest, ConditionalNodesTellTheirBodies) {
  const CUDA_CONDITIONAL_NODE_PARAMS& node = add(ConditionalNodeParams{5, ConditionalType::if_, 2}).conditional;
  EXPECT_EQ(node.handle, 5U);
  EXPECT_EQ(node.type, CU_GRAPH_COND_TYPE_IF);
  EXPECT_EQ(node.size, 2U);
  EXPECT_EQ(node.ctx, primary_context_of(3));
  EXPECT_THAT(std::get<ConditionalNodeParams>(params_).bodies,
              ElementsAre(handle<CUgraph>(0xb0), handle<CUgraph>(0xb1)));
}

TEST_F(CudaNodeTest, AnOlderDriverHasConditionalNodesOfOneBody) {
  driver_.api().version = 12070;
  const std::string why =
      "conditional nodes of type switch, and of type if with two bodies, need a driver of CUDA 12.8 or newer; found: "
      "CUDA "
      "12.7. Use one if for each case, or install a newer driver";
  for (const ConditionalNodeParams& params :
       {ConditionalNodeParams{5, ConditionalType::switch_, 1}, ConditionalNodeParams{5, ConditionalType::if_, 2}}) {
    params_ = params;
    const Result refused = backend_.graph_add_node(&node_, handle<CUgraph>(1), {}, params_);
    EXPECT_EQ(refused, ErrorCode::not_supported);
    EXPECT_EQ(refused.detail(), why);
  }
  EXPECT_EQ(node_, nullptr);
  add(ConditionalNodeParams{5, ConditionalType::if_, 1});
  add(ConditionalNodeParams{5, ConditionalType::while_, 1});
  driver_.api().version = first_driver_with_switch;
  add(ConditionalNodeParams{5, ConditionalType::switch_, 2});
}

TEST_F(CudaNodeTest, ConditionalNodesThatWereAddedHereAreReadBack) {
  driver_.node_type = CU_GRAPH_NODE_TYPE_CONDITIONAL;
  NodeParams found = EmptyNodeParams{};
  ConditionalNodes::instance().destroyed(handle<CUgraph>(1));  // of earlier tests
  EXPECT_EQ(backend_.graph_node_params(handle<CUgraphNode>(0x20de), &found), ErrorCode::not_supported) << "of others";
  add(ConditionalNodeParams{5, ConditionalType::if_, 2});
  ASSERT_EQ(backend_.graph_node_params(node_, &found), ErrorCode::success);
  EXPECT_EQ(std::get<ConditionalNodeParams>(found).handle, 5U);
  EXPECT_THAT(std::get<ConditionalNodeParams>(found).bodies, ElementsAre(handle<CUgraph>(0xb0), handle<CUgraph>(0xb1)));
  EXPECT_EQ(backend_.graph_destroy_node(node_), ErrorCode::success);
  EXPECT_EQ(backend_.graph_node_params(node_, &found), ErrorCode::not_supported) << "its address may be another's";
  add(ConditionalNodeParams{6, ConditionalType::if_, 2});
  EXPECT_EQ(backend_.graph_destroy(handle<CUgraph>(2)), ErrorCode::success);
  EXPECT_EQ(backend_.graph_node_params(node_, &found), ErrorCode::success);
  EXPECT_EQ(backend_.graph_destroy(handle<CUgraph>(1)), ErrorCode::success);
  EXPECT_EQ(backend_.graph_node_params(node_, &found), ErrorCode::not_supported);
}

TEST_F(CudaNodeTest, ConditionalNodesInTheBodiesOfADestroyedGraphAreForgotten) {
  driver_.node_type = CU_GRAPH_NODE_TYPE_CONDITIONAL;
  ConditionalNodes known;
  known.added(handle<CUgraphNode>(10), handle<CUgraph>(1), {1, ConditionalType::if_, 1, {handle<CUgraph>(2)}});
  known.added(handle<CUgraphNode>(20), handle<CUgraph>(2), {2, ConditionalType::if_, 1, {handle<CUgraph>(3)}});
  known.added(handle<CUgraphNode>(30), handle<CUgraph>(3), {3, ConditionalType::if_, 1, {handle<CUgraph>(4)}});
  known.added(handle<CUgraphNode>(40), handle<CUgraph>(9), {4, ConditionalType::if_, 1, {}});
  known.destroyed(handle<CUgraph>(1));
  NodeParams found = EmptyNodeParams{};
  for (const unsigned node : {10, 20, 30}) EXPECT_FALSE(known.find(handle<CUgraphNode>(node), &found)) << node;
  EXPECT_TRUE(known.find(handle<CUgraphNode>(40), &found));
}

TEST_F(CudaNodeTest, EdgesOfEachKindAreAddedByACallOfTheirOwn) {
  using Added = FakeDriver::AddedEdge;
  const auto node = [](unsigned number) { return handle<CUgraphNode>(number); };
  const Edge edges[] = {
      {node(1), node(2), programmatic_edge}, {node(2), node(3), {}}, {node(3), node(4), programmatic_edge}};
  EXPECT_EQ(backend_.graph_add_dependencies(handle<CUgraph>(1), edges), ErrorCode::success);
  EXPECT_EQ(driver_.edge_calls, 2);
  EXPECT_THAT(driver_.edges,
              ::testing::UnorderedElementsAre(Added{node(1), node(2), 1, 1}, Added{node(2), node(3), 0, 0},
                                              Added{node(3), node(4), 1, 1}));
}

TEST_F(CudaNodeTest, IfTheSecondKindOfEdgesIsRefusedTheFirstIsRemoved) {
  const auto node = [](unsigned number) { return handle<CUgraphNode>(number); };
  const Edge edges[] = {{node(1), node(2), programmatic_edge}, {node(2), node(3), {}}};
  driver_.failing_edge_call = 2;
  EXPECT_EQ(backend_.graph_add_dependencies(handle<CUgraph>(1), edges), ErrorCode::invalid_value);
  EXPECT_TRUE(driver_.edges.empty());
}

TEST_F(CudaNodeTest, TheFunctionOfALibrarysKernelIsFound) {
  driver_.node_type = CU_GRAPH_NODE_TYPE_KERNEL;
  driver_.node_attributes[CU_LAUNCH_ATTRIBUTE_CLUSTER_DIMENSION] = {};
  ASSERT_EQ(backend_.graph_node_params(handle<CUgraphNode>(1), &params_), ErrorCode::success);
  const auto& kernel = std::get<KernelNodeParams>(params_);
  EXPECT_EQ(kernel.function, handle<CUfunction>(0x4e45));
  EXPECT_EQ(kernel.config.grid.x, 5U);
  EXPECT_EQ(kernel.config.cluster, Dim3{}) << "zeros mean that none was requested";
}

TEST_F(CudaNodeTest, ArgumentsInOneBlockAreReadAndPassedOnAsTheyAre) {
  const std::uint64_t block[] = {0x1234, 5};
  std::size_t bytes = sizeof block;
  void* extra[] = {CU_LAUNCH_PARAM_BUFFER_POINTER, const_cast<std::uint64_t*>(block), CU_LAUNCH_PARAM_BUFFER_SIZE,
                   &bytes, CU_LAUNCH_PARAM_END};
  driver_.node_type = CU_GRAPH_NODE_TYPE_KERNEL;
  driver_.node_attributes[CU_LAUNCH_ATTRIBUTE_CLUSTER_DIMENSION] = {};
  driver_.node_extra = extra;
  ASSERT_EQ(backend_.graph_node_params(handle<CUgraphNode>(1), &params_), ErrorCode::success);
  const auto kernel = std::get<KernelNodeParams>(params_);
  EXPECT_EQ(kernel.params, nullptr);
  const auto packed = packed_arguments(kernel.extra);
  ASSERT_TRUE(packed.has_value());
  EXPECT_EQ(static_cast<const void*>(packed->data()), block);
  EXPECT_EQ(packed->size(), sizeof block);
  EXPECT_EQ(add(kernel).kernel.extra, extra) << "a change of the node keeps its arguments";
  EXPECT_EQ(backend_.launch_kernel(kernel, nullptr), ErrorCode::success);
  EXPECT_EQ(driver_.launched_extra, extra);
}

TEST_F(CudaNodeTest, ArgumentsInOneBlockAreComparedByParameter) {
  driver_.api().cuGraphGetNodes = [](CUgraph, CUgraphNode* nodes, std::size_t* count) {
    if (nodes != nullptr) *nodes = handle<CUgraphNode>(1);
    *count = 1;
    return CUDA_SUCCESS;
  };
  driver_.api().cuFuncGetParamInfo = [](CUfunction, std::size_t index, std::size_t* offset, std::size_t* bytes) {
    *offset = index * 8;
    *bytes = index == 0 ? 8 : 4;
    return index < 2 ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
  };
  driver_.node_type = CU_GRAPH_NODE_TYPE_KERNEL;
  driver_.node_attributes[CU_LAUNCH_ATTRIBUTE_CLUSTER_DIMENSION] = {};
  std::uint64_t block[] = {0x1234, 5};
  std::size_t bytes = sizeof block;
  void* extra[] = {CU_LAUNCH_PARAM_BUFFER_POINTER, block, CU_LAUNCH_PARAM_BUFFER_SIZE, &bytes, CU_LAUNCH_PARAM_END};
  driver_.node_extra = extra;
  const auto first = inspect::read_node_values(backend_, handle<CUgraph>(1));
  block[1] = 6;
  const auto changed = inspect::changed_values(first, inspect::read_node_values(backend_, handle<CUgraph>(1)));
  ASSERT_EQ(changed.size(), 1U);
  EXPECT_EQ(changed[0].value.parameter, 1);
  EXPECT_EQ(changed[0].value.bytes, 4U);
  EXPECT_EQ(changed[0].first, 5U);
  EXPECT_EQ(changed[0].value.value, 6U);
  EXPECT_FALSE(changed[0].value.perhaps);
}

TEST_F(CudaNodeTest, ArgumentsInAnUnknownFormHaveNoBlock) {
  std::size_t bytes = 8, too_many = 1 << 20;
  void* unknown[] = {reinterpret_cast<void*>(9), &bytes, CU_LAUNCH_PARAM_END};
  void* without_size[] = {CU_LAUNCH_PARAM_BUFFER_POINTER, &bytes, CU_LAUNCH_PARAM_END};
  void* too_large[] = {CU_LAUNCH_PARAM_BUFFER_POINTER, &bytes, CU_LAUNCH_PARAM_BUFFER_SIZE, &too_many,
                       CU_LAUNCH_PARAM_END};
  for (void** const extra : {static_cast<void**>(nullptr), unknown, without_size, too_large})
    EXPECT_FALSE(packed_arguments(extra).has_value());
}

TEST_F(CudaNodeTest, KernelsOfTheLibraryAreKnownByTheirFunctionsOnEveryDevice) {
  KernelRecord made;  // its function is another one in each context
  made.cuda_function = [](const KernelRecord&, FunctionHandle* function) {
    *function = handle<CUfunction>(reinterpret_cast<std::uintptr_t>(FakeDriver::contexts().back()) + 0xf0000);
    return 0;
  };
  static const KernelRecord own = made;
  add_own_record(own);
  CudaBackend other(driver_.api(), 1, 1);
  FunctionHandle here = nullptr, there = nullptr, not_own = nullptr;
  EXPECT_EQ(backend_.kernel_function(own, &here), ErrorCode::success);
  EXPECT_EQ(other.kernel_function(own, &there), ErrorCode::success);
  ASSERT_NE(here, there);
  // A graph of one device can have nodes of the other one.
  for (const CudaBackend* const backend : {&std::as_const(backend_), &std::as_const(other)})
    for (FunctionHandle const function : {here, there}) EXPECT_EQ(own_record(*backend, function), &own);
  EXPECT_EQ(own_record(backend_, handle<CUfunction>(0x0f4)), nullptr);
  EXPECT_EQ(own_record(backend_, nullptr), nullptr);
  made.cuda_function = [](const KernelRecord&, FunctionHandle* function) {
    *function = handle<CUfunction>(0xabc);
    return 0;
  };
  static const KernelRecord of_user = made;
  EXPECT_EQ(backend_.kernel_function(of_user, &not_own), ErrorCode::success);
  EXPECT_EQ(own_record(backend_, not_own), nullptr);
}

class CudaCopyTest : public CudaNodeTest {
 protected:
  static CUDA_MEMCPY3D device_to_host() {
    CUDA_MEMCPY3D copy{};
    copy.srcMemoryType = CU_MEMORYTYPE_DEVICE;
    copy.srcDevice = 0x10000;
    copy.dstMemoryType = CU_MEMORYTYPE_HOST;
    copy.dstHost = reinterpret_cast<void*>(0x20000);
    copy.WidthInBytes = 8;
    copy.Height = 1;
    copy.Depth = 1;
    return copy;
  }
};

TEST_F(CudaCopyTest, OfOtherCodeShowsWhereItBegins) {
  CUDA_MEMCPY3D copy = device_to_host();
  copy.srcXInBytes = 4;
  copy.dstY = 2;
  copy.dstPitch = 100;
  const auto params = std::get<MemcpyNodeParams>(from_driver(copy));
  EXPECT_EQ(params.source, to_pointer(0x10004));
  EXPECT_EQ(params.destination, to_pointer(0x20000 + 200));
  EXPECT_EQ(params.bytes, 8U);
}

TEST_F(CudaCopyTest, OfRowsWithoutGapsIsOneRow) {
  CUDA_MEMCPY3D copy = device_to_host();
  copy.Height = 3;
  copy.srcPitch = copy.dstPitch = 8;
  copy.Depth = 2;
  copy.srcHeight = copy.dstHeight = 3;
  EXPECT_EQ(std::get<MemcpyNodeParams>(from_driver(copy)).bytes, 48U);
}

TEST_F(CudaCopyTest, OfRowsWithGapsHasTheEndsOfTheCopy) {
  CUDA_MEMCPY3D gaps = device_to_host();
  gaps.Height = 3;
  gaps.srcPitch = 16;
  gaps.srcY = 1;
  gaps.dstPitch = 8;
  const auto params = std::get<PitchedCopyNodeParams>(from_driver(gaps));
  EXPECT_EQ(params.source.address, to_pointer(0x10010));
  EXPECT_EQ(params.source.bytes, 40U) << "two rows with their gaps, and one without";
  EXPECT_EQ(params.destination.address, to_pointer(0x20000));
  EXPECT_EQ(params.destination.bytes, 24U);
  EXPECT_EQ(params.row_bytes, 8U);
  EXPECT_EQ(params.rows, 3U);
}

TEST_F(CudaCopyTest, OfSlicesWithGapsHasTheEndsOfTheCopy) {
  CUDA_MEMCPY3D slices = device_to_host();
  slices.Depth = 2;
  slices.srcPitch = slices.dstPitch = 8;
  slices.srcHeight = 5;
  slices.dstHeight = 1;
  const auto params = std::get<PitchedCopyNodeParams>(from_driver(slices));
  EXPECT_EQ(params.source.bytes, 48U);
  EXPECT_EQ(params.destination.bytes, 16U);
  EXPECT_EQ(params.rows, 2U);
  slices.srcHeight = 1;
  slices.srcPitch = 100;
  EXPECT_EQ(std::get<PitchedCopyNodeParams>(from_driver(slices)).source.bytes, 108U) << "slices of one row";
}

TEST_F(CudaCopyTest, OfAnArrayHasTheOtherEnd) {
  CUDA_MEMCPY3D array = device_to_host();
  array.srcMemoryType = CU_MEMORYTYPE_ARRAY;
  driver_.node_type = CU_GRAPH_NODE_TYPE_MEMCPY;
  driver_.copy = array;
  ASSERT_EQ(backend_.graph_node_params(handle<CUgraphNode>(1), &params_), ErrorCode::success);
  const auto& params = std::get<PitchedCopyNodeParams>(params_);
  EXPECT_EQ(params.source.address, nullptr);
  EXPECT_EQ(params.source.bytes, 0U);
  EXPECT_EQ(params.destination.address, to_pointer(0x20000));
  EXPECT_EQ(params.destination.bytes, 8U);
}

TEST_F(CudaCopyTest, OfRowsWithGapsIsReadOnly) {
  params_ = PitchedCopyNodeParams{};
  GraphNodeHandle node = nullptr;
  EXPECT_EQ(backend_.graph_add_node(&node, handle<CUgraph>(1), {}, params_), ErrorCode::not_supported);
  EXPECT_EQ(backend_.graph_node_set_params(handle<CUgraphNode>(1), params_), ErrorCode::not_supported);
  const Result refused = backend_.graph_exec_node_set_params(handle<CUgraphExec>(1), handle<CUgraphNode>(1), params_);
  EXPECT_EQ(refused, ErrorCode::not_supported);
  EXPECT_NE(refused.detail().find("read only in this library"), std::string::npos);
}

TEST_F(CudaCopyTest, SetsOfRowsFollowTheSameRule) {
  CUDA_MEMSET_NODE_PARAMS set{};
  set.elementSize = 4;
  set.width = 2;
  set.height = 3;
  set.pitch = 8;
  set.dst = 0x4000;
  EXPECT_EQ(std::get<MemsetNodeParams>(from_driver(set)).count, 6U);
  set.pitch = 16;
  const auto params = std::get<PitchedSetNodeParams>(from_driver(set));
  EXPECT_EQ(params.destination, reinterpret_cast<void*>(0x4000));
  EXPECT_EQ(params.bytes, 40U) << "two pitches, and the last row";
  EXPECT_EQ(params.row_bytes, 8U);
  EXPECT_EQ(params.rows, 3U);
}

class CudaMovedCopyTest : public CudaCopyTest {
 protected:
  static constexpr std::uintptr_t on_device = 0x11000, pinned = 0x21000, pageable = 0x31000;

  CudaMovedCopyTest() {
    driver_.api().cuPointerGetAttributes = [](unsigned, CUpointer_attribute*, void** values, CUdeviceptr address) {
      *static_cast<unsigned*>(values[0]) = address < 0x20000   ? unsigned{CU_MEMORYTYPE_DEVICE}
                                           : address < 0x30000 ? unsigned{CU_MEMORYTYPE_HOST}
                                                               : 0;
      return CUDA_SUCCESS;
    };
    driver_.node_type = CU_GRAPH_NODE_TYPE_MEMCPY;
    driver_.copy = device_to_host();
  }
};

// CUDA takes such an update of unified addresses, and the launch after it ends in an illegal address.
TEST_F(CudaMovedCopyTest, FromDeviceToPageableMemoryIsFound) {
  graphs::KernelLayouts layouts;
  const graphs::NodeImage image(backend_, handle<CUgraphNode>(1), layouts);
  auto* const node = handle<CUgraphNode>(1);
  const auto leaves = [&](MemcpyNodeParams before, MemcpyNodeParams after) {
    graphs::NodeImage from = image, to = image;
    from.copy() = before;
    to.copy() = after;
    const auto device_of = [](const void* end) {
      return reinterpret_cast<std::uintptr_t>(end) < pinned ? std::optional(0) : std::nullopt;
    };
    graphs::NodeChanges changes;
    changes.executable_made({{node, {device_of(before.source), device_of(before.destination)}}});
    from.copy().source = to_pointer(pinned);  // as after an update in between
    return changes.leaves_device(backend_, node, from, to);
  };
  void *const device = to_pointer(on_device), *const other = to_pointer(on_device + 8);
  EXPECT_TRUE(leaves({device, device, 8}, {device, to_pointer(pageable), 8}));
  EXPECT_TRUE(leaves({device, device, 8}, {to_pointer(pageable), device, 8}));
  EXPECT_FALSE(leaves({device, device, 8}, {other, to_pointer(pinned), 8}));
  EXPECT_FALSE(leaves({device, to_pointer(pinned), 8}, {device, to_pointer(pageable), 8}));
  EXPECT_FALSE(leaves({device, to_pointer(pageable), 8}, {device, to_pointer(pageable + 8), 8}));
}

// An update of the executable refuses other memory types, and torch captures copies with DEVICE and HOST.
TEST_F(CudaMovedCopyTest, KeepsTheMemoryTypesThatItWasMadeWithWhereTheyFit) {
  const auto types = [&](std::uintptr_t to, std::uintptr_t from) {
    const NodeParams params = MemcpyNodeParams{to_pointer(to), to_pointer(from), 16};
    EXPECT_EQ(backend_.graph_node_set_params(handle<CUgraphNode>(1), params), ErrorCode::success);
    const CUDA_MEMCPY3D& copy = driver_.changed.memcpy.copyParams;
    EXPECT_EQ(std::get<MemcpyNodeParams>(from_driver(copy)).source, to_pointer(from));
    EXPECT_EQ(std::get<MemcpyNodeParams>(from_driver(copy)).destination, to_pointer(to));
    return std::pair(copy.dstMemoryType, copy.srcMemoryType);
  };
  EXPECT_EQ(types(pinned, on_device), std::pair(CU_MEMORYTYPE_HOST, CU_MEMORYTYPE_DEVICE));
  EXPECT_EQ(types(pageable, pinned), std::pair(CU_MEMORYTYPE_HOST, CU_MEMORYTYPE_DEVICE));
  EXPECT_EQ(types(on_device, pageable), std::pair(CU_MEMORYTYPE_UNIFIED, CU_MEMORYTYPE_UNIFIED));
  driver_.copy.srcMemoryType = driver_.copy.dstMemoryType = CU_MEMORYTYPE_UNIFIED;
  EXPECT_EQ(types(pinned, on_device), std::pair(CU_MEMORYTYPE_UNIFIED, CU_MEMORYTYPE_UNIFIED));
}

TEST_F(CudaNodeTest, NodesOfASmallGraphAreReadByOneCall) {
  static std::size_t nodes, calls;
  driver_.api().cuGraphGetNodes = [](CUgraph, CUgraphNode* found, std::size_t* count) {
    ++calls;
    for (std::size_t i = 0; found != nullptr && i < *count; ++i)
      found[i] = i < nodes ? handle<CUgraphNode>(i + 1) : nullptr;
    *count = found != nullptr ? std::min(nodes, *count) : nodes;
    return CUDA_SUCCESS;
  };
  for (nodes = 0; nodes < 70; ++nodes) {
    calls = 0;
    std::vector<GraphNodeHandle> found;
    ASSERT_EQ(backend_.graph_nodes(handle<CUgraph>(1), &found), ErrorCode::success);
    ASSERT_EQ(found.size(), nodes);
    for (std::size_t i = 0; i < nodes; ++i) EXPECT_EQ(found[i], handle<CUgraphNode>(i + 1));
    EXPECT_EQ(calls, nodes < 32 ? 1u : 3u) << nodes;
  }
}

}  // namespace
}  // namespace reprise::backend::cuda::test
