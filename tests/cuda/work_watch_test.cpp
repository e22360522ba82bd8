// SPDX-License-Identifier: Apache-2.0
#include "backend/cuda/work_watch.h"

#include <gtest/gtest.h>

#include <memory>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include "backend/cuda/cuda_backend.h"
#include "backend/rules/call_stack.h"
#include "reprise/public_call.h"
#include "tests/fakes/fake_driver.h"

namespace reprise::backend::cuda::test {
namespace {

class WorkWatchTest : public testing::Test {
 protected:
  WorkWatchTest() {
    EXPECT_EQ(backend_.stream_begin_capture(stream_, CaptureMode::global), ErrorCode::success);
    driver_.nodes = {earlier_, last_};
    driver_.last_nodes = {last_};
    watch_ = backend_.monitor().watch_work(stream_, last_);
  }
  ~WorkWatchTest() override {
    GraphHandle graph = nullptr;
    (void)backend_.stream_end_capture(stream_, &graph);
  }

  // As if `node` had been captured behind the last nodes.
  void add(CUgraphNode node) {
    driver_.nodes.push_back(node);
    for (CUgraphNode before : driver_.last_nodes) driver_.captured_edges.emplace_back(before, node);
    driver_.last_nodes = {node};
  }
  void set_memory(StreamHandle stream) { EXPECT_EQ(backend_.set_async({&byte_, 0, 1, 1}, stream), ErrorCode::success); }
  void wait(StreamHandle stream) {
    EXPECT_EQ(backend_.stream_wait_event(stream, handle<CUevent>(0xe), EventUseFlags::ordering), ErrorCode::success);
  }
  std::string name() const {
    const std::optional<CaptureFindings::ObservedCall> call = watch_->first();
    return call ? call->name : "none";
  }

  FakeDriver driver_;
  CudaBackend backend_{driver_.api(), 3, 3};
  StreamHandle stream_ = handle<CUstream>(0x57);
  CUgraphNode earlier_ = handle<CUgraphNode>(0xf), last_ = handle<CUgraphNode>(0x10),
              first_ = handle<CUgraphNode>(0x11), second_ = handle<CUgraphNode>(0x12);
  char byte_ = 0;
  std::unique_ptr<WorkWatch> watch_;
};

TEST_F(WorkWatchTest, NamesTheFirstCallWithItsThreadStreamAndStack) {
  std::uint64_t thread = 0;
  std::thread([&] {
    thread = thread_number();
    add(first_);
    set_memory(stream_);
  }).join();
  add(second_);
  wait(stream_);
  const auto call = watch_->first();
  ASSERT_TRUE(call);
  EXPECT_EQ(call->name, "cuMemsetD8Async");
  EXPECT_EQ(call->thread, thread);
  EXPECT_EQ(call->stream, stream_);
  EXPECT_FALSE(call->stack.empty());
}

TEST_F(WorkWatchTest, NamesAWaitWhichKeepsTheLastNode) {
  driver_.last_nodes = {last_, earlier_};
  wait(stream_);
  EXPECT_EQ(name(), "cuStreamWaitEvent");
}

TEST_F(WorkWatchTest, NamesNoCallThatAddedNothing) {
  wait(stream_);
  add(first_);
  set_memory(handle<CUstream>(0x58));  // another stream
  (void)backend_.event_record(handle<CUevent>(0xe), stream_, EventUseFlags::ordering);
  CaptureInfo info;
  (void)backend_.stream_capture_info(stream_, &info);
  EXPECT_EQ(name(), "none");
}

TEST_F(WorkWatchTest, NamesNoCallBehindOneThatWasNotSeen) {
  add(first_);
  add(second_);
  set_memory(stream_);
  EXPECT_EQ(name(), "none");
  driver_.last_nodes = {last_, first_};  // not even one that seems to be the first
  wait(stream_);
  EXPECT_EQ(name(), "none");
}

TEST_F(WorkWatchTest, NamesNoWaitThatAddsNothingBehindACallThatWasNotSeen) {
  add(first_);
  wait(stream_);
  EXPECT_EQ(name(), "none");
}

// As a child graph is, behind its earlier copy.
TEST_F(WorkWatchTest, NamesACallWhoseNodeAlsoDependsOnEarlierOnes) {
  add(first_);
  driver_.captured_edges.emplace_back(earlier_, first_);
  set_memory(stream_);
  EXPECT_EQ(name(), "cuMemsetD8Async");
}

TEST_F(WorkWatchTest, NamesTheFunctionOfThisLibraryThatMadeTheCall) {
  const detail::PublicCall made("fill_async");
  add(first_);
  set_memory(stream_);
  EXPECT_EQ(name(), "fill_async");
  EXPECT_EQ(watch_->first()->driver_name, "cuMemsetD8Async");
}

TEST_F(WorkWatchTest, NamesNoneOfACaptureThatBroke) {
  add(first_);
  driver_.capture_status = CU_STREAM_CAPTURE_STATUS_INVALIDATED;
  set_memory(stream_);
  EXPECT_EQ(name(), "none");
}

TEST_F(WorkWatchTest, OfThePerThreadStreamSeesTheThreadThatMadeIt) {
  stream_ = CU_STREAM_PER_THREAD;
  watch_ = backend_.monitor().watch_work(stream_, last_);
  add(first_);
  std::thread([&] { set_memory(stream_); }).join();
  EXPECT_EQ(name(), "none");
  set_memory(stream_);
  EXPECT_EQ(name(), "cuMemsetD8Async");
}

TEST_F(WorkWatchTest, EachSeesWhatFollowsItsOwnNode) {
  add(first_);
  set_memory(stream_);
  const auto inner = backend_.monitor().watch_work(stream_, first_);
  EXPECT_FALSE(inner->first());
  add(second_);
  EXPECT_EQ(backend_.copy_async(&byte_, &byte_, 1, stream_), ErrorCode::success);
  ASSERT_TRUE(inner->first());
  EXPECT_EQ(inner->first()->name, "cuMemcpyAsync");
  EXPECT_EQ(name(), "cuMemsetD8Async");
  watch_.reset();
  EXPECT_TRUE(CudaWorkWatch::any());
}

}  // namespace
}  // namespace reprise::backend::cuda::test
