// SPDX-License-Identifier: Apache-2.0
#include <functional>

#include "tests/conformance/contract.h"

// The rule for potentially unsafe calls: which modes of which captures forbid them on which threads.

namespace reprise::backend::test {
namespace {

constexpr CaptureErrorMode all_modes[] = {CaptureErrorMode::global, CaptureErrorMode::thread_local_,
                                          CaptureErrorMode::relaxed};

const char* name_of(CaptureErrorMode mode) {
  switch (mode) {
    case CaptureErrorMode::global:
      return "global";
    case CaptureErrorMode::thread_local_:
      return "thread_local";
    case CaptureErrorMode::relaxed:
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
  void expect_all(CaptureErrorMode mode, bool other_thread, CaptureErrorMode own_mode, bool allowed) {
    for (const UnsafeCall& call : calls()) {
      SCOPED_TRACE(testing::Message() << call.name << ", capture " << name_of(mode) << ", "
                                      << (other_thread ? "other" : "same") << " thread in mode " << name_of(own_mode));
      allocate_spare();
      begin_capture(stream_, mode);
      const auto body = [&] {
        const CaptureModeScope scope(backend(), own_mode);
        EXPECT_RESULT(allowed ? Result::success : Result::stream_capture_unsupported, call.make());
      };
      if (other_thread)
        on_another_thread(body);
      else
        body();
      EXPECT_EQ(status_of(stream_), allowed ? CaptureStatus::active : CaptureStatus::invalidated);
      GraphHandle graph = nullptr;
      EXPECT_RESULT(allowed ? Result::success : Result::stream_capture_invalidated,
                    backend().stream_end_capture(stream_, &graph));
      if (graph != nullptr) own(graph);
    }
  }

  Result allocate() {
    void* pointer = nullptr;
    const Result result = backend().memory_allocate(&pointer, 64);
    if (result == Result::success) memory_.push_back(pointer);
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
    const Result result = backend().memory_free(spare_);
    if (result == Result::success) spare_ = nullptr;
    return result;
  }
  Result allocate_pinned() {
    void* pointer = nullptr;
    const Result result = backend().pinned_allocate(&pointer, 64);
    if (result == Result::success) pinned_.push_back(pointer);
    return result;
  }
  Result allocate_async() {
    void* pointer = nullptr;
    const Result result = backend().memory_allocate_async(&pointer, 64, other_stream_);
    if (result == Result::success) memory_.push_back(pointer);
    return result;
  }
  Result instantiate_once_more() {
    GraphExecHandle exec = nullptr;
    const Result result = backend().graph_instantiate(&exec, graph_, InstantiateFlags::none, nullptr);
    if (result == Result::success) execs_.push_back(exec);
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
  constexpr auto global = CaptureErrorMode::global;
  expect_all(CaptureErrorMode::global, false, global, false);
  expect_all(CaptureErrorMode::thread_local_, false, global, false);
  expect_all(CaptureErrorMode::relaxed, false, global, true);
}

TEST_P(CaptureUnsafeContract, AreRefusedOnOtherThreadsOnlyIfTheCaptureIsGlobal) {
  constexpr auto global = CaptureErrorMode::global;
  expect_all(CaptureErrorMode::global, true, global, false);
  expect_all(CaptureErrorMode::thread_local_, true, global, true);
  expect_all(CaptureErrorMode::relaxed, true, global, true);
}

TEST_P(CaptureUnsafeContract, AreAllowedToAThreadInRelaxedMode) {
  for (const CaptureErrorMode mode : all_modes)
    for (const bool other_thread : {false, true}) expect_all(mode, other_thread, CaptureErrorMode::relaxed, true);
}

TEST_P(CaptureUnsafeContract, AThreadInThreadLocalModeIsNotHeldByTheCapturesOfOthers) {
  constexpr auto own_mode = CaptureErrorMode::thread_local_;
  expect_all(CaptureErrorMode::global, true, own_mode, true);
  expect_all(CaptureErrorMode::global, false, own_mode, false);
  expect_all(CaptureErrorMode::thread_local_, false, own_mode, false);
  expect_all(CaptureErrorMode::relaxed, false, own_mode, true);
}

TEST_P(CaptureUnsafeContract, DestroyingAnExecutableIsOneOfThem) {
  GraphHandle empty = new_graph();
  for (const CaptureErrorMode mode : all_modes) {
    GraphExecHandle exec = instantiate(empty);
    begin_capture(stream_, mode);
    if (mode == CaptureErrorMode::relaxed) {
      destroy(exec);
      end_capture(stream_);
      continue;
    }
    EXPECT_RESULT(Result::stream_capture_unsupported, backend().graph_exec_destroy(exec));
    GraphHandle graph = nullptr;
    EXPECT_RESULT(Result::stream_capture_invalidated, backend().stream_end_capture(stream_, &graph));
    run(exec, stream_);  // it is still there
  }
}

TEST_P(CaptureUnsafeContract, OfTwoCapturesOfAThreadThoseThatAreNotRelaxedBreak) {
  StreamHandle second = new_stream();
  for (const CaptureErrorMode first_mode : all_modes)
    for (const CaptureErrorMode second_mode : all_modes) {
      SCOPED_TRACE(testing::Message() << name_of(first_mode) << " and " << name_of(second_mode));
      begin_capture(stream_, first_mode);
      begin_capture(second, second_mode);
      const bool both_relaxed = first_mode == CaptureErrorMode::relaxed && second_mode == CaptureErrorMode::relaxed;
      EXPECT_RESULT(both_relaxed ? Result::success : Result::stream_capture_unsupported, allocate());
      for (const auto& [stream, mode] : {std::pair(stream_, first_mode), std::pair(second, second_mode)}) {
        const bool survives = mode == CaptureErrorMode::relaxed;
        EXPECT_EQ(status_of(stream), survives ? CaptureStatus::active : CaptureStatus::invalidated);
        GraphHandle graph = nullptr;
        EXPECT_RESULT(survives ? Result::success : Result::stream_capture_invalidated,
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
  begin_capture(stream_, CaptureErrorMode::global);
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
