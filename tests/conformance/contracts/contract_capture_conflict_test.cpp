// SPDX-License-Identifier: Apache-2.0
#include "tests/conformance/contracts/contract.h"

// What breaks a capture, or is refused without breaking it: what the measured calls (recorded_calls_test.cpp), which go
// through every call in every mode and from every thread, do not show.

namespace reprise::backend::test {
namespace {

class CaptureConflictContract : public Contract {
 protected:
  static constexpr auto ordering = EventUseFlags::ordering;

  StreamHandle stream_ = nullptr;   // the one that captures
  EventHandle captured_ = nullptr;  // recorded in its capture
  int* device_ = nullptr;

  void SetUp() override {
    device_ = new_memory<int>(2);
    captured_ = new_event();
  }

  void begin(CaptureMode mode) {
    stream_ = new_stream();
    begin_capture(stream_, mode);
    EXPECT_OK(launch(stream_, Add{}, device_, 1));
    EXPECT_OK(backend().event_record(captured_, stream_, ordering));
  }

  template <class F>
  void in_every_mode_from_every_thread(F body) {
    for (const CaptureMode mode : all_modes)
      for (const bool other_thread : {false, true}) {
        SCOPED_TRACE(testing::Message() << "mode " << static_cast<int>(mode) << (other_thread ? ", other" : ", same")
                                        << " thread");
        begin(mode);
        if (other_thread)
          on_another_thread(body);
        else
          body();
        end();
      }
  }

  /// The call gets this code and the capture continues.
  template <class F>
  void expect_active(ErrorCode expected, F call) {
    in_every_mode_from_every_thread([&] {
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

TEST_P(CaptureConflictContract, InvalidArgumentsDoNotBreakIt) {
  expect_active(ErrorCode::invalid_value, [&] { return backend().copy_async(nullptr, device_, 4, stream_); });
  expect_active(ErrorCode::invalid_value, [&] {
    return backend().set_async({reinterpret_cast<char*>(device_) + 1, 0, 4, 1}, stream_);
  });
  expect_active(ErrorCode::invalid_value, [&] { return backend().launch_host_function({nullptr, nullptr}, stream_); });
}

TEST_P(CaptureConflictContract, WorkOnTheLegacyStreamWhileANonBlockingStreamCapturesRunsAtOnce) {
  int expected = 0;
  in_every_mode_from_every_thread([&] {
    const CaptureModeScope relaxed(backend(), CaptureMode::relaxed);
    EXPECT_OK(launch(nullptr, Add{}, device_ + 1, 1));
    EXPECT_OK(backend().stream_synchronize(nullptr));
    EXPECT_EQ(read(device_ + 1), ++expected) << "it is not in the graph";
    EXPECT_EQ(status_of(stream_), CaptureStatus::active);
  });
}

TEST_P(CaptureConflictContract, EndingOnAnotherThreadIsTheEndWithoutAGraph) {
  for (const CaptureMode mode : {CaptureMode::global, CaptureMode::thread}) {
    begin(mode);
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
  begin(CaptureMode::relaxed);
  on_another_thread([&] { EXPECT_EQ(nodes_of(end_capture(stream_)).size(), 1U); });
  expect_can_capture(stream_);
}

TEST_P(CaptureConflictContract, NothingCanBeGivenToAStreamOfABrokenCapture) {
  for (const CaptureMode mode : all_modes) {
    begin(mode);
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

TEST_P(CaptureConflictContract, AnExecutableWhoseDestructionIsRefusedIsStillThere) {
  GraphHandle empty = new_graph();
  for (const CaptureMode mode : {CaptureMode::global, CaptureMode::thread}) {
    GraphExecHandle exec = instantiate(empty);
    begin(mode);
    EXPECT_RESULT(ErrorCode::stream_capture_unsupported, backend().graph_exec_destroy(exec));
    end();
    run(exec, stream_);
  }
}

TEST_P(CaptureConflictContract, TheEventsOfABrokenCaptureMeanNothing) {
  begin(CaptureMode::thread);
  EXPECT_RESULT(ErrorCode::captured_event, backend().event_query(captured_));
  EXPECT_RESULT(ErrorCode::invalid_value, backend().event_query(captured_));
  EXPECT_RESULT(ErrorCode::invalid_value, backend().stream_wait_event(new_stream(), captured_, ordering));
  end();
}

}  // namespace
}  // namespace reprise::backend::test
