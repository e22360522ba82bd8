// SPDX-License-Identifier: Apache-2.0
#include <map>

#include "backend/backend.h"
#include "backend/monitor.h"
#include "tests/cuda_libraries/cuda_test.h"

// What CUPTI reports of the nodes of a replay: plain launches, copies and sets of CUDA's runtime.

namespace reprise::test {

__global__ void slow(int* x, int rounds) {
  unsigned value = *x;
  for (int i = 0; i < rounds; ++i) value = value * 1664525U + 1013904223U;
  *x = static_cast<int>(value);
}

template <class T>
__global__ void quick(T* x) {
  *x += 1;
}

namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::SizeIs;

class TimeReplayOnCuda : public CudaTest {
 protected:
  void SetUp() override {
    CudaTest::SetUp();
    if (IsSkipped()) return;
    x_.emplace(1024);
    x_->fill_bytes_async(0);
    y_.emplace(1024);
    y_->fill_bytes_async(0);
    stream().synchronize();
    CUDAGraph graph(KeepGraph::yes);
    capture(graph, [&] { quick<<<1, 1, 0, current_stream().native()>>>(x_->data()); });
    graph.instantiate();
    std::string why;
    // Under a sanitizer or a profiler, for one.
    if (device().backend().monitor().watch_nodes(graph.raw_cuda_graph(), graph.raw_cuda_graph_exec(), &why) == nullptr)
      GTEST_SKIP() << why;
  }

  std::optional<Buffer<int>> x_, y_;
  CUDAGraph graph_;
};

TEST_F(TimeReplayOnCuda, NamesPlainLaunchesCopiesAndSets) {
  capture(graph_, [&] {
    const cudaStream_t on = current_stream().native();
    ASSERT_EQ(cudaMemsetAsync(x_->data(), 0, 4096, on), cudaSuccess);
    slow<<<1, 1, 0, on>>>(x_->data(), 1000);
    quick<<<1, 1, 0, on>>>(x_->data());
    // The GPU copies this size by a kernel.
    ASSERT_EQ(cudaMemcpyAsync(y_->data(), x_->data(), 64, cudaMemcpyDeviceToDevice, on), cudaSuccess);
    ASSERT_EQ(cudaMemcpyAsync(y_->data(), x_->data(), 4096, cudaMemcpyDeviceToDevice, on), cudaSuccess);
  });
  graph_.replay();  // made and run before CUPTI looks
  const ReplayTiming timing = time_replay(graph_, stream());
  std::vector<std::string> names;
  for (std::size_t i = 0; i < timing.nodes.size(); ++i) {
    names.push_back(timing.nodes[i].name);
    EXPECT_EQ(timing.nodes[i].index, i);
    EXPECT_GT(timing.nodes[i].duration_us, 0);
  }
  EXPECT_THAT(names, ElementsAre("memset", "reprise::test::slow", "reprise::test::quick<int>", "memcpy", "memcpy"));
  EXPECT_THAT(timing.notes, IsEmpty());
}

TEST_F(TimeReplayOnCuda, AnnotatesTheNodesOfTwoStreams) {
  const Stream other(device());
  capture(graph_, {.enable_annotations = true}, [&] {
    const StreamRef here = current_stream();
    other.wait(here);
    {
      const annotate scope("left");
      for (int i = 0; i < 3; ++i) slow<<<1, 1, 0, here.native()>>>(x_->data(), 1000);
    }
    {
      const annotate scope("right");
      for (int i = 0; i < 2; ++i) slow<<<1, 1, 0, other.native()>>>(y_->data(), 1000);
    }
    here.wait(other);
    quick<<<1, 1, 0, here.native()>>>(x_->data());
  });
  const ReplayTiming timing = time_replay(graph_, stream());
  EXPECT_THAT(timing.nodes, SizeIs(6));
  std::map<std::string, std::size_t> nodes;
  for (const AnnotationTiming& sum : timing.annotations) {
    nodes[sum.annotation.at("name")] = sum.nodes;
    EXPECT_LE(sum.span_us, timing.total_us);
  }
  EXPECT_EQ(nodes, (std::map<std::string, std::size_t>{{"left", 3}, {"right", 2}}));
}

TEST_F(TimeReplayOnCuda, CountsHostFunctionsAmongTheNodesWithoutATime) {
  capture(graph_, [&] {
    const cudaStream_t on = current_stream().native();
    quick<<<1, 1, 0, on>>>(x_->data());
    ASSERT_EQ(cudaLaunchHostFunc(
                  on, [](void*) {}, nullptr),
              cudaSuccess);
  });
  const ReplayTiming timing = time_replay(graph_, stream());
  EXPECT_THAT(timing.nodes, SizeIs(1));
  EXPECT_THAT(timing.notes, ElementsAre(HasSubstr("have no time: 1 host.")));
}

TEST_F(TimeReplayOnCuda, HasEachOfManyNodesOnce) {
  constexpr std::size_t count = 12000;  // more than one buffer of records
  capture(graph_, [&] {
    for (std::size_t i = 0; i < count; ++i) quick<<<1, 1, 0, current_stream().native()>>>(x_->data());
  });
  const ReplayTiming timing = time_replay(graph_, stream());
  ASSERT_THAT(timing.nodes, SizeIs(count));
  for (std::size_t i = 0; i < count; ++i) ASSERT_EQ(timing.nodes[i].index, i);
}

TEST_F(TimeReplayOnCuda, DoesNotDisturbFullCaptureReports) {
  set_log_sink([](std::string_view) {});  // a capture that leaves something out warns
  for (int i = 0; i < 3; ++i) {
    CUDAGraph graph;
    capture(graph, {.report = ReportDetail::full}, [&] {
      quick<<<1, 1, 0, current_stream().native()>>>(x_->data());
      quick<<<1, 1, 0, cudaStreamLegacy>>>(y_->data());  // not captured
    });
    ASSERT_TRUE(graph.capture_report().has_value());
    EXPECT_THAT(graph.capture_report()->not_captured, SizeIs(1));
    EXPECT_THAT(time_replay(graph, stream()).nodes, SizeIs(1));
  }
  set_log_sink({});
}

}  // namespace
}  // namespace reprise::test
