// SPDX-License-Identifier: Apache-2.0
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <optional>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "reprise/cublas.h"
#include "reprise/reprise.h"
#include "tests/cuda_libraries/fake/fake_cublas.h"
#include "tests/support/faulty_backend.h"
#include "tests/support/text_of.h"

// Calls of the handles of reprise/cublas.h to cuBLAS, on a stand-in for it and on a simulated device that says it is a
// CUDA device: no GPU is needed.

namespace reprise::test {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;

constexpr std::size_t mib = std::size_t{1} << 20;

backend::test::FaultyBackend& cuda_like_backend() {
  // Devices live until the process ends.
  static auto& backend = *new backend::test::FaultyBackend(Device::parse("host").backend(), DeviceType::cuda);
  return backend;
}

class CublasHandles : public ::testing::Test {
 protected:
  CublasHandles() { fake_ = {}; }
  ~CublasHandles() override { EXPECT_EQ(fake_.handles, 0); }

  // Captures what `body` does, with work enough for a graph.
  template <class F>
  void capture_with(CUDAGraph& graph, F&& body) {
    capture(graph, options_, [&] {
      x_.fill_bytes_async(0);
      body();
    });
  }
  std::uint64_t allocated() const { return CachingAllocator::of(device_).statistics(options_.pool).allocated_bytes; }

