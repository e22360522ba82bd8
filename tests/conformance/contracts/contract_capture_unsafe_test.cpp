// SPDX-License-Identifier: Apache-2.0
#include <functional>

#include "tests/conformance/contracts/contract.h"

// The rule for potentially unsafe calls: which modes of which captures forbid them on which threads.

namespace reprise::backend::test {
namespace {

const char* name_of(CaptureMode mode) {
  switch (mode) {
    case CaptureMode::global:
      return "global";
    case CaptureMode::thread:
      return "thread";
    case CaptureMode::relaxed:
      return "relaxed";
  }
  return "?";
}

struct UnsafeCall {
  const char* name;
  std::function<Result()> make;
};

class CaptureUnsafeContract : public Contract {
 protected:
  StreamHandle stream_ = nullptr;

  void SetUp() override {
    stream_ = new_stream();
    other_stream_ = new_stream();
    event_ = new_event();
    EXPECT_OK(backend().event_record(event_, other_stream_, EventUseFlags::ordering));
    EXPECT_OK(backend().stream_synchronize(other_stream_));
    graph_ = new_graph();
  }
  void TearDown() override {
    EXPECT_OK(backend().memory_free(spare_));
    for (void* pointer : memory_) EXPECT_OK(backend().memory_free(pointer));
    for (void* pointer : pinned_) EXPECT_OK(backend().pinned_free(pointer));
    for (GraphExecHandle exec : execs_) EXPECT_OK(backend().graph_exec_destroy(exec));
    Contract::TearDown();
  }

  /// Calls that are fine when they are allowed; each can be made again and again.
  std::vector<UnsafeCall> calls() {
    return {
        {"memory_allocate", [&] { return allocate(); }},
        {"memory_free", [&] { return free_spare(); }},
        {"pinned_allocate", [&] { return allocate_pinned(); }},
        {"memory_pool_trim", [&] { return backend().memory_pool_trim(0); }},
        {"event_query", [&] { return backend().event_query(event_); }},
        {"event_synchronize", [&] { return backend().event_synchronize(event_); }},
        {"stream_query", [&] { return backend().stream_query(other_stream_); }},
        {"stream_synchronize", [&] { return backend().stream_synchronize(other_stream_); }},
        {"stream_synchronize of the legacy stream", [&] { return backend().stream_synchronize(nullptr); }},
        {"graph_instantiate", [&] { return instantiate_once_more(); }},
        {"memory_allocate_async on another stream", [&] { return allocate_async(); }},
    };
  }

  /// Makes every call in a capture of its own and compares what it gets and what becomes of the capture.
  void expect_all(CaptureMode mode, bool other_thread, CaptureMode own_mode, bool allowed) {
    for (const UnsafeCall& call : calls()) {
      SCOPED_TRACE(testing::Message() << call.name << ", capture " << name_of(mode) << ", "
                                      << (other_thread ? "other" : "same") << " thread in mode " << name_of(own_mode));
      allocate_spare();
      begin_capture(stream_, mode);
      const auto body = [&] {
        const CaptureModeScope scope(backend(), own_mode);
        EXPECT_RESULT(allowed ? ErrorCode::success : ErrorCode::stream_capture_unsupported, call.make());
      };
      if (other_thread)
        on_another_thread(body);
      else
        body();
      EXPECT_EQ(status_of(stream_), allowed ? CaptureStatus::active : CaptureStatus::invalidated);
      GraphHandle graph = nullptr;
      EXPECT_RESULT(allowed ? ErrorCode::success : ErrorCode::stream_capture_invalidated,
                    backend().stream_end_capture(stream_, &graph));
      if (graph != nullptr) own(graph);
    }
  }

  Result allocate() {
    void* pointer = nullptr;
    Result result = backend().memory_allocate(&pointer, 64);
    if (result == ErrorCode::success) memory_.push_back(pointer);
    return result;
  }

 private:
  /// Something to free: what is left of it goes with the other memory.
  void allocate_spare() {
    if (spare_ == nullptr) {
      EXPECT_OK(backend().memory_allocate(&spare_, 64));
    }
  }
  Result free_spare() {
    Result result = backend().memory_free(spare_);
    if (result == ErrorCode::success) spare_ = nullptr;
    return result;
  }
  Result allocate_pinned() {
    void* pointer = nullptr;
    Result result = backend().pinned_allocate(&pointer, 64);
    if (result == ErrorCode::success) pinned_.push_back(pointer);
    return result;
  }
  Result allocate_async() {
    void* pointer = nullptr;
    Result result = backend().memory_allocate_async(&pointer, 64, other_stream_);
    if (result == ErrorCode::success) memory_.push_back(pointer);
    return result;
  }
  Result instantiate_once_more() {
    GraphExecHandle exec = nullptr;
    Result result = backend().graph_instantiate(&exec, graph_, InstantiateFlags::none, nullptr);
    if (result == ErrorCode::success) execs_.push_back(exec);
    return result;
  }

