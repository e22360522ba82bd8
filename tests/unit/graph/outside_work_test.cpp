// SPDX-License-Identifier: Apache-2.0
#include <functional>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include "tests/unit/graph/graph_fixture.h"

// Work that a body submits to a stream which takes part in no capture: it would be executed at once, and be missing in
// replays.

namespace reprise::graphs::test {
namespace {

class OutsideWork : public ::testing::Test {
 protected:
  // In capture() and in the scope; a call with the same stream works afterwards.
  void expect_refused(const StreamRef& stream, const std::string& name,
                      const std::string& advice =
                          "Submit it to current_stream(), or to a stream that was forked off it by "
                          "StreamRef::wait(); make what is to run once") {
    const auto refused = [&](const std::function<void()>& call, const char* made) {
      for (const bool in_scope : {false, true}) {
        const std::string what = text_of<UsageError>([&] {
          const auto body = [&] {
            add(y_);
            call();
          };
          if (!in_scope) {
            capture(graph_, body);
            return;
          }
          const graph scope(graph_);
          body();
        });
        EXPECT_TRUE(contains(what, std::string(made) + ": expected work for a stream that takes part in the capture"));
        EXPECT_TRUE(contains(
            what, "found " + name + ", where it would be executed at once and be missing in replays. " + advice))
            << what;
        call();
        stream.synchronize();
      }
    };
    Buffer<int> x(1, stream), from(1, stream);
    from.fill_bytes_async(0, stream);
    stream.synchronize();
    refused([&] { add(x, 1, stream); }, "launch");
    refused([&] { copy_async(x.data(), from.data(), sizeof(int), stream); }, "copy_async");
    refused([&] { fill_async(x.data(), 0, sizeof(int), stream); }, "fill_async");
    refused([&] { free_async(allocate_async(sizeof(int), stream), stream); }, "allocate_async");
    int calls = 0;
    refused([&] { launch_host(stream, [&calls] { ++calls; }); }, "launch_host");
    EXPECT_EQ(calls, 2) << "only outside of the captures";
  }

  void expect_captures_all(CUDAGraph& graph, int before) {
    graph.replay();
    EXPECT_EQ(first(y_), before + 1);
  }

