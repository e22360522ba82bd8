// SPDX-License-Identifier: Apache-2.0
#include "reprise/cublas.h"

#include <optional>
#include <string>
#include <string_view>
#include <thread>
#include <vector>

#include "backend/backend.h"
#include "backend/monitor.h"
#include "tests/cuda_libraries/cuda_test.h"

// cuBLAS in captures.

namespace reprise::test {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;

constexpr int n = 384;
constexpr std::size_t size = std::size_t{n} * n;

// c = a * b, n by n, column-major.
void multiply(CublasHandle& blas, const Buffer<float>& a, const Buffer<float>& b, Buffer<float>& c,
              const StreamRef& stream = current_stream()) {
  const float one = 1, zero = 0;
  check_cublas(cublasSgemm(blas.on(stream), CUBLAS_OP_N, CUBLAS_OP_N, n, n, n, &one, a.data(), n, b.data(), n, &zero,
                           c.data(), n),
               "cublasSgemm");
}

std::vector<float> product(const std::vector<float>& a, const std::vector<float>& b) {
  std::vector<float> c(size, 0);
  for (std::size_t column = 0; column < n; ++column)
    for (std::size_t k = 0; k < n; ++k)
      for (std::size_t row = 0; row < n; ++row) c[column * n + row] += a[k * n + row] * b[column * n + k];
  return c;
}

class Cublas : public CudaTest {
 protected:
  void SetUp() override {
    CudaTest::SetUp();
    if (IsSkipped()) return;
    blas_.emplace(device());
    for (Buffer<float>* buffer : {&a_, &b_, &c_, &d_}) *buffer = Buffer<float>(size);
    set(a_, 1);
    set(b_, 2);
    clear_results();
    // cuBLAS loads its kernels at their first use, which is not for a capture, and eats memory.
    multiply(*blas_, a_, b_, c_);
    clear_results();
    options_.pool = graph_pool_handle();
  }

  static void set(Buffer<float>& x, unsigned seed) { x.write_async(whole_numbers(size, seed)); }
  void clear_results() {
    c_.fill_bytes_async(0xff);
    d_.fill_bytes_async(0xff);
    current_stream().synchronize();
  }
  static std::vector<float> expected(unsigned a, unsigned b) {
    return product(whole_numbers(size, a), whole_numbers(size, b));
  }
  // Overwrites what is free, before a replay that must not depend on it.
  std::vector<float> replayed(CUDAGraph& graph) {
    clear_results();
    Buffer<float> other(std::size_t{16} << 20);
    other.fill_bytes_async(0xff);
    graph.replay();
    return read(c_);
  }
  PoolStatistics pool() const { return allocator().statistics(options_.pool); }

