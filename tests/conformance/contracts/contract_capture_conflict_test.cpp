// SPDX-License-Identifier: Apache-2.0
#include "tests/conformance/contracts/contract.h"

// What breaks a capture, or is refused without breaking it, in every mode and from every thread.

namespace reprise::backend::test {
namespace {

class CaptureConflictContract : public Contract {
 protected:
  static constexpr auto blocking = StreamFlags::blocking;
  static constexpr auto non_blocking = StreamFlags::non_blocking;
  static constexpr auto ordering = EventUseFlags::ordering;

  StreamHandle stream_ = nullptr;   // the one that captures
  EventHandle captured_ = nullptr;  // recorded in its capture
  EventHandle ordinary_ = nullptr;  // recorded outside
  int* device_ = nullptr;
  GraphExecHandle exec_ = nullptr;

  void SetUp() override {
    device_ = new_memory<int>(2);
    captured_ = new_event();
    ordinary_ = new_event();
    StreamHandle other = new_stream();
    EXPECT_OK(backend().event_record(ordinary_, other, ordering));
    EXPECT_OK(backend().stream_synchronize(other));
    exec_ = instantiate(new_graph());
  }

  void begin(StreamFlags flags, CaptureMode mode) {
    stream_ = new_stream(flags);
    begin_capture(stream_, mode);
    EXPECT_OK(launch(stream_, Add{}, device_, 1));
    EXPECT_OK(backend().event_record(captured_, stream_, ordering));
  }

  template <class F>
  void in_every_mode_from_every_thread(StreamFlags flags, F body) {
    for (const CaptureMode mode : all_modes)
      for (const bool other_thread : {false, true}) {
        SCOPED_TRACE(testing::Message() << "mode " << static_cast<int>(mode) << (other_thread ? ", other" : ", same")
                                        << " thread");
        begin(flags, mode);
        if (other_thread)
          on_another_thread(body);
        else
          body();
        end();
      }
  }

  /// The call gets this code and breaks the capture; the stream can capture again.
  template <class F>
  void expect_broken(StreamFlags flags, ErrorCode expected, F call) {
    in_every_mode_from_every_thread(flags, [&] {
      EXPECT_RESULT(expected, call());
      EXPECT_EQ(status_of(stream_), CaptureStatus::invalidated);
    });
  }

  /// The call gets this code and the capture continues.
  template <class F>
  void expect_active(StreamFlags flags, ErrorCode expected, F call) {
    in_every_mode_from_every_thread(flags, [&] {
      EXPECT_RESULT(expected, call());
      EXPECT_EQ(status_of(stream_), CaptureStatus::active);
    });
  }

