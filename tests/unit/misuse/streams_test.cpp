// SPDX-License-Identifier: Apache-2.0
#include <cstdint>
#include <optional>
#include <thread>
#include <utility>
#include <vector>

#include "backend/backend.h"
#include "reprise/reprise.h"
#include "tests/support/refused.h"

// Wrong arguments of stream.h, event.h and device.h, on the host device.

namespace reprise::test {
namespace {

class MisusedStreams : public ::testing::Test {
 protected:
  ~MisusedStreams() override {
    event_.record(stream_);
    stream_.synchronize();
    EXPECT_TRUE(event_.query()) << "they can be used after all refusals";
  }

  const Device host_ = Device::parse("host");
  const DeviceGuard guard_{host_};
  Stream stream_;
  Event event_;
  HostSimulator simulator_;
  const Stream foreign_{simulator_.device()};
  const Event foreign_event_{simulator_.device()};
};

StreamHandle handle_of_nothing() {
  static int nothing = 0;
  return reinterpret_cast<StreamHandle>(&nothing);
}

TEST_F(MisusedStreams, HandlesOfNoStreamAreRefused) {
  // With a GPU, an unknown handle may be a stream of CUDA.
  if (backend::cuda_backend_of(handle_of_nothing()) == nullptr)
    expect_refused(
        {{[] { StreamRef{handle_of_nothing()}; }, "StreamRef expected a stream of CUDA or of a host device"}});
  const StreamRef nothing(host_, handle_of_nothing());
  expect_refused<BackendError>({
      {[&] { nothing.synchronize(); }, "StreamRef::synchronize: cuStreamSynchronize returned 400"},
      {[&] { static_cast<void>(nothing.query()); }, "StreamRef::query: cuStreamQuery returned 400"},
      {[&] { nothing.wait(stream_); }, "StreamRef::wait: "},
      {[&] { nothing.wait(event_); }, "StreamRef::wait: "},
      {[&] { event_.record(nothing); }, "Event::record: "},
      {[&] { event_.wait(nothing); }, "Event::wait: "},
      {[&] { static_cast<void>(nothing.capture_status()); }, "StreamRef::capture_status: "},
      {[&] { copy_async(&event_, &event_, 1, nothing); }, "copy_async: cuMemcpyAsync returned 400"},
  });
}

TEST_F(MisusedStreams, ObjectsOfAnotherRuntimeAreRefused) {
  expect_refused({
      {[&] { stream_.wait(foreign_); }, "expected a stream of the same device runtime"},
      {[&] { stream_.wait(foreign_event_); }, "expected an event of the same device runtime"},
      {[&] { event_.record(foreign_); }, "expected a stream of the same device runtime as the event"},
      {[&] { event_.wait(foreign_); }, "expected a stream of the same device runtime as the event"},
  });
  expect_refused<BackendError>({{[&] { elapsed_ms(event_, foreign_event_); }, "elapsed_ms: "}});
}

TEST_F(MisusedStreams, ValuesWithoutANameAreRefused) {
  expect_refused({
      {[&] { event_.record(stream_, EventUse(9)); }, "Event::record expected EventUse::ordering or EventUse::external"},
      {[&] { event_.wait(stream_, EventUse(-1)); }, "found the number -1, which has no name"},
      {[] { CaptureModeGuard{CaptureMode(9)}; }, "CaptureModeGuard expected CaptureMode::global"},
  });
  CaptureMode mode = CaptureMode(9);
  EXPECT_EQ(host_.backend().thread_exchange_capture_mode(&mode), ErrorCode::invalid_value);
  EXPECT_EQ(mode, CaptureMode(9));
}

TEST_F(MisusedStreams, OptionsOfCapturesWithoutANameAreRefused) {
  CUDAGraph graph;
  const auto with = [&](const GraphOptions& options) { capture(graph, options, [] {}); };
  expect_refused({
      {[&] { with({.capture_error_mode = CaptureMode(9)}); },
       "GraphOptions::capture_error_mode expected CaptureMode::"},
      {[&] { with({.report = ReportDetail(9)}); }, "GraphOptions::report expected ReportDetail::standard"},
      {[&] { with({.inputs = {.scope = Liveness(9)}}); }, "GraphOptions::inputs.scope expected Liveness::allocator"},
      {[&] { with({.instantiate_flags = InstantiateFlags(64)}); },
       "found the number 64, of which the bits 64 have no name"},
  });
  with({.allow_empty = true});
}

TEST_F(MisusedStreams, WhatWasMovedFromIsRefused) {
  Stream stream = std::move(stream_);
  Event event = std::move(event_);
  expect_refused({
      {[&] { stream_.synchronize(); }, "expected a stream that was not moved from"},  // NOLINT: that is the test
      {[&] { static_cast<void>(stream_.query()); }, "expected a stream that was not moved from"},
      {[&] { stream_.wait(stream); }, "expected a stream that was not moved from"},
      {[&] { StreamGuard{stream_.ref()}; }, "expected a stream that was not moved from"},
      {[&] { stream.wait(event_); }, "expected an event that was not moved from"},
      {[&] { event_.record(stream); }, "expected an event that was not moved from"},
      {[&] { event_.synchronize(); }, "expected an event that was not moved from"},
  });
  stream_ = std::move(stream);
  event_ = std::move(event);
}

/// Every function of an event, on a stream.
void use_all_of_an_event(const StreamRef& stream) {
  const Device device = stream.device();
  Event event(device), moved(std::move(event));
  event = std::move(moved);
  event.record(stream);
  event.wait(stream);
  event.synchronize();
  EXPECT_TRUE(event.query());
  EXPECT_EQ(event.device(), device);
  EXPECT_EQ(EventRef(event).native(), event.native());
  EXPECT_EQ(event.ref().native(), event.native());
}

TEST_F(MisusedStreams, EventsMayBeUsedOnAnyThreadAndBySeveralAtOnce) {
  std::optional<Event> theirs;
  std::thread([&] { theirs.emplace(host_); }).join();
  theirs->record(stream_);
  std::vector<std::thread> threads;
  for (int i = 0; i < 4; ++i)
    threads.emplace_back([&] {
      const Stream own(host_);
      for (int times = 0; times < 50; ++times) {
        theirs->record(own);
        theirs->wait(own);
        theirs->synchronize();
        static_cast<void>(theirs->query());
        EXPECT_EQ(theirs->ref().native(), theirs->native());
        EXPECT_EQ(theirs->device(), host_);
      }
      use_all_of_an_event(own);
    });
  for (std::thread& each : threads) each.join();
  theirs->synchronize();
  EXPECT_TRUE(theirs->query());
  std::thread([&] { theirs.reset(); }).join();
}

TEST_F(MisusedStreams, EventsMayBeUsedWithinHooksOfGraphs) {
  int hooks = 0;
  const auto use = [&] {
    use_all_of_an_event(stream_);
    event_.record(stream_);
    event_.wait(stream_);
    ++hooks;
  };
  CUDAGraph graph;
  graph.add_hooks({.captured = [&](GraphHandle) { use(); },
                   .instantiated = [&](GraphExecHandle) { use(); },
                   .before_replay = [&](const StreamRef&) { use(); },
                   .after_replay = [&](const StreamRef&, ErrorCode) { use(); },
                   .reset = use});
  Buffer<int> x(8, stream_);
  capture(graph, [&] { x.fill_bytes_async(0); });
  graph.replay(stream_);
  graph.reset();
  EXPECT_EQ(hooks, 5);
}

TEST_F(MisusedStreams, TimesOfEventsWithoutARecordOrTimingAreRefused) {
  const Event recorded, without_timing(host_, {.timing = false});
  recorded.record(stream_);
  without_timing.record(stream_);
  stream_.synchronize();
  expect_refused<BackendError>({
      {[&] { elapsed_ms(recorded, event_); }, "an event was never recorded, or was made without timing"},
      {[&] { elapsed_ms(without_timing, recorded); }, "elapsed_ms: cuEventElapsedTime returned 400"},
  });
}

TEST_F(MisusedStreams, PrioritiesOutsideOfTheRangeAreTheNearestInIt) {
  const Stream first(host_, {.priority = -1000}), last(host_, {.priority = 1000});
  int priority = 0;
  EXPECT_EQ(host_.backend().stream_priority(first.native(), &priority), ErrorCode::success);
  EXPECT_EQ(priority, -5);
  EXPECT_EQ(host_.backend().stream_priority(last.native(), &priority), ErrorCode::success);
  EXPECT_EQ(priority, 0);
}

TEST_F(MisusedStreams, NamesOfNoDeviceAreRefused) {
  for (const char* name :
       {"", ":", "host:", "host:-1", "host:1x", "HOST", "host :0", "gpu", "host:99999999999999999999"})
    EXPECT_THAT(text_of<UsageError>([&] { Device::parse(name); }), ::testing::HasSubstr("expected the n")) << name;
  expect_refused({
      {[] { Device::parse("host:999"); }, "expected the number of a host device below"},
      {[] { Device::parse("host-simulator:0"); }, "use HostSimulator::device()"},
  });
}

}  // namespace
}  // namespace reprise::test