  const StreamRef legacy_ = default_device().default_stream();
  Buffer<int> x_ = zeros(), y_ = zeros();
  CUDAGraph graph_;
};

TEST_F(OutsideWork, OnTheLegacyStreamIsRefusedBeforeItTakesEffect) {
  expect_refused(legacy_, "the legacy default stream of " + default_device().str());
}

TEST_F(OutsideWork, OnTheStreamThatWasCurrentIsRefusedBeforeItTakesEffect) {
  const SideStream side;
  expect_refused(side.ref(), "the stream that was current before the capture");
}

TEST_F(OutsideWork, OnTheStreamThatWasCurrentIsRefusedAfterAWarmUpToo) {
  const SideStream side;
  int runs = 0;
  const std::string what = text_of<UsageError>([&] {
    capture(graph_, {.warmup = 1}, [&] {
      add(y_);
      if (++runs == 2) add(x_, 1, side.ref());
    });
  });
  EXPECT_TRUE(contains(what, "found the stream that was current before the capture")) << what;
  EXPECT_EQ(first(x_), 0);
}

TEST_F(OutsideWork, OnTheStreamThatWasCurrentIsRefusedWhereTheStreamOfTheCaptureIsGiven) {
  const Stream captured;
  const SideStream before;
  bool outside = false;
  const auto body = [&] {
    add(y_);
    if (outside) add(x_, 1, before.ref());
  };
  BreakableGraph with_eager_parts;
  const std::function<void()> captures[] = {
      [&] { capture(graph_, {.stream = captured}, body); },
      [&] {
        const graph scope(graph_, {.stream = captured});
        body();
      },
      [&] { breakable(with_eager_parts, {.stream = captured}, body); },
  };
  for (const auto& each : captures) {
    graph_.reset();
    outside = true;
    const std::string what = text_of<UsageError>(each);
    EXPECT_TRUE(contains(what, "found the stream that was current before the capture")) << what;
    outside = false;
    each();
  }
  default_device().synchronize();
  EXPECT_EQ(first(x_), 0);
}

TEST_F(OutsideWork, OnAStreamOfAnotherDeviceIsRefusedBeforeItTakesEffect) {
  const HostSimulator simulator;
  std::vector<Device> others = devices();  // host:0 where a CUDA device is tested
  std::erase(others, default_device());
  others.push_back(simulator.device());
  for (const Device& other : others) {
    const bool can_wait = other != simulator.device() && other.type() == default_device().type();
    const std::string advice = "The capture is one of " + default_device().str() + ": begin it while " + other.str() +
                               " is current (DeviceGuard)" + (can_wait ? ", or fork" : "; make");
    const Stream there(other);
    expect_refused(there, "a stream of " + other.str(), advice);
    expect_refused(other.default_stream(), "the legacy default stream of " + other.str(), advice);
  }
}

TEST_F(OutsideWork, OfAReplayIsRefused) {
  CUDAGraph other = capture([&] { add(x_); });
  const std::string what = text_of<UsageError>([&] {
    capture(graph_, [&] {
      add(y_);
      other.replay(legacy_);
    });
  });
  EXPECT_TRUE(contains(what, "CUDAGraph::replay: expected work for a stream that takes part in the capture")) << what;
  other.replay(legacy_);
  EXPECT_EQ(first(x_), 1);
}

// The runtime itself refuses that in the other modes only. Memory from before the capture, as of a workspace that the
// body replaces, is freed once, which is right.
TEST_F(OutsideWork, OfARelaxedCaptureMayFreeMemoryAndNotAllocateIt) {
  const SideStream side;
  for (const StreamRef& stream : {legacy_, side.ref()}) {
    graph_.reset();
    void* const memory = allocate_async(sizeof(int), stream);
    capture(graph_, {.capture_error_mode = CaptureMode::relaxed}, [&] {
      free_async(memory, stream);
      const std::string what = text_of<UsageError>([&] { static_cast<void>(allocate_async(sizeof(int), stream)); });
      EXPECT_TRUE(contains(what, "allocate_async: expected work for a stream that takes part in the capture")) << what;
      add(y_);
    });
    graph_.replay();
    default_device().synchronize();
  }
  EXPECT_EQ(first(y_), 2);
}

TEST_F(OutsideWork, AfterARefusalTheCaptureGoesOn) {
  capture(graph_, [&] {
    EXPECT_THROW(add(x_, 1, legacy_), UsageError);
    add(y_);
  });
  expect_captures_all(graph_, 0);
  EXPECT_EQ(first(x_), 0);
}

TEST_F(OutsideWork, IsAllowedWhereItIsMeant) {
  const Stream upload;
  const SideStream before;
  Buffer<int> on_before = zeros(), on_upload = zeros();
  default_device().synchronize();
  capture(graph_, [&] {
    add(y_);
    {
      const CaptureModeGuard runs_once;
      add(x_, 1, legacy_);
      add(on_before, 1, before.ref());
    }
    add(on_upload, 1, upload);  // a stream of its own
    Event().record(before.ref());
    std::thread([&] { add(x_, 1, legacy_); }).join();
  });
  default_device().synchronize();
  EXPECT_EQ(first(x_), 2);
  EXPECT_EQ(first(on_before), 1);
  EXPECT_EQ(first(on_upload), 1);
  expect_captures_all(graph_, 0);
}

TEST_F(OutsideWork, IsNoneOnStreamsThatJoinTheCapture) {
  const SideStream before;
  capture(graph_, [&](StreamRef here) {
    before.ref().wait(here);
    add(y_, 1, before.ref());
    here.wait(before.ref());
  });
  expect_captures_all(graph_, 0);
}

TEST_F(OutsideWork, IsNoneInAWarmUpAndInHooksOfTheEnd) {
  GraphOptions options{.warmup = 1};
  options.hooks.captured = [&](GraphHandle) { add(x_, 1, legacy_); };
  options.check_frozen_values = [&] { add(x_, 10, legacy_); };
  capture(graph_, options, [&] { add(y_); });
  default_device().synchronize();
  EXPECT_EQ(first(x_), 11);
  expect_captures_all(graph_, 1);
  const Stream side;
  const StreamGuard current(side);
  graph_.reset();
  graph scope(graph_);
  add(y_);
  scope.end();
  add(x_, 1, side);
  side.synchronize();
  add(x_, 1, legacy_);
  default_device().synchronize();
  EXPECT_EQ(first(x_), 13);
}

TEST_F(OutsideWork, OfAnInnerCaptureIsItsOwnAndNotThatOfTheOneAround) {
  CUDAGraph inner;
  capture(graph_, [&](StreamRef around) {
    capture(inner, [&] {
      add(x_);
      add(y_, 1, around);  // captured there
      EXPECT_THROW(add(x_, 1, legacy_), UsageError);
    });
    EXPECT_THROW(add(x_, 1, legacy_), UsageError);
  });
  expect_captures_all(graph_, 0);
  inner.replay();
  EXPECT_EQ(first(x_), 1);
}

}  // namespace
}  // namespace reprise::graphs::test