  StreamHandle other_stream_ = nullptr;
  EventHandle event_ = nullptr;
  GraphHandle graph_ = nullptr;
  void* spare_ = nullptr;
  std::vector<void*> memory_;
  std::vector<void*> pinned_;
  std::vector<GraphExecHandle> execs_;
};
REPRISE_ON_EVERY_DEVICE(CaptureUnsafeContract);

TEST_P(CaptureUnsafeContract, AreRefusedOnTheThreadThatCapturesUnlessTheCaptureIsRelaxed) {
  constexpr auto global = CaptureMode::global;
  expect_all(CaptureMode::global, false, global, false);
  expect_all(CaptureMode::thread, false, global, false);
  expect_all(CaptureMode::relaxed, false, global, true);
}

TEST_P(CaptureUnsafeContract, AreRefusedOnOtherThreadsOnlyIfTheCaptureIsGlobal) {
  constexpr auto global = CaptureMode::global;
  expect_all(CaptureMode::global, true, global, false);
  expect_all(CaptureMode::thread, true, global, true);
  expect_all(CaptureMode::relaxed, true, global, true);
}

TEST_P(CaptureUnsafeContract, AreAllowedToAThreadInRelaxedMode) {
  for (const CaptureMode mode : all_modes)
    for (const bool other_thread : {false, true}) expect_all(mode, other_thread, CaptureMode::relaxed, true);
}

TEST_P(CaptureUnsafeContract, AThreadInThreadLocalModeIsNotHeldByTheCapturesOfOthers) {
  constexpr auto own_mode = CaptureMode::thread;
  expect_all(CaptureMode::global, true, own_mode, true);
  expect_all(CaptureMode::global, false, own_mode, false);
  expect_all(CaptureMode::thread, false, own_mode, false);
  expect_all(CaptureMode::relaxed, false, own_mode, true);
}

TEST_P(CaptureUnsafeContract, DestroyingAnExecutableIsOneOfThem) {
  GraphHandle empty = new_graph();
  for (const CaptureMode mode : all_modes) {
    GraphExecHandle exec = instantiate(empty);
    begin_capture(stream_, mode);
    if (mode == CaptureMode::relaxed) {
      destroy(exec);
      end_capture(stream_);
      continue;
    }
    EXPECT_RESULT(ErrorCode::stream_capture_unsupported, backend().graph_exec_destroy(exec));
    GraphHandle graph = nullptr;
    EXPECT_RESULT(ErrorCode::stream_capture_invalidated, backend().stream_end_capture(stream_, &graph));
    run(exec, stream_);  // it is still there
  }
}

TEST_P(CaptureUnsafeContract, OfTwoCapturesOfAThreadThoseThatAreNotRelaxedBreak) {
  StreamHandle second = new_stream();
  for (const CaptureMode first_mode : all_modes)
    for (const CaptureMode second_mode : all_modes) {
      SCOPED_TRACE(testing::Message() << name_of(first_mode) << " and " << name_of(second_mode));
      begin_capture(stream_, first_mode);
      begin_capture(second, second_mode);
      const bool both_relaxed = first_mode == CaptureMode::relaxed && second_mode == CaptureMode::relaxed;
      EXPECT_RESULT(both_relaxed ? ErrorCode::success : ErrorCode::stream_capture_unsupported, allocate());
      for (const auto& [stream, mode] : {std::pair(stream_, first_mode), std::pair(second, second_mode)}) {
        const bool survives = mode == CaptureMode::relaxed;
        EXPECT_EQ(status_of(stream), survives ? CaptureStatus::active : CaptureStatus::invalidated);
        GraphHandle graph = nullptr;
        EXPECT_RESULT(survives ? ErrorCode::success : ErrorCode::stream_capture_invalidated,
                      backend().stream_end_capture(stream, &graph));
        if (graph != nullptr) own(graph);
      }
    }
}

TEST_P(CaptureUnsafeContract, QueriesOfTheDeviceAndMakingThingsAreNeverAmongThem) {
  GraphHandle doomed_graph = nullptr;
  StreamHandle doomed_stream = nullptr;
  EventHandle doomed_event = nullptr;
  EXPECT_OK(backend().graph_create(&doomed_graph));
  EXPECT_OK(backend().stream_create(&doomed_stream, StreamFlags::non_blocking, 0));
  EXPECT_OK(backend().event_create(&doomed_event, EventFlags::timing));
  int on_the_stack = 0;
  MemoryInfo memory;
  PointerInfo pointer;
  begin_capture(stream_, CaptureMode::global);
  EXPECT_OK(backend().memory_info(&memory));
  EXPECT_OK(backend().pointer_info(&on_the_stack, &pointer));
  EXPECT_OK(backend().function_set_max_shared(function<CountThreads>(), 64 * 1024));
  new_stream();
  new_stream(StreamFlags::blocking);
  new_event();
  new_graph();
  EXPECT_OK(backend().graph_destroy(doomed_graph));
  EXPECT_OK(backend().stream_destroy(doomed_stream));
  EXPECT_OK(backend().event_destroy(doomed_event));
  EXPECT_EQ(status_of(stream_), CaptureStatus::active);
  end_capture(stream_);
}

}  // namespace
}  // namespace reprise::backend::test
