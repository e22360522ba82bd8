// SPDX-License-Identifier: Apache-2.0
#include <atomic>
#include <optional>
#include <thread>
#include <vector>

#include "backend/check.h"
#include "tests/support/faulty_backend.h"
#include "tests/support/gate.h"
#include "tests/unit/cache/cache_fixture.h"

namespace reprise::caches::test {
namespace {

using graphs::test::call_on_host;
using reprise::test::Gate;

/// A cache with two keys; replays of the first one stand at the gate.
struct Gated {
  Gated() {
    gate->open();  // for the replays that capture
    run_gated();
    run_other();
    current_stream().synchronize();
    gate.emplace();
  }
  void run_gated() {
    cache.run({0}, [&] {
      call_on_host(
          current_stream(), [](void* self) { static_cast<Gated*>(self)->gate->stand(); }, this);
      graphs::test::add(x);
    });
  }
  void run_other() {
    cache.run({1}, [&] {
      call_on_host(
          current_stream(), [](void* self) { static_cast<Gated*>(self)->see_gate(); }, this);
      graphs::test::add(y);
    });
  }

  void see_gate() { seen_open = gate->is_open(); }

  std::optional<Gate> gate{std::in_place};
  std::atomic<bool> seen_open{false};  // when the other key ran last
  Buffer<int> x = zeros(), y = zeros();
  GraphCache cache{{.capture_after = 0}};
};

TEST(StreamsOfGraphCaches, AReplayOnAnotherStreamComesAfterTheLastOne) {
  Gated gated;
  const Stream first, second;
  {
    const StreamGuard guard(first);
    gated.run_gated();
  }
  EXPECT_TRUE(gated.gate->wait_until_reached());
  {
    const StreamGuard guard(second);
    gated.run_other();
  }
  const Stream third;
  for (int i = 0; i < 100; ++i) {  // time for a replay that does not wait
    Buffer<int> z(1, third);
    z.fill_bytes_async(0, third);
    third.synchronize();
  }
  EXPECT_FALSE(second.query());
  gated.gate->open();
  second.synchronize();
  EXPECT_TRUE(first.query());
  EXPECT_TRUE(gated.seen_open);
  EXPECT_EQ(read(gated.y), std::vector<int>{2});
}

// Another key may be called in between, on the stream of the next call.
TEST(StreamsOfGraphCaches, ACallComesAfterWhatReadsTheResultsOfTheCallBefore) {
  for (const bool other_between : {false, true}) {
    GraphCache cache({.capture_after = 0});
    const Buffer<int> x = counting(n), twice = counting(n, 2);
    Buffer<int> seen(n);
    const Stream first, second;
    const auto call = [&](const Stream& stream, int key, const Buffer<int>& in) {
      const StreamGuard guard(stream);
      return cache.run({key}, inputs(in), Multiplying{1});
    };
    for (const int key : {0, 1}) (void)call(first, key, x);
    first.synchronize();
    const auto y = call(first, 0, x);
    if (other_between) (void)call(second, 1, x);
    Gate gate;
    call_on_host(
        first, [](void* self) { static_cast<Gate*>(self)->stand(); }, &gate);
    copy_async(seen.data(), y.data(), y.size_bytes(), first);
    (void)call(second, 0, twice);
    for (int i = 0; i < 100; ++i) (void)read(x);  // time for a replay that does not wait
    EXPECT_FALSE(second.query());
    gate.open();
    second.synchronize();
    first.synchronize();
    EXPECT_EQ(read(seen), multiples(n, 1));
  }
}

TEST(StreamsOfGraphCaches, TheStreamOfTheLastReplayMayBeGone) {
  Gated gated;
  const Stream second;
  {
    const Stream first;
    const StreamGuard guard(first);
    gated.run_gated();
    EXPECT_TRUE(gated.gate->wait_until_reached());
  }
  {
    const StreamGuard guard(second);
    gated.run_other();
  }
  EXPECT_FALSE(second.query());
  gated.gate->open();
  second.synchronize();
  EXPECT_EQ(read(gated.x), std::vector<int>{2});
}

TEST(StreamsOfGraphCaches, TheDestructorDoesNotWaitForReplays) {
  Gate gate;
  Buffer<int> x = zeros();
  std::optional<GraphCache> cache(std::in_place, GraphCacheOptions{.capture_after = 0});
  const Stream stream;
  CacheResult<int> result;
  {
    const StreamGuard guard(stream);
    result = cache->run({n}, [&] {
      Buffer<int> y(n);
      y.fill_bytes_async(1);
      call_on_host(current_stream(), &Gate::pass, &gate);
      graphs::test::add(x);
      return y;
    });
    EXPECT_TRUE(gate.wait_until_reached());
    cache.reset();
    EXPECT_FALSE(stream.query());
    gate.open();
    EXPECT_EQ(result.read(), std::vector<int>(n, 0x01010101));
    EXPECT_EQ(read(x), std::vector<int>{1});
  }
}

TEST(StreamsOfGraphCaches, ClearAndForgetDoNotWaitForReplays) {
  Gated gated;
  const Stream stream;
  const StreamGuard guard(stream);
  gated.run_gated();
  EXPECT_TRUE(gated.gate->wait_until_reached());
  EXPECT_TRUE(gated.cache.forget({0}));
  gated.cache.clear();
  EXPECT_FALSE(stream.query());
  gated.gate->open();
  stream.synchronize();
  EXPECT_EQ(read(gated.x), std::vector<int>{2});
}

TEST(StreamsOfGraphCaches, ACallThatCannotBeOrderedRunsEagerly) {
  GraphCache cache({.capture_after = 0});
  Buffer<int> x = zeros(), y = zeros();
  const Stream first;
  const auto run = [&] { cache.run({n}, [&] { graphs::test::add(x); }); };
  {
    const StreamGuard guard(first);
    run();
  }
  first.synchronize();
  CUDAGraph graph = capture(GraphOptions{.stream = first.ref(), .capture_error_mode = CaptureMode::relaxed}, [&] {
    graphs::test::add(y);
    std::thread([&] {
      const SideStream other;
      run();
      other.ref().synchronize();
    }).join();
  });
  EXPECT_EQ(read(x), std::vector<int>{2});
  EXPECT_EQ(cache.statistics().eager_by_cause[static_cast<std::size_t>(EagerCause::unordered)], 1u);
  EXPECT_EQ(graph.node_count(), 1u);
  run();
  EXPECT_EQ(read(x), std::vector<int>{3});
  EXPECT_EQ(cache.statistics().hits, 1u);
}

TEST(StreamsOfGraphCaches, ReplaysOnAForeignStreamAreOrdered) {
  backend::Backend& backend = current_device().backend();
  GraphCache cache({.capture_after = 0});
  Buffer<int> x = counting(n);
  Incrementing body;
  StreamHandle handle = nullptr;
  ASSERT_EQ(backend.stream_create(&handle, backend::StreamFlags::non_blocking, 0), ErrorCode::success);
  for (int i = 0; i < 6; ++i) {
    const SideStream side;
    std::optional<StreamGuard> guard;
    if (i % 2 == 0) guard.emplace(StreamRef(current_device(), handle));
    cache.run({n}, inputs(inout(x)), body);
    if (i == 5) {
      std::vector<int> expected = multiples(n, 1);
      for (int& each : expected) each += 6;
      EXPECT_EQ(read(x), expected);
    }
  }
  EXPECT_EQ(backend.stream_destroy(handle), ErrorCode::success);
}

TEST(StreamsOfGraphCaches, TheBodyRunsOnTheCurrentStream) {
  GraphCache cache({.capture_after = 1});
  const Stream stream;
  std::vector<bool> captured, same;
  Buffer<int> x = zeros();
  for (int i = 0; i < 2; ++i) {
    const StreamGuard guard(stream);
    cache.run({n}, [&] {
      captured.push_back(is_current_stream_capturing());
      same.push_back(current_stream() == stream.ref());
      graphs::test::add(x);
    });
    EXPECT_EQ(current_stream(), stream.ref());
  }
  EXPECT_EQ(captured, (std::vector<bool>{false, true}));
  EXPECT_EQ(same, (std::vector<bool>{true, false}));
}

// A query of the capture that the stream may take part in, and the launch: all that a hit may cost.
TEST(StreamsOfGraphCaches, AHitQueriesTheStatusOfTheStreamAndLaunches) {
  using backend::Call;
  static auto& counting = *new backend::test::FaultyBackend(default_device().backend());
  const Device device(counting);
  const DeviceGuard guard(device);
  const Stream stream(device);
  const StreamGuard current(stream);
  Buffer<int> x(1);
  GraphCache cache({.capture_after = 0});
  const auto call = [&] { cache.run({1}, [&] { graphs::test::add(x); }); };
  call();
  counting.forget_calls();
  call();
  EXPECT_EQ(counting.calls(Call::stream_is_capturing), 1);
  EXPECT_EQ(counting.calls(Call::graph_launch), 1);
  EXPECT_EQ(counting.calls(), 2);
  stream.synchronize();
}

}  // namespace
}  // namespace reprise::caches::test
