// SPDX-License-Identifier: Apache-2.0
#include <algorithm>

#include "tests/conformance/contracts/contract.h"

// Captures of several streams, forked and joined by events.

namespace reprise::backend::test {
namespace {

using Pairs = std::vector<std::pair<GraphNodeHandle, GraphNodeHandle>>;
using Nodes = std::vector<GraphNodeHandle>;

class CaptureForkContract : public Contract {
 protected:
  StreamHandle stream_ = nullptr;
  StreamHandle fork_ = nullptr;
  int* device_ = nullptr;
  void SetUp() override {
    stream_ = new_stream();
    fork_ = new_stream();
    device_ = new_memory<int>(4);
  }

  EventHandle record(StreamHandle stream) {
    EventHandle event = new_event();
    EXPECT_OK(backend().event_record(event, stream, EventUseFlags::ordering));
    return event;
  }
  void wait(StreamHandle stream, EventHandle event) {
    EXPECT_OK(backend().stream_wait_event(stream, event, EventUseFlags::ordering));
  }
  GraphNodeHandle work(StreamHandle stream) {
    EXPECT_OK(launch(stream, Add{}, device_, 1));
    CaptureInfo info;
    EXPECT_OK(backend().stream_capture_info(stream, &info));
    return info.dependencies.size() == 1 ? info.dependencies[0] : nullptr;
  }
  std::uint64_t id_of(StreamHandle stream) {
    CaptureInfo info;
    EXPECT_OK(backend().stream_capture_info(stream, &info));
    return info.id;
  }
  Pairs sorted_edges(GraphHandle graph) {
    Pairs edges = edges_of(graph);
    std::sort(edges.begin(), edges.end());
    return edges;
  }
  static Pairs sorted(Pairs pairs) {
    std::sort(pairs.begin(), pairs.end());
    return pairs;
  }
  /// The end fails with this code; then all of it is over, and the next capture works.
  void expect_no_graph(ErrorCode expected) {
    GraphHandle graph = nullptr;
    EXPECT_RESULT(expected, backend().stream_end_capture(stream_, &graph));
    EXPECT_EQ(graph, nullptr);
    EXPECT_EQ(status_of(stream_), CaptureStatus::none);
    EXPECT_EQ(status_of(fork_), CaptureStatus::none);
    EXPECT_OK(backend().stream_synchronize(fork_));
    expect_can_capture(stream_);
    expect_can_capture(fork_);
  }
};
REPRISE_ON_EVERY_DEVICE(CaptureForkContract);

TEST_P(CaptureForkContract, AFreeStreamThatWaitsForACapturedEventJoins) {
  begin_capture(stream_);
  work(stream_);
  EXPECT_EQ(status_of(fork_), CaptureStatus::none);
  wait(fork_, record(stream_));
  EXPECT_EQ(status_of(fork_), CaptureStatus::active);
  EXPECT_EQ(id_of(fork_), id_of(stream_));
  end_capture(stream_);
  EXPECT_EQ(status_of(fork_), CaptureStatus::none);
}

TEST_P(CaptureForkContract, EdgesAreTheOrderOfTheStreamsAndTheEvents) {
  begin_capture(stream_);
  GraphNodeHandle top = work(stream_);
  wait(fork_, record(stream_));
  GraphNodeHandle left = work(stream_);
  GraphNodeHandle right = work(fork_);
  wait(stream_, record(fork_));
  GraphNodeHandle bottom = work(stream_);
  GraphHandle graph = end_capture(stream_);
  EXPECT_EQ(nodes_of(graph), (Nodes{top, left, right, bottom}));
  EXPECT_EQ(sorted_edges(graph), sorted({{top, left}, {top, right}, {left, bottom}, {right, bottom}}));
}

TEST_P(CaptureForkContract, ForkedStreamsRunAtOnceInAReplay) {
  REPRISE_NEEDS(GetParam(), Capability::parallel_host_functions);
  Meeting meeting(2);
  begin_capture(stream_);
  wait(fork_, record(stream_));
  EXPECT_OK(backend().launch_host_function({&Meeting::attend, &meeting}, stream_));
  EXPECT_OK(backend().launch_host_function({&Meeting::attend, &meeting}, fork_));
  wait(stream_, record(fork_));
  run(instantiate(end_capture(stream_)), new_stream());
  EXPECT_TRUE(meeting.all_met());
}

TEST_P(CaptureForkContract, AForkAtTheVeryBeginningIsARootOfItsOwn) {
  begin_capture(stream_);
  wait(fork_, record(stream_));
  GraphNodeHandle left = work(stream_);
  GraphNodeHandle right = work(fork_);
  wait(stream_, record(fork_));
  GraphNodeHandle bottom = work(stream_);
  EXPECT_EQ(sorted_edges(end_capture(stream_)), sorted({{left, bottom}, {right, bottom}}));
}

TEST_P(CaptureForkContract, AWaitMeansTheRecordAtTheTimeOfTheCall) {
  EventHandle event = new_event();
  begin_capture(stream_);
  GraphNodeHandle first = work(stream_);
  EXPECT_OK(backend().event_record(event, stream_, EventUseFlags::ordering));
  wait(fork_, event);
  GraphNodeHandle second = work(stream_);
  EXPECT_OK(backend().event_record(event, stream_, EventUseFlags::ordering));
  GraphNodeHandle forked = work(fork_);
  wait(stream_, record(fork_));
  EXPECT_EQ(sorted_edges(end_capture(stream_)), sorted({{first, second}, {first, forked}}));
}

TEST_P(CaptureForkContract, AJoinedForkIsFreeAfterTheEnd) {
  begin_capture(stream_);
  wait(fork_, record(stream_));
  work(fork_);
  wait(stream_, record(fork_));
  end_capture(stream_);
  EXPECT_OK(launch(fork_, Store{}, device_, 8));
  EXPECT_OK(backend().stream_synchronize(fork_));
  EXPECT_EQ(read(device_), 8);
  expect_can_capture(fork_);
}

TEST_P(CaptureForkContract, AnEventThatWasNeverRecordedIsNothingToWaitFor) {
  EventHandle never = new_event();
  begin_capture(stream_);
  wait(stream_, never);
  EXPECT_EQ(status_of(stream_), CaptureStatus::active);
  GraphNodeHandle only = work(stream_);
  GraphHandle graph = end_capture(stream_);
  EXPECT_EQ(nodes_of(graph), (Nodes{only}));
  EXPECT_TRUE(edges_of(graph).empty());
}

TEST_P(CaptureForkContract, TwoCapturesMustNotMeet) {
  begin_capture(stream_);
  begin_capture(fork_);
  work(stream_);
  EXPECT_RESULT(ErrorCode::stream_capture_merge,
                backend().stream_wait_event(fork_, record(stream_), EventUseFlags::ordering));
  EXPECT_EQ(status_of(stream_), CaptureStatus::invalidated);
  EXPECT_EQ(status_of(fork_), CaptureStatus::invalidated);
  GraphHandle graph = nullptr;
  EXPECT_RESULT(ErrorCode::stream_capture_invalidated, backend().stream_end_capture(fork_, &graph));
  expect_no_graph(ErrorCode::stream_capture_invalidated);
}

TEST_P(CaptureForkContract, AForkMayBeDestroyed) {
  begin_capture(stream_);
  wait(fork_, record(stream_));
  destroy(fork_);
  EXPECT_EQ(status_of(stream_), CaptureStatus::active);
  work(stream_);
  EXPECT_EQ(nodes_of(end_capture(stream_)).size(), 1U);
}

TEST_P(CaptureForkContract, DestroyingTheOriginEndsTheCapture) {
  begin_capture(stream_);
  wait(fork_, record(stream_));
  destroy(stream_);
  void* pointer = nullptr;
  EXPECT_OK(backend().memory_allocate(&pointer, 64)) << "no capture forbids it any more";
  EXPECT_OK(backend().memory_free(pointer));
  expect_can_capture(fork_);
}

TEST_P(CaptureForkContract, ACapturedEventMayBeDestroyed) {
  begin_capture(stream_);
  work(stream_);
  EventHandle event = record(stream_);
  wait(fork_, event);
  destroy(event);
  EXPECT_EQ(status_of(stream_), CaptureStatus::active);
  end_capture(stream_);
}

TEST_P(CaptureForkContract, RecordingAnEventAgainOutsideMakesItOrdinary) {
  EventHandle event = new_event();
  begin_capture(stream_, CaptureMode::relaxed);
  work(stream_);
  EXPECT_OK(backend().event_record(event, stream_, EventUseFlags::ordering));
  EXPECT_OK(backend().event_record(event, fork_, EventUseFlags::ordering));
  EXPECT_OK(backend().event_synchronize(event));
  EXPECT_OK(backend().event_query(event));
  EXPECT_EQ(status_of(fork_), CaptureStatus::none);
  EXPECT_EQ(status_of(stream_), CaptureStatus::active);
  end_capture(stream_);
}

TEST_P(CaptureForkContract, AnEventOfAnEndedCaptureMeansNothingUntilItIsRecordedAgain) {
  EventHandle event = new_event();
  begin_capture(stream_);
  work(stream_);
  EXPECT_OK(backend().event_record(event, stream_, EventUseFlags::ordering));
  end_capture(stream_);
  float milliseconds = -1;
  EXPECT_RESULT(ErrorCode::invalid_value, backend().event_query(event));
  EXPECT_RESULT(ErrorCode::invalid_value, backend().event_synchronize(event));
  EXPECT_RESULT(ErrorCode::invalid_value, backend().stream_wait_event(fork_, event, EventUseFlags::ordering));
  EXPECT_RESULT(ErrorCode::invalid_value, backend().event_elapsed_ms(&milliseconds, event, event));
  EXPECT_OK(backend().event_record(event, fork_, EventUseFlags::ordering));
  EXPECT_OK(backend().event_synchronize(event));
}

TEST_P(CaptureForkContract, AnEventOfAnEndedCaptureBreaksTheNextOne) {
  EventHandle event = new_event();
  begin_capture(stream_);
  work(stream_);
  EXPECT_OK(backend().event_record(event, stream_, EventUseFlags::ordering));
  end_capture(stream_);
  begin_capture(stream_);
  EXPECT_RESULT(ErrorCode::invalid_value, backend().stream_wait_event(stream_, event, EventUseFlags::ordering));
  EXPECT_EQ(status_of(stream_), CaptureStatus::invalidated);
  expect_no_graph(ErrorCode::stream_capture_invalidated);
}

}  // namespace
}  // namespace reprise::backend::test
