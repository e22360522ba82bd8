// SPDX-License-Identifier: Apache-2.0
#include <set>

#include "tests/conformance/contracts/contract.h"

// The per-thread default stream: the handle 2, another stream on each thread.

namespace reprise::backend::test {
namespace {

class PerThreadStreamContract : public Contract {
 protected:
  static constexpr StreamHandle legacy = nullptr;
  const StreamHandle own = reinterpret_cast<StreamHandle>(std::uintptr_t{2});

  std::uint64_t id_here() {
    std::uint64_t id = 0;
    EXPECT_OK(backend().stream_id(own, &id));
    return id;
  }
};
REPRISE_ON_EVERY_DEVICE(PerThreadStreamContract);

TEST_P(PerThreadStreamContract, IsOneOfItsOwnOnEachThread) {
  std::set<std::uint64_t> ids{id_here()};
  EXPECT_TRUE(ids.contains(id_here()));
  for (int i = 0; i < 3; ++i) on_another_thread([&] { ids.insert(id_here()); });
  std::uint64_t id = 0;
  EXPECT_OK(backend().stream_id(legacy, &id));
  ids.insert(id);
  EXPECT_EQ(ids.size(), 5U);
}

TEST_P(PerThreadStreamContract, IsAnOrdinaryBlockingStream) {
  StreamFlags flags = StreamFlags::non_blocking;
  int priority = 1;
  EXPECT_OK(backend().stream_flags(own, &flags));
  EXPECT_OK(backend().stream_priority(own, &priority));
  EXPECT_EQ(flags, StreamFlags::blocking);
  EXPECT_EQ(priority, 0);
}

TEST_P(PerThreadStreamContract, RunsWorkInOrder) {
  int* const x = new_memory<int>();
  EXPECT_OK(launch(own, Store{}, x, 20));
  EXPECT_OK(launch(own, Add{}, x, 3));
  EXPECT_OK(backend().stream_synchronize(own));
  EXPECT_EQ(read(x), 23);
  EXPECT_OK(backend().stream_query(own));
}

TEST_P(PerThreadStreamContract, AndTheLegacyStreamWaitForEachOther) {
  int* const x = new_memory<int>();
  Gate& first = new_gate();
  hold(legacy, first);
  EXPECT_OK(launch(own, Store{}, x, 1));
  EXPECT_RESULT(ErrorCode::not_ready, backend().stream_query(own));
  first.open();
  EXPECT_OK(backend().stream_synchronize(own));
  Gate& second = new_gate();
  hold(own, second);
  EXPECT_RESULT(ErrorCode::not_ready, backend().stream_query(legacy));
  second.open();
  EXPECT_OK(backend().stream_synchronize(legacy));
}

TEST_P(PerThreadStreamContract, DoesNotWaitForThatOfAnotherThread) {
  Gate& gate = new_gate();
  hold(own, gate);
  on_another_thread([&] { EXPECT_OK(backend().stream_synchronize(own)); });
  EXPECT_RESULT(ErrorCode::not_ready, backend().stream_query(own));
  gate.open();
  EXPECT_OK(backend().stream_synchronize(own));
}

TEST_P(PerThreadStreamContract, CanBeCapturedInEachModeWhereThoseOfOtherThreadsAreNot) {
  int* const x = new_memory<int>();
  for (const CaptureMode mode : {CaptureMode::global, CaptureMode::thread, CaptureMode::relaxed}) {
    begin_capture(own, mode);
    EXPECT_OK(launch(own, Add{}, x, 5));
    EXPECT_EQ(status_of(own), CaptureStatus::active);
    on_another_thread([&] {
      GraphHandle none = nullptr;
      EXPECT_EQ(status_of(own), CaptureStatus::none);
      EXPECT_RESULT(ErrorCode::illegal_state, backend().stream_end_capture(own, &none));
    });
    run(instantiate(end_capture(own)), own);
  }
  EXPECT_EQ(read(x), 15);
}

TEST_P(PerThreadStreamContract, ThatCapturesForbidsTheLegacyStream) {
  int* const x = new_memory<int>();
  begin_capture(own);
  EXPECT_RESULT(ErrorCode::stream_capture_implicit, launch(legacy, Store{}, x, 1));
  GraphHandle none = nullptr;
  EXPECT_RESULT(ErrorCode::stream_capture_invalidated, backend().stream_end_capture(own, &none));
  EXPECT_EQ(none, nullptr);
}

TEST_P(PerThreadStreamContract, CanBeWaitedForByAnEvent) {
  EventHandle const event = new_event();
  StreamHandle const other = new_stream();
  int* const x = new_memory<int>();
  EXPECT_OK(launch(own, Store{}, x, 7));
  EXPECT_OK(backend().event_record(event, own, EventUseFlags::ordering));
  EXPECT_OK(backend().stream_wait_event(other, event, EventUseFlags::ordering));
  EXPECT_OK(launch(other, Add{}, x, 1));
  EXPECT_OK(backend().stream_synchronize(other));
  EXPECT_EQ(read(x), 8);
}

TEST_P(PerThreadStreamContract, StillDoesItsWorkWhenTheThreadHasEnded) {
  int* const x = new_memory<int>();
  Gate& gate = new_gate();
  on_another_thread([&] {
    hold(own, gate);
    EXPECT_OK(launch(own, Store{}, x, 9));
  });
  EXPECT_FALSE(gate.is_open());
  gate.open();
  EXPECT_OK(backend().device_synchronize());
  EXPECT_EQ(read(x), 9);
}

TEST_P(PerThreadStreamContract, TakesItsCaptureAlongWhenTheThreadEnds) {
  int* const x = new_memory<int>();
  on_another_thread([&] {
    begin_capture(own, CaptureMode::global);
    EXPECT_OK(launch(own, Store{}, x, 1));
  });
  EXPECT_OK(launch(legacy, Store{}, x, 2));
  EXPECT_OK(backend().device_synchronize());
  EXPECT_EQ(read(x), 2);
  expect_can_capture(own);
}

TEST_P(PerThreadStreamContract, CannotBeDestroyed) {
  EXPECT_RESULT(ErrorCode::invalid_handle, backend().stream_destroy(own));
  EXPECT_OK(backend().stream_synchronize(own));
}

}  // namespace
}  // namespace reprise::backend::test