  std::optional<CublasHandle> blas_;
  Buffer<float> a_, b_, c_, d_;
  GraphOptions options_;
};

TEST_F(Cublas, ACapturedProductIsTheEagerOneInEachReplay) {
  CUDAGraph graph;
  capture(graph, options_, [&] { multiply(*blas_, a_, b_, c_); });
  for (unsigned seed = 1; seed < 5; ++seed) {
    set(a_, seed);
    multiply(*blas_, a_, b_, d_);
    const std::vector<float> eager = read(d_);
    EXPECT_EQ(eager, expected(seed, 2));
    EXPECT_EQ(replayed(graph), eager);
  }
}

TEST_F(Cublas, ItsKernelsTakeTheAddressesOfParameters) {
  CUDAGraph graph;
  capture(graph, options_, [&] { multiply(*blas_, a_, b_, c_); });
  Buffer<float> other(size);
  set(other, 7);
  const Parameter<float*> of_a = graph.parameter(a_.data());
  const Parameter<float*> of_c = graph.parameter(c_.data());
  graph.set({{of_a, other.data()}, {of_c, d_.data()}});
  clear_results();
  graph.replay();
  EXPECT_EQ(read(d_), expected(7, 2));
  graph.set({{of_a, a_.data()}, {of_c, c_.data()}});
  EXPECT_EQ(replayed(graph), expected(1, 2));
}

TEST_F(Cublas, GraphsOfItAreUpdatedAndRecaptured) {
  CUDAGraph graph;
  capture(graph, options_, [&] { multiply(*blas_, a_, b_, c_); });
  EXPECT_TRUE(graph.recapture([&] { multiply(*blas_, b_, a_, c_); }).in_place);
  EXPECT_EQ(replayed(graph), expected(2, 1));
  CUDAGraph like;
  capture(like, options_, [&] { multiply(*blas_, a_, a_, c_); });
  graph.update(like);
  EXPECT_EQ(replayed(graph), expected(1, 1));
}

TEST_F(Cublas, RunsInBodiesOfConditionalNodes) {
  Buffer<std::uint32_t> flag(1);
  CUDAGraph graph;
  capture(graph, options_, [&] { if_(flag.data(), [&] { multiply(*blas_, a_, b_, c_); }); });
  flag.write_async(std::vector<std::uint32_t>{1});
  EXPECT_EQ(replayed(graph), expected(1, 2));
  c_.fill_bytes_async(0);
  flag.write_async(std::vector<std::uint32_t>{0});
  graph.replay();
  EXPECT_EQ(read(c_), std::vector<float>(size, 0));
}

TEST_F(Cublas, InACaptureUsesAWorkspaceOfTheGraph) {
  CUDAGraph graph;
  capture(graph, options_, [&] { multiply(*blas_, a_, b_, c_); });
  EXPECT_EQ(pool().allocated_bytes, blas_->workspace_bytes());
  graph.reset();
  EXPECT_EQ(pool().reserved_bytes, 0u);
}

TEST_F(Cublas, SixtySevenGraphsInOnePoolShareOneWorkspaceForEachStream) {
  const Stream side(device());
  std::vector<CUDAGraph> graphs(67);
  std::vector<std::size_t> free_memory;
  std::vector<std::uint64_t> reserved;
  for (CUDAGraph& graph : graphs) {
    capture(graph, options_, [&] {
      side.wait(current_stream());
      multiply(*blas_, a_, b_, c_);
      multiply(*blas_, b_, a_, d_, side);
      current_stream().wait(side);
    });
    free_memory.push_back(device().memory_info().free);
    reserved.push_back(pool().reserved_bytes);
  }
  EXPECT_EQ(pool().allocated_bytes, 2 * blas_->workspace_bytes());
  EXPECT_EQ(reserved.back(), reserved.front());
  // The driver needs some memory for each graph, too: for 66 of them less than for one workspace.
  EXPECT_LT(free_memory.front(), free_memory.back() + blas_->workspace_bytes());
  EXPECT_EQ(replayed(graphs.front()), expected(1, 2));
  EXPECT_EQ(read(d_), expected(2, 1));
  EXPECT_EQ(replayed(graphs.back()), expected(1, 2));
}

TEST_F(Cublas, AGraphStaysRightWhenAnotherOneOfItsPoolIsDestroyed) {
  std::optional<CUDAGraph> one(std::in_place);
  CUDAGraph two;
  capture(*one, options_, [&] { multiply(*blas_, b_, a_, c_); });
  capture(two, options_, [&] { multiply(*blas_, a_, b_, c_); });
  one.reset();
  EXPECT_EQ(pool().allocated_bytes, blas_->workspace_bytes());
  EXPECT_EQ(replayed(two), expected(1, 2));
}

TEST_F(Cublas, AGraphStaysRightWhenItsHandleIsDestroyedAndItsThreadEnds) {
  CUDAGraph graph;
  std::thread([&] {
    ASSERT_EQ(cudaSetDevice(device().index()), cudaSuccess);
    const DeviceGuard guard(device());
    CublasHandle blas(device());
    capture(graph, options_, [&] { multiply(blas, a_, b_, c_); });
  }).join();
  EXPECT_EQ(replayed(graph), expected(1, 2));
}

TEST_F(Cublas, WorksEagerlyAgainAfterTheGraphIsGone) {
  {
    CUDAGraph graph;
    capture(graph, options_, [&] { multiply(*blas_, a_, b_, c_); });
  }
  allocator().empty_cache();
  clear_results();
  multiply(*blas_, a_, b_, c_);
  EXPECT_EQ(read(c_), expected(1, 2));
}

TEST_F(Cublas, TheSizeOfTheWorkspaceCanBeChosen) {
  CublasHandle small(device(), {.workspace_bytes = std::size_t{1} << 20});
  CUDAGraph graph;
  capture(graph, options_, [&] { multiply(small, a_, b_, c_); });
  EXPECT_EQ(pool().allocated_bytes, std::size_t{1} << 20);
  EXPECT_EQ(replayed(graph), expected(1, 2));
}

TEST_F(Cublas, AHandleMadeOnAnotherThreadBreaksNoCapture) {
  CUDAGraph graph;
  std::optional<CublasHandle> other;
  capture(graph, options_, [&] {
    std::thread([&] { other.emplace(device()); }).join();
    EXPECT_EQ(current_stream().capture_status(), CaptureStatus::active);
    multiply(*blas_, a_, b_, c_);
  });
  EXPECT_EQ(replayed(graph), expected(1, 2));
}

TEST_F(Cublas, AHandleThatIsMadeInACaptureIsOnTheStackOfTheReport) {
  std::string why;
  if (device().backend().monitor().watch_calls(&why) == nullptr) GTEST_SKIP() << why;
  set_log_sink([](std::string_view) {});
  Buffer<float> x(size);
  GraphOptions options;
  options.report = ReportDetail::full;
  cublasHandle_t handle = nullptr;
  CUDAGraph graph;
  try {
    capture(graph, options, [&] {
      x.fill_bytes_async(0);
      (void)cublasCreate(&handle);
    });
  } catch (const CaptureError&) {
  }
  (void)cudaGetLastError();
  set_log_sink({});
  if (handle != nullptr) {
    EXPECT_EQ(cublasDestroy(handle), CUBLAS_STATUS_SUCCESS);
  }
  if (!graph.capture_report() || !graph.capture_report()->broken_by) GTEST_SKIP() << "this cuBLAS does not mind";
  EXPECT_THAT(graph.capture_report()->str(),
              ::testing::AllOf(::testing::HasSubstr("libcublas"), ::testing::HasSubstr("GraphOptions::warmup")));
}

TEST_F(Cublas, AMovedHandleWorks) {
  CublasHandle moved(std::move(*blas_));
  *blas_ = std::move(moved);
  multiply(*blas_, a_, b_, c_);
  EXPECT_EQ(read(c_), expected(1, 2));
}

TEST_F(Cublas, AStreamOfAnotherDeviceIsRefused) {
  const Stream elsewhere(Device::parse("host"));
  const std::string text = text_of<UsageError>([&] { blas_->on(elsewhere); });
  EXPECT_THAT(text, AllOf(HasSubstr(device().str()), HasSubstr("host:0")));
  multiply(*blas_, a_, b_, c_);
  EXPECT_EQ(read(c_), expected(1, 2));
}

TEST_F(Cublas, AFailedCallSaysWhatAndWhy) {
  const float one = 1;
  const std::string text = text_of<CublasError>([&] {
    check_cublas(cublasSgemm(blas_->on(), CUBLAS_OP_N, CUBLAS_OP_N, -1, n, n, &one, a_.data(), n, b_.data(), n, &one,
                             c_.data(), n),
                 "cublasSgemm");
  });
  EXPECT_THAT(text, AllOf(HasSubstr("cublasSgemm returned CUBLAS_STATUS_INVALID_VALUE (7)"), HasSubstr("cublas_test")));
  multiply(*blas_, a_, b_, c_);
  EXPECT_EQ(read(c_), expected(1, 2));
}

// These need no device.
TEST(CublasErrors, AreThrownWithNameNumberAndAdvice) {
  EXPECT_NO_THROW(check_cublas(CUBLAS_STATUS_SUCCESS));
  try {
    check_cublas(CUBLAS_STATUS_ALLOC_FAILED, "cublasCreate");
    ADD_FAILURE() << "no exception";
  } catch (const CublasError& error) {
    EXPECT_EQ(error.status(), CUBLAS_STATUS_ALLOC_FAILED);
    EXPECT_THAT(error.what(),
                AllOf(HasSubstr("cublasCreate returned CUBLAS_STATUS_ALLOC_FAILED (3): "), HasSubstr("free memory")));
  }
}

TEST(CublasErrors, AHandleForTheHostDeviceIsRefused) {
  const auto expect_refused = [](const std::string& text) {
    EXPECT_THAT(text,
                AllOf(HasSubstr("expected a CUDA device"), HasSubstr("found host:0"), HasSubstr("REPRISE_DEVICE")));
  };
  expect_refused(text_of<UsageError>([] { CublasHandle blas(Device::parse("host")); }));
  expect_refused(text_of<UsageError>([] { CublasLtHandle blas(Device::parse("host")); }));
  expect_refused(text_of<UsageError>([] { static_cast<void>(cublas_workspace_bytes(Device::parse("host"))); }));
}

}  // namespace
}  // namespace reprise::test