  FakeCublas& fake_ = fake_cublas();
  Device device_{cuda_like_backend()};
  Stream stream_{device_};
  StreamGuard guard_{stream_};
  Buffer<int> x_{1};
  GraphOptions options_{.pool = graph_pool_handle()};
};

TEST_F(CublasHandles, OutsideOfACaptureGetTheStreamAndKeepTheirOwnWorkspace) {
  CublasHandle blas;
  const cublasHandle_t handle = blas.on();
  EXPECT_EQ(handle, blas.get());
  EXPECT_EQ(handle->stream, stream_.native());
  EXPECT_EQ(handle->workspace, nullptr);
}

TEST_F(CublasHandles, InACaptureGetAWorkspaceOfTheGraph) {
  CublasHandle blas;
  CUDAGraph graph;
  capture_with(graph, [&] {
    const cublasHandle_t handle = blas.on();
    EXPECT_EQ(handle->stream, current_stream().native());
    EXPECT_NE(handle->workspace, nullptr);
    EXPECT_EQ(handle->workspace_bytes, 32 * mib);
    void* const workspace = handle->workspace;
    EXPECT_EQ(blas.on()->workspace, workspace);
  });
  EXPECT_EQ(allocated(), 32 * mib);
}

TEST_F(CublasHandles, HaveTheirOwnWorkspaceAgainAfterTheCapture) {
  CublasHandle blas;
  CUDAGraph graph;
  capture_with(graph, [&] { blas.on(); });
  EXPECT_EQ(blas.on()->workspace, nullptr);
  EXPECT_EQ(blas.get()->stream, stream_.native());
}

TEST_F(CublasHandles, OnTwoStreamsOfACaptureGetTwoWorkspaces) {
  CublasHandle blas;
  const Stream side(device_);
  CUDAGraph graph;
  capture_with(graph, [&] {
    side.wait(current_stream());
    const void* const here = blas.on()->workspace;
    EXPECT_NE(blas.on(side)->workspace, here);
    EXPECT_EQ(blas.get()->stream, side.native());
    current_stream().wait(side);
  });
}

TEST_F(CublasHandles, OnDevicesBeforeHopperGetASmallerWorkspace) {
  fake_.compute_capability_major = 8;
  EXPECT_EQ(CublasHandle().workspace_bytes(), 4 * mib);
  EXPECT_EQ(CublasLtHandle().workspace_bytes(), 4 * mib);
}

TEST_F(CublasHandles, GetTheSizeThatTheirOptionsSay) {
  CublasHandle small(device_, {.workspace_bytes = mib}), none(device_, {.workspace_bytes = 0});
  CUDAGraph graph;
  capture_with(graph, [&] {
    EXPECT_EQ(small.on()->workspace_bytes, mib);
    EXPECT_EQ(none.on()->workspace, nullptr);
  });
}

TEST_F(CublasHandles, OfCublasLtHaveWorkspacesInsideAndOutsideOfACapture) {
  const CublasLtHandle lt(device_, {.workspace_bytes = 2 * mib});
  const CachingAllocator& allocator = CachingAllocator::of(device_);
  const std::uint64_t before = allocator.statistics().allocated_bytes;
  {
    const CublasLtWorkspace workspace = lt.workspace();
    EXPECT_NE(workspace.data(), nullptr);
    EXPECT_EQ(workspace.bytes(), 2 * mib);
    EXPECT_EQ(allocator.statistics().allocated_bytes, before + 2 * mib);
  }
  EXPECT_EQ(allocator.statistics().allocated_bytes, before);
  CUDAGraph graph;
  capture_with(graph, [&] {
    const void* const first = lt.workspace().data();
    EXPECT_EQ(lt.workspace().data(), first);
    EXPECT_EQ(lt.workspace().bytes(), 2 * mib);
  });
  EXPECT_EQ(allocated(), 2 * mib);
}

TEST_F(CublasHandles, OfCublasLtRefuseAForeignCapture) {
  const CublasLtHandle lt(device_);
  const Stream raw(device_);
  backend::Backend& backend = device_.backend();
  ASSERT_EQ(backend.stream_begin_capture(raw.native(), CaptureMode::relaxed), ErrorCode::success);
  EXPECT_THAT(text_of<UsageError>([&] { lt.workspace(raw); }), HasSubstr("begun with a call of CUDA"));
  GraphHandle graph = nullptr;
  ASSERT_EQ(backend.stream_end_capture(raw.native(), &graph), ErrorCode::success);
  EXPECT_EQ(backend.graph_destroy(graph), ErrorCode::success);
  EXPECT_NE(lt.workspace(raw).data(), nullptr);
}

TEST_F(CublasHandles, AreMadeAndDestroyedOnTheirDeviceAndInRelaxedMode) {
  fake_.current_device = 5;
  {
    const CublasHandle blas;
    EXPECT_EQ(fake_.device_of_last_call, 0);
    EXPECT_EQ(fake_.mode_of_last_call, cudaStreamCaptureModeRelaxed);
    EXPECT_EQ(fake_.current_device, 5);
    EXPECT_EQ(fake_.mode, cudaStreamCaptureModeGlobal);
    fake_.device_of_last_call = -1;
    fake_.mode_of_last_call = cudaStreamCaptureModeGlobal;
  }
  EXPECT_EQ(fake_.destroyed, 1);
  EXPECT_EQ(fake_.device_of_last_call, 0);
  EXPECT_EQ(fake_.mode_of_last_call, cudaStreamCaptureModeRelaxed);
  EXPECT_EQ(fake_.current_device, 5);
  EXPECT_EQ(fake_.mode, cudaStreamCaptureModeGlobal);
}

TEST_F(CublasHandles, AreDestroyedOnceWhenTheyAreMoved) {
  {
    CublasHandle one, two;
    const cublasHandle_t handle = one.get();
    CublasHandle moved(std::move(one));
    EXPECT_EQ(moved.get(), handle);
    two = std::move(moved);
    EXPECT_EQ(fake_.destroyed, 1);
    EXPECT_EQ(two.get(), handle);
    EXPECT_EQ(two.on()->stream, stream_.native());
  }
  EXPECT_EQ(fake_.destroyed, 2);
}

TEST_F(CublasHandles, RefuseAThreadWhoseCurrentDeviceIsAnother) {
  CublasHandle blas;
  const CublasLtHandle lt;
  fake_.current_device = 3;
  const auto expect_refused = [](const std::string& text) {
    EXPECT_THAT(text, AllOf(HasSubstr("expected cuda:0"), HasSubstr("found cuda:3"), HasSubstr("cudaSetDevice(0)")));
  };
  expect_refused(text_of<UsageError>([&] { blas.on(); }));
  expect_refused(text_of<UsageError>([&] { lt.workspace(); }));
  fake_.current_device = 0;
  EXPECT_EQ(blas.on()->stream, stream_.native());
}

TEST_F(CublasHandles, RefuseAStreamOfAnotherDevice) {
  CublasHandle blas;
  const Stream elsewhere(Device::parse("host"));
  EXPECT_THAT(text_of<UsageError>([&] { blas.on(elsewhere); }),
              AllOf(HasSubstr("expected a stream of cuda:0"), HasSubstr("stream of host:0")));
  const CublasLtHandle lt;
  EXPECT_THAT(text_of<UsageError>([&] { lt.workspace(elsewhere); }), HasSubstr("expected a stream of cuda:0"));
  EXPECT_EQ(blas.on()->stream, stream_.native());
}

TEST_F(CublasHandles, ThatCannotBeMadeSayWhyAndLeaveTheThreadAsItWas) {
  fake_.current_device = 5;
  fake_.answer = CUBLAS_STATUS_ALLOC_FAILED;
  EXPECT_THAT(text_of<CublasError>([] { CublasHandle blas; }),
              HasSubstr("cublasCreate returned CUBLAS_STATUS_FAKE (3)"));
  EXPECT_THAT(text_of<CublasError>([] { CublasLtHandle lt; }), HasSubstr("cublasLtCreate returned"));
  EXPECT_EQ(fake_.current_device, 5);
  EXPECT_EQ(fake_.mode, cudaStreamCaptureModeGlobal);
}

TEST_F(CublasHandles, ThatCannotBeDestroyedWarn) {
  std::vector<std::string> warnings;
  const LogSink before = set_log_sink([&](std::string_view text) { warnings.emplace_back(text); });
  {
    const CublasHandle blas;
    fake_.answer = CUBLAS_STATUS_INTERNAL_ERROR;
  }
  set_log_sink(before);
  ASSERT_EQ(warnings.size(), 1u);
  EXPECT_THAT(warnings.front(), HasSubstr("CUBLAS_STATUS_FAKE (14)"));
}

TEST_F(CublasHandles, MayBeMadeUsedAndDestroyedOnAnyThreadAndWithinHooks) {
  std::optional<CublasHandle> blas;
  std::thread([&] { blas.emplace(device_); }).join();
  EXPECT_EQ(blas->on(stream_)->stream, stream_.native());
  int hooks = 0;
  const auto use = [&] {
    EXPECT_EQ(blas->on(stream_)->workspace, nullptr) << "the capture is over";
    EXPECT_EQ(blas->get()->stream, stream_.native());
    CublasHandle made(device_);
    EXPECT_EQ(made.on(stream_), made.get());
    ++hooks;
  };
  CUDAGraph graph;
  graph.add_hooks({.captured = [&](GraphHandle) { use(); },
                   .instantiated = [&](GraphExecHandle) { use(); },
                   .before_replay = [&](const StreamRef&) { use(); },
                   .after_replay = [&](const StreamRef&, ErrorCode) { use(); },
                   .reset = use});
  capture_with(graph, [&] { EXPECT_NE(blas->on()->workspace, nullptr); });
  graph.replay();
  graph.reset();
  EXPECT_EQ(hooks, 5);
  std::thread([&] { blas.reset(); }).join();
  EXPECT_EQ(fake_.handles, 0);
}

TEST_F(CublasHandles, ThatWereMovedFromAreRefusedWhereTheyAreUsed) {
  CublasHandle gone;
  CublasHandle blas = std::move(gone);
  CublasLtHandle lt_gone;
  const CublasLtHandle lt = std::move(lt_gone);
  const auto refused = HasSubstr("expected a handle of cuBLAS that was not moved from");
  EXPECT_THAT(text_of<UsageError>([&] { (void)gone.on(); }), refused);  // NOLINT(bugprone-use-after-move): the test
  EXPECT_THAT(text_of<UsageError>([&] { (void)gone.get(); }), refused);
  EXPECT_THAT(text_of<UsageError>([&] { (void)lt_gone.get(); }), refused);
  EXPECT_EQ(blas.on(), blas.get());
  EXPECT_NE(lt.get(), nullptr);
  gone = std::move(blas);
  EXPECT_EQ(gone.on(), gone.get());
}

}  // namespace
}  // namespace reprise::test
