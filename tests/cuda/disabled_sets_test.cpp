// SPDX-License-Identifier: Apache-2.0
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <map>
#include <utility>

#include "backend/cuda/cuda_backend.h"
#include "backend/cuda/node_params.h"
#include "tests/fakes/fake_driver.h"

// Disabled sets, which the driver executes on memory that nothing reads (cuda_backend_disabled.cpp).

namespace reprise::backend::cuda::test {
namespace {

constexpr CUdeviceptr unread = 0xbad;  // what the fake driver allocates

/// What a set node writes: address, value, size and number of elements.
struct Set {
  CUdeviceptr to;
  unsigned value, element_bytes;
  std::size_t count;
  friend bool operator==(const Set&, const Set&) = default;
};

class DisabledSets : public ::testing::Test {
 protected:
  DisabledSets() {
    driver_.node_type = CU_GRAPH_NODE_TYPE_MEMSET;
    in_exec_.clear();
    in_template_ = {0x7000, 9, 2, 5};
    refused_ = CUDA_SUCCESS;
    enabled_by_driver_ = 0;
    driver_.api().cuGraphMemsetNodeGetParams = [](CUgraphNode, CUDA_MEMSET_NODE_PARAMS* params) {
      *params = {};
      params->dst = in_template_.to;
      params->value = in_template_.value;
      params->elementSize = in_template_.element_bytes;
      params->width = in_template_.count;
      params->height = 1;
      return CUDA_SUCCESS;
    };
    driver_.api().cuGraphExecNodeSetParams = [](CUgraphExec exec, CUgraphNode node, CUgraphNodeParams* params) {
      if (refused_ != CUDA_SUCCESS) return refused_;
      const auto& set = params->memset;
      in_exec_[{exec, node}] = {set.dst, set.value, set.elementSize, set.width};
      return CUDA_SUCCESS;
    };
    driver_.api().cuGraphNodeSetEnabled = [](CUgraphExec, CUgraphNode, unsigned enabled) {
      enabled_by_driver_ += enabled != 0 ? 1 : 100;
      return CUDA_SUCCESS;
    };
    driver_.api().cuGraphNodeGetEnabled = [](CUgraphExec, CUgraphNode, unsigned* enabled) {
      *enabled = 1;  // the driver never disables a set
      return CUDA_SUCCESS;
    };
    // The executable has the values of the graph.
    driver_.api().cuGraphExecUpdate = [](CUgraphExec exec, CUgraph, CUgraphExecUpdateResultInfo*) {
      for (auto& [place, set] : in_exec_)
        if (place.first == exec) set = in_template_;
      return CUDA_SUCCESS;
    };
    driver_.api().cuGraphExecDestroy = [](CUgraphExec) { return CUDA_SUCCESS; };
  }

  Result enable(bool enabled, CUgraphExec exec) { return backend_.graph_node_set_enabled(exec, node_, enabled); }
  bool enabled(CUgraphExec exec) {
    bool found = false;
    EXPECT_EQ(backend_.graph_node_enabled(exec, node_, &found), ErrorCode::success);
    return found;
  }
  Set in(CUgraphExec exec) const { return in_exec_.at({exec, node_}); }

  static inline std::map<std::pair<CUgraphExec, CUgraphNode>, Set> in_exec_;  // what was set in executables
  static inline Set in_template_;
  static inline CUresult refused_;
  static inline int enabled_by_driver_;

