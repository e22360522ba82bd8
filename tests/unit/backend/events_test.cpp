// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>

#include "reprise/event.h"
#include "tests/unit/memory/memory_fixture.h"

namespace reprise {
namespace {

using memory::test::new_device;
using memory::test::RawCapture;
using memory::test::Warnings;
using test::Gate;

class EventTest : public ::testing::Test {
 protected:
  void close(Gate& gate, const StreamRef& stream) {
    ASSERT_EQ(backend_.launch_host_function({&Gate::pass, &gate}, stream.native()), ErrorCode::success);
  }

  backend::test::FaultyBackend& backend_ = new_device();
  Device device_{backend_};
  Stream stream_{device_};
  Stream other_{device_};
};

TEST_F(EventTest, ThatWasNeverRecordedIsReached) {
  const Event event(device_);
  EXPECT_TRUE(event.query());
  EXPECT_NO_THROW(event.synchronize());
}

TEST_F(EventTest, IsReachedWhenTheWorkBeforeItIsDone) {
  const Event event(device_);
  Gate gate;
  close(gate, stream_);
  event.record(stream_);
  EXPECT_FALSE(event.query());
  gate.open();
  event.synchronize();
  EXPECT_TRUE(event.query());
}

TEST_F(EventTest, IsRecordedOnTheCurrentStreamByDefault) {
  const StreamGuard guard(stream_);
  const Event event;
  Gate gate;
  close(gate, stream_);
  event.record();
  EXPECT_FALSE(event.query());
  gate.open();
  event.synchronize();
}

TEST_F(EventTest, AStreamWaitsForTheRecordAsItIsAtTheTimeOfTheWait) {
  const Event event(device_);
  Gate first, second;
  close(first, stream_);
  event.record(stream_);
  event.wait(other_);
  close(second, stream_);
  event.record(stream_);
  EXPECT_FALSE(other_.query());
  first.open();
  other_.synchronize();
  EXPECT_FALSE(event.query());
  second.open();
  stream_.synchronize();
}

TEST_F(EventTest, MayBeDestroyedWhileAStreamWaitsForIt) {
  Gate gate;
  close(gate, stream_);
  {
    const Event event(device_, EventOptions{.timing = false});
    event.record(stream_);
    other_.wait(event);
  }
  EXPECT_FALSE(other_.query());
  gate.open();
  other_.synchronize();
  EXPECT_TRUE(stream_.query());
}

TEST_F(EventTest, TwoTellTheTimeBetweenThem) {
  const Event start(device_), end(device_);
  start.record(stream_);
  end.record(stream_);
  stream_.synchronize();
  EXPECT_GE(elapsed_ms(start, end), 0.0f);
}

TEST_F(EventTest, ThatIsNotReachedHasNoTimeYet) {
  const Event start(device_), end(device_);
  Gate gate(reprise::test::by_steps_too);
  start.record(stream_);
  close(gate, stream_);
  end.record(stream_);
  try {
    elapsed_ms(start, end);
    ADD_FAILURE() << "no exception";
  } catch (const BackendError& error) {
    EXPECT_EQ(error.code(), ErrorCode::not_ready);
  }
  gate.open();
  stream_.synchronize();
  EXPECT_NO_THROW(elapsed_ms(start, end));
}

TEST_F(EventTest, ExternalRecordsAndWaitsAreNodesOfACapture) {
  const Event before(device_), after(device_);
  std::vector<GraphNodeHandle> nodes;
  {
    const RawCapture capture(stream_);
    before.wait(stream_, EventUse::external);
    after.record(stream_, EventUse::external);
    backend::CaptureInfo info;
    ASSERT_EQ(backend_.stream_capture_info(stream_.native(), &info), ErrorCode::success);
    ASSERT_EQ(backend_.graph_nodes(info.graph, &nodes), ErrorCode::success);
    ASSERT_EQ(nodes.size(), 2u);
    backend::NodeType type;
    ASSERT_EQ(backend_.graph_node_type(nodes[0], &type), ErrorCode::success);
    EXPECT_EQ(type, backend::NodeType::event_wait);
    ASSERT_EQ(backend_.graph_node_type(nodes[1], &type), ErrorCode::success);
    EXPECT_EQ(type, backend::NodeType::event_record);
  }
}

TEST_F(EventTest, CanBeMadeAndDestroyedInAnyCapture) {
  const RawCapture capture(stream_);
  { const Event event(device_); }
  EXPECT_TRUE(capture.is_whole());
}

TEST_F(EventTest, IsDestroyedOnceHoweverOftenItIsMoved) {
  backend_.forget_calls();
  {
    Event first(device_);
    const EventHandle handle = first.native();
    Event second(std::move(first));
    EXPECT_EQ(second.native(), handle);
    Event third(device_);
    third = std::move(second);
    EXPECT_EQ(third.native(), handle);
    EXPECT_EQ(backend_.calls(backend::Call::event_destroy), 1);
  }
  EXPECT_EQ(backend_.calls(backend::Call::event_destroy), 2);
}

TEST_F(EventTest, ThatCannotBeMadeIsABackendError) {
  backend_.fail(backend::Call::event_create, ErrorCode::out_of_memory);
  EXPECT_THROW(Event{device_}, BackendError);
  EXPECT_NO_THROW(Event{device_});
}

TEST_F(EventTest, ThatCannotBeDestroyedIsReported) {
  const Warnings warnings;
  backend_.fail(backend::Call::event_destroy, ErrorCode::launch_failure);
  const EventHandle leaked = Event(device_).native();
  EXPECT_EQ(warnings.texts().size(), 1u);
  EXPECT_EQ(backend_.event_destroy(leaked), ErrorCode::success);
}

}  // namespace
}  // namespace reprise