  void end() {
    if (status_of(stream_) == CaptureStatus::active) {
      EXPECT_EQ(nodes_of(end_capture(stream_)).size(), 1U);
    } else {
      GraphHandle graph = nullptr;
      EXPECT_RESULT(ErrorCode::stream_capture_invalidated, backend().stream_end_capture(stream_, &graph));
      EXPECT_EQ(graph, nullptr);
    }
    expect_can_capture(stream_);
  }
};
REPRISE_ON_EVERY_DEVICE(CaptureConflictContract);

TEST_P(CaptureConflictContract, SynchronisingTheCapturingStream) {
  expect_broken(non_blocking, ErrorCode::stream_capture_unsupported,
                [&] { return backend().stream_synchronize(stream_); });
}

TEST_P(CaptureConflictContract, QueryingTheCapturingStream) {
  expect_broken(non_blocking, ErrorCode::stream_capture_unsupported, [&] { return backend().stream_query(stream_); });
}

TEST_P(CaptureConflictContract, AskingTheCapturingStreamForItsNumberOrFlags) {
  std::uint64_t id = 0;
  StreamFlags flags = blocking;
  expect_broken(non_blocking, ErrorCode::stream_capture_unsupported, [&] { return backend().stream_id(stream_, &id); });
  expect_broken(non_blocking, ErrorCode::stream_capture_unsupported,
                [&] { return backend().stream_flags(stream_, &flags); });
}

TEST_P(CaptureConflictContract, ThePropertiesOfOtherStreamsAndThePriorityMayBeAskedFor) {
  const StreamHandle other = new_stream();
  std::uint64_t id = 0;
  StreamFlags flags = blocking;
  int priority = 0;
  expect_active(non_blocking, ErrorCode::success, [&] { return backend().stream_id(other, &id); });
  expect_active(non_blocking, ErrorCode::success, [&] { return backend().stream_flags(other, &flags); });
  expect_active(non_blocking, ErrorCode::success, [&] { return backend().stream_priority(other, &priority); });
  expect_active(non_blocking, ErrorCode::success, [&] { return backend().stream_priority(stream_, &priority); });
  expect_active(non_blocking, ErrorCode::success, [&] { return backend().stream_id(nullptr, &id); });
}

TEST_P(CaptureConflictContract, AskingTheLegacyStreamForItsPropertiesWhileABlockingStreamCaptures) {
  std::uint64_t id = 0;
  StreamFlags flags = blocking;
  int priority = 0;
  expect_broken(blocking, ErrorCode::stream_capture_implicit, [&] { return backend().stream_id(nullptr, &id); });
  expect_broken(blocking, ErrorCode::stream_capture_implicit, [&] { return backend().stream_flags(nullptr, &flags); });
  expect_broken(blocking, ErrorCode::stream_capture_implicit,
                [&] { return backend().stream_priority(nullptr, &priority); });
}

TEST_P(CaptureConflictContract, AskingAStreamOfABrokenCaptureForItsProperties) {
  std::uint64_t id = 0;
  StreamFlags flags = blocking;
  int priority = 0;
  begin(non_blocking, CaptureMode::global);
  EXPECT_RESULT(ErrorCode::stream_capture_unsupported, backend().stream_synchronize(stream_));
  EXPECT_RESULT(ErrorCode::stream_capture_unsupported, backend().stream_id(stream_, &id));
  EXPECT_RESULT(ErrorCode::stream_capture_unsupported, backend().stream_flags(stream_, &flags));
  EXPECT_RESULT(ErrorCode::stream_capture_invalidated, backend().stream_priority(stream_, &priority));
  end();
}

TEST_P(CaptureConflictContract, SynchronisingTheDevice) {
  expect_broken(non_blocking, ErrorCode::stream_capture_unsupported, [&] { return backend().device_synchronize(); });
}

TEST_P(CaptureConflictContract, LaunchingAGraphOnTheCapturingStream) {
  expect_broken(non_blocking, ErrorCode::stream_capture_unsupported,
                [&] { return backend().graph_launch(exec_, stream_); });
}

TEST_P(CaptureConflictContract, QueryingACapturedEvent) {
  expect_broken(non_blocking, ErrorCode::captured_event, [&] { return backend().event_query(captured_); });
}

TEST_P(CaptureConflictContract, SynchronisingACapturedEvent) {
  expect_broken(non_blocking, ErrorCode::captured_event, [&] { return backend().event_synchronize(captured_); });
}

TEST_P(CaptureConflictContract, WaitingForAnEventOfTheOutside) {
  expect_broken(non_blocking, ErrorCode::stream_capture_isolation,
                [&] { return backend().stream_wait_event(stream_, ordinary_, ordering); });
}

TEST_P(CaptureConflictContract, LaunchingAWrongConfiguration) {
  LaunchConfig config;
  config.block = Dim3(2000);
  expect_broken(non_blocking, ErrorCode::invalid_value, [&] { return launch(stream_, config, Add{}, device_, 1); });
}

TEST_P(CaptureConflictContract, OtherInvalidArgumentsDoNotBreakIt) {
  expect_active(non_blocking, ErrorCode::invalid_value,
                [&] { return backend().copy_async(nullptr, device_, 4, stream_); });
  expect_active(non_blocking, ErrorCode::invalid_value, [&] {
    return backend().set_async({reinterpret_cast<char*>(device_) + 1, 0, 4, 1}, stream_);
  });
  expect_active(non_blocking, ErrorCode::invalid_value, [&] {
    return backend().launch_host_function({nullptr, nullptr}, stream_);
  });
}

TEST_P(CaptureConflictContract, BeginningAgain) {
  expect_active(non_blocking, ErrorCode::illegal_state,
                [&] { return backend().stream_begin_capture(stream_, CaptureMode::relaxed); });
}

TEST_P(CaptureConflictContract, TheLegacyStreamWaitingForACapturedEvent) {
  for (const StreamFlags flags : {blocking, non_blocking})
    expect_broken(flags, ErrorCode::stream_capture_implicit,
                  [&] { return backend().stream_wait_event(nullptr, captured_, ordering); });
}

TEST_P(CaptureConflictContract, WorkOnTheLegacyStreamWhileABlockingStreamCaptures) {
  int value = 1;
  expect_broken(blocking, ErrorCode::stream_capture_implicit, [&] { return launch(nullptr, Add{}, device_, 1); });
  expect_broken(blocking, ErrorCode::stream_capture_implicit, [&] { return backend().copy(device_, &value, 4); });
  expect_broken(blocking, ErrorCode::stream_capture_implicit, [&] { return backend().copy(&value, device_, 4); });
  expect_broken(blocking, ErrorCode::stream_capture_implicit, [&] { return backend().set({device_, 0, 4, 1}); });
  expect_broken(blocking, ErrorCode::stream_capture_implicit,
                [&] { return backend().copy_async(device_, device_ + 1, 4, nullptr); });
  expect_broken(blocking, ErrorCode::stream_capture_implicit, [&] {
    return backend().set_async({device_, 0, 4, 1}, nullptr);
  });
  expect_broken(blocking, ErrorCode::stream_capture_implicit, [&] {
    return backend().launch_host_function({[](void*) {}, nullptr}, nullptr);
  });
  expect_broken(blocking, ErrorCode::stream_capture_implicit,
                [&] { return backend().event_record(ordinary_, nullptr, ordering); });
  expect_broken(blocking, ErrorCode::stream_capture_implicit, [&] { return backend().graph_launch(exec_, nullptr); });
}

TEST_P(CaptureConflictContract, WaitingForTheLegacyStreamWhileABlockingStreamCaptures) {
  expect_broken(blocking, ErrorCode::stream_capture_implicit, [&] { return backend().stream_synchronize(nullptr); });
  expect_broken(blocking, ErrorCode::stream_capture_implicit, [&] { return backend().stream_query(nullptr); });
  expect_broken(blocking, ErrorCode::stream_capture_implicit,
                [&] { return backend().stream_wait_event(nullptr, ordinary_, ordering); });
}

TEST_P(CaptureConflictContract, AskingWhetherTheLegacyStreamCapturesDoesNotBreakIt) {
  CaptureStatus status = CaptureStatus::none;
  CaptureInfo info;
  expect_active(blocking, ErrorCode::stream_capture_implicit,
                [&] { return backend().stream_is_capturing(nullptr, &status); });
  expect_active(blocking, ErrorCode::stream_capture_implicit,
                [&] { return backend().stream_capture_info(nullptr, &info); });
  expect_active(non_blocking, ErrorCode::success, [&] { return backend().stream_is_capturing(nullptr, &status); });
  EXPECT_EQ(status, CaptureStatus::none);
}

TEST_P(CaptureConflictContract, WorkOnTheLegacyStreamWhileANonBlockingStreamCapturesRunsAtOnce) {
  int expected = 0;
  in_every_mode_from_every_thread(non_blocking, [&] {
    const CaptureModeScope relaxed(backend(), CaptureMode::relaxed);
    EXPECT_OK(launch(nullptr, Add{}, device_ + 1, 1));
    EXPECT_OK(backend().stream_synchronize(nullptr));
    EXPECT_EQ(read(device_ + 1), ++expected) << "it is not in the graph";
    EXPECT_EQ(status_of(stream_), CaptureStatus::active);
  });
}

TEST_P(CaptureConflictContract, EndingOnAnotherThreadIsTheEndWithoutAGraph) {
  for (const CaptureMode mode : {CaptureMode::global, CaptureMode::thread}) {
    begin(non_blocking, mode);
    GraphHandle graph = nullptr;
    on_another_thread(
        [&] { EXPECT_RESULT(ErrorCode::stream_capture_wrong_thread, backend().stream_end_capture(stream_, &graph)); });
    EXPECT_EQ(graph, nullptr);
    EXPECT_EQ(status_of(stream_), CaptureStatus::none);
    EXPECT_RESULT(ErrorCode::illegal_state, backend().stream_end_capture(stream_, &graph));
    expect_can_capture(stream_);
  }
}

TEST_P(CaptureConflictContract, ARelaxedCaptureMayEndOnAnotherThread) {
  begin(non_blocking, CaptureMode::relaxed);
  on_another_thread([&] { EXPECT_EQ(nodes_of(end_capture(stream_)).size(), 1U); });
  expect_can_capture(stream_);
}

TEST_P(CaptureConflictContract, NothingCanBeGivenToAStreamOfABrokenCapture) {
  for (const CaptureMode mode : all_modes) {
    begin(non_blocking, mode);
    StreamHandle joined = new_stream();
    EXPECT_OK(backend().stream_wait_event(joined, captured_, ordering));
    EXPECT_RESULT(ErrorCode::captured_event, backend().event_query(captured_));
    for (StreamHandle stream : {stream_, joined}) {
      constexpr auto expected = ErrorCode::stream_capture_invalidated;
      EXPECT_EQ(status_of(stream), CaptureStatus::invalidated);
      EXPECT_RESULT(expected, launch(stream, Add{}, device_, 1));
      EXPECT_RESULT(expected, backend().copy_async(device_, device_ + 1, 4, stream));
      EXPECT_RESULT(expected, backend().set_async({device_, 0, 4, 1}, stream));
      EXPECT_RESULT(expected, backend().launch_host_function({[](void*) {}, nullptr}, stream));
      EXPECT_RESULT(expected, backend().event_record(new_event(), stream, ordering));
      EXPECT_RESULT(expected, backend().stream_update_capture_dependencies(stream, {}, UpdateDependencies::set));
      EXPECT_RESULT(ErrorCode::stream_capture_unsupported, backend().stream_synchronize(stream));
      EXPECT_RESULT(ErrorCode::stream_capture_unsupported, backend().stream_query(stream));
      EXPECT_RESULT(ErrorCode::illegal_state, backend().stream_begin_capture(stream, mode));
    }
    GraphHandle graph = nullptr;
    EXPECT_RESULT(ErrorCode::stream_capture_unmatched, backend().stream_end_capture(joined, &graph));
    end();
    expect_can_capture(joined);
  }
}

TEST_P(CaptureConflictContract, TheEventsOfABrokenCaptureMeanNothing) {
  begin(non_blocking, CaptureMode::thread);
  EXPECT_RESULT(ErrorCode::captured_event, backend().event_query(captured_));
  EXPECT_RESULT(ErrorCode::invalid_value, backend().event_query(captured_));
  EXPECT_RESULT(ErrorCode::invalid_value, backend().stream_wait_event(new_stream(), captured_, ordering));
  end();
}

}  // namespace
}  // namespace reprise::backend::test