  const CUgraphNode node_ = handle<CUgraphNode>(0x20de);
  const CUgraphExec exec_ = handle<CUgraphExec>(1), other_ = handle<CUgraphExec>(2);
  FakeDriver driver_;
  CudaBackend backend_{driver_.api(), 3, 3};
};

TEST_F(DisabledSets, WriteOneElementOfMemoryThatNothingReads) {
  EXPECT_TRUE(enabled(exec_));
  EXPECT_EQ(enable(false, exec_), ErrorCode::success);
  EXPECT_EQ(in(exec_), (Set{unread, 9, 2, 1}));
  EXPECT_FALSE(enabled(exec_));
  EXPECT_EQ(enabled_by_driver_, 0) << "it stays enabled for the driver";
  EXPECT_TRUE(enabled(other_)) << "another executable of the same template";
}

TEST_F(DisabledSets, AreWhatTheyWereWhenTheyAreEnabledAgain) {
  EXPECT_EQ(enable(false, exec_), ErrorCode::success);
  EXPECT_EQ(enable(false, exec_), ErrorCode::success);  // the unread memory is not taken for theirs
  EXPECT_EQ(enable(true, exec_), ErrorCode::success);
  EXPECT_EQ(in(exec_), (Set{0x7000, 9, 2, 5}));
  EXPECT_TRUE(enabled(exec_));
  EXPECT_EQ(enable(true, exec_), ErrorCode::success);
  EXPECT_EQ(enabled_by_driver_, 1) << "one that this library did not disable is the driver's";
}

TEST_F(DisabledSets, KeepChangesOfTheirParametersUntilTheyAreEnabled) {
  EXPECT_EQ(enable(false, exec_), ErrorCode::success);
  const NodeParams changed = MemsetNodeParams{to_pointer(0x7100), 4, 1, 8};
  EXPECT_EQ(backend_.graph_exec_node_set_params(exec_, node_, changed), ErrorCode::success);
  EXPECT_EQ(in(exec_), (Set{unread, 4, 1, 1}));
  refused_ = CUDA_ERROR_INVALID_VALUE;
  const NodeParams refused = MemsetNodeParams{to_pointer(0x7200), 5, 1, 8};
  EXPECT_EQ(backend_.graph_exec_node_set_params(exec_, node_, refused), ErrorCode::invalid_value);
  refused_ = CUDA_SUCCESS;
  EXPECT_EQ(enable(true, exec_), ErrorCode::success);
  EXPECT_EQ(in(exec_), (Set{0x7100, 4, 1, 8}));
}

TEST_F(DisabledSets, StayDisabledInAnUpdateAndHaveItsValuesAfterwards) {
  EXPECT_EQ(enable(false, exec_), ErrorCode::success);
  in_template_ = {0x7300, 6, 4, 3};
  UpdateInfo info;
  EXPECT_EQ(backend_.graph_exec_update(exec_, handle<CUgraph>(1), &info), ErrorCode::success);
  EXPECT_EQ(in(exec_), (Set{unread, 6, 4, 1}));
  EXPECT_FALSE(enabled(exec_));
  EXPECT_EQ(enable(true, exec_), ErrorCode::success);
  EXPECT_EQ(in(exec_), (Set{0x7300, 6, 4, 3}));
}

TEST_F(DisabledSets, AreForgottenWithTheirExecutable) {
  EXPECT_EQ(enable(false, exec_), ErrorCode::success);
  EXPECT_EQ(enable(false, other_), ErrorCode::success);
  EXPECT_EQ(backend_.graph_exec_destroy(exec_), ErrorCode::success);
  EXPECT_TRUE(enabled(exec_)) << "a later executable has the same handle";
  EXPECT_FALSE(enabled(other_));
}

TEST_F(DisabledSets, AreAsBeforeWhenTheDriverRefuses) {
  refused_ = CUDA_ERROR_INVALID_VALUE;
  EXPECT_EQ(enable(false, exec_), ErrorCode::invalid_value);
  EXPECT_TRUE(enabled(exec_));
  refused_ = CUDA_SUCCESS;
  EXPECT_EQ(enable(false, exec_), ErrorCode::success);
  refused_ = CUDA_ERROR_INVALID_VALUE;
  EXPECT_EQ(enable(true, exec_), ErrorCode::invalid_value);
  EXPECT_FALSE(enabled(exec_));
}

TEST_F(DisabledSets, NeedMemoryOfTheDeviceWhichIsRequestedInModeRelaxedAndAgainAfterAFailure) {
  static int allocations;
  static CUstreamCaptureMode mode;
  allocations = 0;
  driver_.api().cuMemAlloc = [](CUdeviceptr* pointer, std::size_t) {
    mode = FakeDriver::capture_mode();
    *pointer = ++allocations == 1 ? 0xdead : unread;  // on failure, too, as a driver might
    return allocations == 1 ? CUDA_ERROR_OUT_OF_MEMORY : CUDA_SUCCESS;
  };
  EXPECT_EQ(enable(false, exec_), ErrorCode::out_of_memory);
  EXPECT_EQ(mode, CU_STREAM_CAPTURE_MODE_RELAXED);
  EXPECT_EQ(FakeDriver::capture_mode(), CU_STREAM_CAPTURE_MODE_GLOBAL);
  EXPECT_TRUE(enabled(exec_));
  EXPECT_EQ(enable(false, exec_), ErrorCode::success);
  EXPECT_EQ(in(exec_).to, unread);
  EXPECT_EQ(enable(false, other_), ErrorCode::success);
  EXPECT_EQ(allocations, 2) << "once for the device";
}

}  // namespace
}  // namespace reprise::backend::cuda::test
