// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <future>
#include <optional>
#include <string>
#include <variant>
#include <vector>

#include "backend/backend.h"
#include "reprise/cublas.h"
#include "tests/cuda_libraries/cuda_test.h"
#include "tests/cuda_libraries/kernels.cuh"

// Annotations on work that this library does not see: plain launches, calls of the runtime, cuBLAS.

namespace reprise::test {
namespace {

__global__ void add_plainly(float* x, unsigned count) {
  const unsigned i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < count) x[i] += 1;
}

class AnnotationsOfOthers : public CudaTest {
 protected:
  void SetUp() override {
    CudaTest::SetUp();
    if (IsSkipped()) return;
    for (Buffer<float>* buffer : {&a_, &b_, &c_}) {
      *buffer = Buffer<float>(std::size_t{n} * n);
      buffer->fill_bytes_async(0);
    }
    blas_.emplace(device());
    multiply();  // cuBLAS loads its kernels at their first use, which is not for a capture
    add(a_);
    current_stream().synchronize();
  }

  static void add(Buffer<float>& x, const StreamRef& stream = current_stream()) {
    add_plainly<<<1, n, 0, stream.native()>>>(x.data(), n);
    EXPECT_EQ(cudaGetLastError(), cudaSuccess);
  }
  void multiply() {
    const float one = 1, zero = 0;
    check_cublas(cublasSgemm(blas_->on(), CUBLAS_OP_N, CUBLAS_OP_N, n, n, n, &one, a_.data(), n, b_.data(), n, &zero,
                             c_.data(), n),
                 "cublasSgemm");
  }
  static GraphOptions annotated() {
    GraphOptions options;
    options.enable_annotations = true;
    options.capture_error_mode = CaptureMode::relaxed;
    return options;
  }
  /// The name of each node, in order of creation; empty for none.
  static std::vector<std::string> names(const CUDAGraph& graph) {
    std::vector<std::string> found(graph.node_count());
    for (const AnnotatedNode& each : graph.annotations()) found.at(each.index) = each.annotation.at("name");
    return found;
  }

  Buffer<float> a_, b_, c_;
  std::optional<CublasHandle> blas_;
};

TEST_F(AnnotationsOfOthers, AreOnPlainLaunchesAndCallsOfTheRuntime) {
  CUDAGraph graph;
  capture(graph, annotated(), [&] {
    add(a_);
    const annotate scope("plain");
    add(a_);
    EXPECT_EQ(cudaMemsetAsync(b_.data(), 0, n, current_stream().native()), cudaSuccess);
    EXPECT_EQ(cudaMemcpyAsync(c_.data(), b_.data(), n, cudaMemcpyDeviceToDevice, current_stream().native()),
              cudaSuccess);
  });
  EXPECT_EQ(names(graph), (std::vector<std::string>{"", "plain", "plain", "plain"}));
}

TEST_F(AnnotationsOfOthers, AreOnAllWorkOfCublas) {
  CUDAGraph graph;
  capture(graph, annotated(), [&] {
    {
      const annotate scope("before");
      add(a_);
    }
    {
      const annotate scope("product");
      multiply();
    }
    const annotate scope("after");
    add(a_);
  });
  std::vector<std::string> found = names(graph);
  ASSERT_GE(found.size(), 3u);
  EXPECT_EQ(found.front(), "before");
  EXPECT_EQ(found.back(), "after");
  EXPECT_TRUE(std::all_of(found.begin() + 1, found.end() - 1, [](const auto& name) { return name == "product"; }));
  graph.replay();
  current_stream().synchronize();
  EXPECT_EQ(names(graph), found);
}

// Many turns: the graph is looked at while the other thread captures into it.
TEST_F(AnnotationsOfOthers, OfTwoThreadsThatCaptureAtOnceAreToldApart) {
  constexpr int turns = 200;
  const Stream side(device());
  CUDAGraph graph;
  const auto work = [&](const char* name, Buffer<float>& x) {
    for (int i = 0; i < turns; ++i) {
      const annotate scope(name);
      add(x);
      add(x);
    }
  };
  capture(graph, annotated(), [&] {
    const StreamRef here = current_stream();
    add(c_);
    side.wait(here);
    auto other = std::async(std::launch::async, [&] {
      EXPECT_EQ(cudaSetDevice(device().index()), cudaSuccess);
      const StreamGuard there(side);
      work("other", b_);
    });
    work("mine", a_);
    other.get();
    here.wait(side);
  });
  // The first argument of its kernel shows which thread a node is of.
  std::size_t mine = 0, others = 0;
  backend::Backend& runtime = device().backend();
  for (const AnnotatedNode& each : graph.annotations()) {
    backend::NodeParams params;
    ASSERT_EQ(runtime.graph_node_params(each.node, &params), ErrorCode::success);
    const auto* const launch = std::get_if<backend::KernelNodeParams>(&params);
    ASSERT_NE(launch, nullptr);
    const bool is_mine = *static_cast<float* const*>(launch->params[0]) == a_.data();
    EXPECT_EQ(each.annotation.at("name"), is_mine ? "mine" : "other") << "node " << each.index;
    ++(is_mine ? mine : others);
  }
  EXPECT_EQ(mine, std::size_t{2} * turns);
  EXPECT_EQ(others, std::size_t{2} * turns);
}

}  // namespace
}  // namespace reprise::test
