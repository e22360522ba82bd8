// SPDX-License-Identifier: Apache-2.0
#include <chrono>

#include "tests/conformance/contracts/contract.h"

namespace reprise::backend::test {
namespace {

class EventContract : public Contract {
 protected:
  static constexpr auto ordering = EventUseFlags::ordering;
  static constexpr auto external = EventUseFlags::external;

  void record(EventHandle event, StreamHandle stream) { EXPECT_OK(backend().event_record(event, stream, ordering)); }
  void wait(StreamHandle stream, EventHandle event) { EXPECT_OK(backend().stream_wait_event(stream, event, ordering)); }
};
REPRISE_ON_EVERY_DEVICE(EventContract);

TEST_P(EventContract, CountsAsReachedBeforeItIsRecorded) {
  EventHandle event = new_event();
  EXPECT_OK(backend().event_query(event));
  EXPECT_OK(backend().event_synchronize(event));
  StreamHandle stream = new_stream();
  wait(stream, event);
  EXPECT_OK(backend().stream_synchronize(stream));
}

TEST_P(EventContract, IsReadyOnceTheStreamIsThere) {
  EventHandle event = new_event();
  StreamHandle stream = new_stream();
  Gate& gate = new_gate();
  hold(stream, gate);
  record(event, stream);
  EXPECT_RESULT(ErrorCode::not_ready, backend().event_query(event));
  gate.open();
  EXPECT_OK(backend().event_synchronize(event));
  EXPECT_OK(backend().event_query(event));
}

TEST_P(EventContract, MarksOnlyTheWorkBeforeIt) {
  EventHandle event = new_event();
  StreamHandle stream = new_stream();
  Gate& gate = new_gate();
  int* device = new_memory<int>();
  EXPECT_OK(launch(stream, Store{}, device, 1));
  record(event, stream);
  hold(stream, gate);
  EXPECT_OK(backend().event_synchronize(event));
  EXPECT_RESULT(ErrorCode::not_ready, backend().stream_query(stream));
  EXPECT_EQ(read(device), 1);
}

TEST_P(EventContract, OrdersTwoStreams) {
  EventHandle event = new_event();
  StreamHandle first = new_stream();
  StreamHandle second = new_stream();
  Gate& gate = new_gate();
  int* log = new_memory<int>(2);
  int* length = new_memory<int>();
  hold(first, gate);
  EXPECT_OK(launch(first, Append{}, log, length, 1));
  record(event, first);
  wait(second, event);
  EXPECT_OK(launch(second, Append{}, log, length, 2));
  EXPECT_RESULT(ErrorCode::not_ready, backend().stream_query(second));
  gate.open();
  EXPECT_OK(backend().stream_synchronize(second));
  EXPECT_EQ(read(log, 2), (std::vector<int>{1, 2}));
}

TEST_P(EventContract, AWaitMeansTheRecordAtTheTimeOfTheCall) {
  EventHandle event = new_event();
  StreamHandle waiting = new_stream();
  StreamHandle first = new_stream();
  StreamHandle held = new_stream();
  Gate& first_gate = new_gate();
  Gate& never_opened = new_gate();
  hold(first, first_gate);
  record(event, first);
  wait(waiting, event);
  hold(held, never_opened);
  record(event, held);
  EXPECT_RESULT(ErrorCode::not_ready, backend().stream_query(waiting));
  first_gate.open();
  EXPECT_OK(backend().stream_synchronize(waiting)) << "the second record does not move the wait";
  EXPECT_RESULT(ErrorCode::not_ready, backend().event_query(event)) << "but a query means the last record";
}

TEST_P(EventContract, AWaitBeforeTheFirstRecordIsNoWait) {
  EventHandle event = new_event();
  StreamHandle waiting = new_stream();
  StreamHandle held = new_stream();
  Gate& gate = new_gate(by_steps_too);
  wait(waiting, event);
  hold(held, gate);
  record(event, held);
  EXPECT_OK(backend().stream_synchronize(waiting));
}

TEST_P(EventContract, MayBeDestroyedWhileAStreamWaitsForIt) {
  EventHandle event = new_event();
  StreamHandle first = new_stream();
  StreamHandle second = new_stream();
  Gate& gate = new_gate();
  int* device = new_memory<int>();
  hold(first, gate);
  EXPECT_OK(launch(first, Store{}, device, 1));
  record(event, first);
  wait(second, event);
  EXPECT_OK(launch(second, Add{}, device, 1));
  destroy(event);
  EXPECT_RESULT(ErrorCode::not_ready, backend().stream_query(second));
  gate.open();
  EXPECT_OK(backend().stream_synchronize(second));
  EXPECT_EQ(read(device), 2);
}

TEST_P(EventContract, MeasuresTheTimeBetweenTwoRecords) {
  EventHandle start = new_event();
  EventHandle end = new_event();
  StreamHandle stream = new_stream();
  const auto three_milliseconds = [](void*) {
    const auto until = std::chrono::steady_clock::now() + std::chrono::milliseconds(3);
    while (std::chrono::steady_clock::now() < until) std::this_thread::yield();
  };
  record(start, stream);
  EXPECT_OK(backend().launch_host_function({three_milliseconds, nullptr}, stream));
  record(end, stream);
  EXPECT_OK(backend().event_synchronize(end));
  float milliseconds = -1;
  EXPECT_OK(backend().event_elapsed_ms(&milliseconds, start, end));
  EXPECT_GE(milliseconds, 2.9F);
  EXPECT_LT(milliseconds, 30'000.0F);
}

TEST_P(EventContract, HasNoTimeBeforeBothAreReached) {
  EventHandle start = new_event();
  EventHandle end = new_event();
  StreamHandle stream = new_stream();
  Gate& gate = new_gate(by_steps_too);
  record(start, stream);
  hold(stream, gate);
  record(end, stream);
  float milliseconds = -1;
  EXPECT_RESULT(ErrorCode::not_ready, backend().event_elapsed_ms(&milliseconds, start, end));
  EXPECT_EQ(milliseconds, -1);
  gate.open();
  EXPECT_OK(backend().event_synchronize(end));
  EXPECT_OK(backend().event_elapsed_ms(&milliseconds, start, end));
}

TEST_P(EventContract, HasNoTimeIfOneWasNeverRecorded) {
  EventHandle start = new_event();
  StreamHandle stream = new_stream();
  record(start, stream);
  EXPECT_OK(backend().stream_synchronize(stream));
  float milliseconds = -1;
  EXPECT_RESULT(ErrorCode::invalid_handle, backend().event_elapsed_ms(&milliseconds, start, new_event()));
  EXPECT_RESULT(ErrorCode::invalid_handle, backend().event_elapsed_ms(&milliseconds, new_event(), start));
}

TEST_P(EventContract, HasNoTimeIfOneDoesNotTakeIt) {
  EventHandle start = new_event();
  EventHandle end = new_event(EventFlags::disable_timing);
  StreamHandle stream = new_stream();
  record(start, stream);
  record(end, stream);
  EXPECT_OK(backend().stream_synchronize(stream));
  float milliseconds = -1;
  EXPECT_RESULT(ErrorCode::invalid_handle, backend().event_elapsed_ms(&milliseconds, start, end));
  EXPECT_EQ(milliseconds, -1);
}

TEST_P(EventContract, RefusesTheExternalFlagOutsideOfACapture) {
  EventHandle event = new_event();
  StreamHandle stream = new_stream();
  EXPECT_RESULT(ErrorCode::illegal_state, backend().event_record(event, stream, external));
  EXPECT_RESULT(ErrorCode::illegal_state, backend().stream_wait_event(stream, event, external));
  record(event, stream);
  EXPECT_OK(backend().event_synchronize(event));
}

TEST_P(EventContract, RefusesFlagsThatThereAreNot) {
  EventHandle event = nullptr;
  EXPECT_RESULT(ErrorCode::invalid_value, backend().event_create(&event, static_cast<EventFlags>(64)));
  EXPECT_EQ(event, nullptr);
}

TEST_P(EventContract, RefusesANullHandle) {
  StreamHandle stream = new_stream();
  float milliseconds = 0;
  EXPECT_RESULT(ErrorCode::invalid_handle, backend().event_query(nullptr));
  EXPECT_RESULT(ErrorCode::invalid_handle, backend().stream_wait_event(stream, nullptr, ordering));
  EXPECT_RESULT(ErrorCode::invalid_handle, backend().event_elapsed_ms(&milliseconds, nullptr, new_event()));
}

}  // namespace
}  // namespace reprise::backend::test
