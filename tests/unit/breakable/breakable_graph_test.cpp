// SPDX-License-Identifier: Apache-2.0
#include <optional>
#include <stdexcept>
#include <thread>
#include <tuple>
#include <utility>
#include <vector>

#include "tests/unit/breakable/breakable_fixture.h"

// Captures with eager parts: what runs when, and where.

namespace reprise::breakables::test {
namespace {

TEST(BreakableGraphs, TakeEffectOnceWhenTheyAreCaptured) {
  Buffer<int> x = zeros();
  int runs = 0;
  BreakableGraph graph = breakable([&] {
    add(x);
    eager([&] { ++runs; });
    add(x, 10);
  });
  EXPECT_EQ(first(x), 11);
  EXPECT_EQ(runs, 1);
  EXPECT_EQ(graph.segment_count(), 2u);
}

TEST(BreakableGraphs, ReplaySegmentsAndEagerPartsInOrder) {
  Buffer<int> x = counting(1, 5);
  Buffer<int> expected = counting(1, 5);
  const auto body = [](Buffer<int>& state) {
    add(state, 3);
    eager([p = state.data()] { half_of_collatz(p); });
    add(state, 2);
    eager([p = state.data()] { half_of_collatz(p); });
    add(state);
  };
  BreakableGraph graph = breakable([&] { body(x); });
  body(expected);
  EXPECT_EQ(first(x), first(expected));
  for (int i = 0; i < 10; ++i) {
    graph.replay();
    body(expected);
    EXPECT_EQ(first(x), first(expected)) << "replay " << i;
  }
}

TEST(BreakableGraphs, RunEagerPartsOnRealValues) {
  Buffer<int> x = zeros();
  std::vector<int> seen;
  BreakableGraph graph = breakable([&] {
    add(x);
    eager([&] { seen.push_back(first(x)); });
    add(x);
    eager([&] { seen.push_back(first(x)); });
  });
  graph.replay();
  EXPECT_EQ(seen, (std::vector<int>{1, 2, 3, 4}));
}

TEST(BreakableGraphs, RunHostCodeOutsideOfEagerPartsOnce) {
  Buffer<int> x = zeros();
  int host = 0, parts = 0;
  BreakableGraph graph = breakable([&] {
    ++host;
    add(x);
    eager([&] { ++parts; });
  });
  graph.replay();
  graph.replay();
  EXPECT_EQ(host, 1);
  EXPECT_EQ(parts, 3);
}

TEST(BreakableGraphs, WithoutEagerPartsAreOneSegment) {
  Buffer<int> x = zeros();
  BreakableGraph graph = breakable({.name = "step"}, [&] { add(x); });
  EXPECT_EQ(first(x), 1);
  graph.replay();
  EXPECT_EQ(first(x), 2);
  EXPECT_EQ(graph.segment_count(), 1u);
  EXPECT_EQ(graph.name(), "step");
  EXPECT_EQ(graph.segment(0).name(), "step");
}

TEST(BreakableGraphs, NameTheirSegmentsByNumber) {
  Buffer<int> x = zeros();
  BreakableGraph graph = breakable({.name = "step"}, [&] {
    add(x);
    eager([] {});
    add(x);
  });
  EXPECT_EQ(graph.name(), "step");
  EXPECT_EQ(graph.segment(0).name(), "step, segment 1");
  EXPECT_EQ(graph.segment(1).name(), "step, segment 2");
}

TEST(BreakableGraphs, MayBeginAndEndWithEagerPartsAndHaveSeveralInARow) {
  Buffer<int> x = zeros();
  int parts = 0;
  BreakableGraph graph = breakable([&] {
    eager([&] { ++parts; });
    add(x);
    eager([&] { ++parts; });
    eager([&] { ++parts; });
  });
  graph.replay();
  EXPECT_EQ(first(x), 2);
  EXPECT_EQ(parts, 6);
  EXPECT_EQ(graph.segment_count(), 4u);
  EXPECT_EQ(graph.segment(0).node_count(), 0u);
  EXPECT_EQ(graph.segment(1).node_count(), 1u);
}

TEST(BreakableGraphs, MayHaveNoOtherWorkThanEagerParts) {
  int parts = 0;
  BreakableGraph graph = breakable([&] { eager([&] { ++parts; }); });
  graph.replay();
  EXPECT_EQ(parts, 2);
  EXPECT_EQ(graph.segment(0).node_count() + graph.segment(1).node_count(), 0u);
}

TEST(BreakableGraphs, WithoutNodesAndEagerPartsAreRefusedUnlessThatIsAllowed) {
  EXPECT_THROW(breakable([] {}), EmptyCaptureError);
  BreakableGraph graph = breakable({.allow_empty = true}, [] {});
  graph.replay();
}

TEST(BreakableGraphs, RunOnTheCurrentStream) {
  const SideStream side;
  Buffer<int> x = zeros();
  std::vector<StreamRef> streams;
  std::optional<StreamRef> captured;
  BreakableGraph graph = breakable([&](StreamRef stream) {
    captured = stream;
    add(x);
    eager([&](StreamRef s) {
      streams.push_back(s);
      streams.push_back(current_stream());
    });
  });
  EXPECT_EQ(current_stream(), side.ref());
  EXPECT_NE(*captured, side.ref());
  EXPECT_EQ(streams, (std::vector<StreamRef>{side.ref(), side.ref()}));
  const Stream other;
  streams.clear();
  graph.replay(other);
  EXPECT_EQ(streams, (std::vector<StreamRef>{other.ref(), other.ref()}));
  other.synchronize();  // before x ends
}

TEST(BreakableGraphs, RunOnTheStreamOfTheirOptions) {
  const Stream stream;
  Buffer<int> x = zeros();
  std::vector<StreamRef> streams;
  BreakableGraph graph = breakable({.stream = stream}, [&](StreamRef s) {
    add(x);
    eager([&streams, s] {
      s.synchronize();
      streams.push_back(current_stream());
    });
    add(x);
  });
  EXPECT_EQ(streams, std::vector<StreamRef>{stream.ref()});
  stream.synchronize();
  EXPECT_EQ(first(x), 2);
}

TEST(BreakableGraphs, OnDifferentStreamsRunOneAfterAnother) {
  Buffer<int> x = zeros(1000);
  BreakableGraph graph = breakable([&] {
    Buffer<int> scratch(1000);
    multiply(x, 1, scratch);
    eager([] {});
    multiply(scratch, 1, x);
    add(x);
  });
  const Stream one, other;
  current_stream().synchronize();
  for (int i = 0; i < 10; ++i) graph.replay(i % 2 == 0 ? one : other);
  one.synchronize();
  other.synchronize();
  EXPECT_EQ(first(x), 11);
}

TEST(BreakableGraphs, KeepMemoryThatIsUsedOnBothSidesOfAnEagerPart) {
  Buffer<int> x = counting(1000), y = zeros(1000);
  BreakableGraph graph = breakable([&] {
    Buffer<int> before(1000);
    multiply(x, 2, before);
    eager([p = before.data()] { launch(1000, graphs::test::Add{}, p, 1, std::size_t{1000}); });
    Buffer<int> after(1000);
    multiply(before, 3, after);
    before.reset();
    Buffer<int> reused(1000);
    multiply(after, 1, reused);
    multiply(reused, 1, y);
  });
  EXPECT_EQ(read(y)[99], 3 * (2 * 100 + 1));
  x.write(std::vector<int>(1000, 7));
  graph.replay();
  EXPECT_EQ(read(y), std::vector<int>(1000, 45));
}

TEST(BreakableGraphs, ShareOnePoolWithTheirSegments) {
  const MempoolId pool = graph_pool_handle();
  Buffer<int> x = zeros();
  BreakableGraph graph = breakable({.pool = pool}, [&] {
    Buffer<int> scratch(1);
    multiply(x, 1, scratch);
    eager([] {});
    multiply(scratch, 1, x);
  });
  EXPECT_EQ(graph.pool(), pool);
  EXPECT_EQ(graph.segment(0).pool(), pool);
  EXPECT_EQ(graph.segment(1).pool(), pool);
  EXPECT_EQ(graph.device(), default_device());
}

TEST(BreakableGraphs, HandOutMemoryThatReplaysWrite) {
  Buffer<int> x = zeros(), y;
  BreakableGraph graph = breakable([&] {
    add(x);
    eager([] {});
    y = Buffer<int>(1);
    multiply(x, 10, y);
  });
  EXPECT_EQ(first(y), 10);
  graph.replay();
  EXPECT_EQ(first(y), 20);
  graph.reset();
  EXPECT_EQ(first(y), 20);
}

TEST(BreakableGraphs, AreMovedWithAllThatTheyHave) {
  Buffer<int> x = zeros();
  BreakableGraph graph = breakable([&] {
    add(x);
    eager([] {});
    add(x);
  });
  BreakableGraph moved(std::move(graph));
  moved.replay();
  EXPECT_EQ(first(x), 4);
  graph = std::move(moved);
  graph.replay();
  EXPECT_EQ(first(x), 6);
}

TEST(BreakableGraphs, CaptureAgainAfterAReset) {
  Buffer<int> x = zeros();
  BreakableGraph graph;
  for (int i = 0; i < 3; ++i) {
    breakable(graph, {}, [&] {
      add(x);
      eager([] {});
      add(x);
    });
    graph.replay();
    graph.reset();
  }
  EXPECT_EQ(first(x), 12);
}

TEST(BreakableGraphs, ReleaseFunctionsAndMemoryAtTheirEnd) {
  graphs::test::settle_memory();
  const auto reserved = [] { return CachingAllocator::of(current_device()).statistics().reserved_bytes; };
  const auto token = std::make_shared<int>(0);
  Buffer<int> x = zeros();
  const std::uint64_t before = reserved();
  {
    BreakableGraph graph = breakable([&] {
      Buffer<int> scratch(1 << 20);
      scratch.fill_bytes_async(1);
      eager([token] {});
      add(x);
    });
    graph.replay();
    EXPECT_EQ(token.use_count(), 2);
    EXPECT_GT(reserved(), before);
  }
  EXPECT_EQ(token.use_count(), 1);
  EXPECT_TRUE(graphs::test::eventually([&] {
    CachingAllocator::of(current_device()).empty_cache();
    return reserved() <= before;
  }));
}

TEST(BreakableGraphs, MayBeReplayedByManyThreadsOneAfterAnother) {
  Buffer<int> x = zeros();
  int parts = 0;  // not atomic: they run one after another
  BreakableGraph graph = breakable([&] {
    add(x);
    eager([&] { ++parts; });
    add(x);
  });
  current_stream().synchronize();
  const auto replay = [&] {
    const SideStream side;
    for (int i = 0; i < 20; ++i) graph.replay();
    side.ref().synchronize();
  };
  std::thread one(replay), other(replay);
  one.join();
  other.join();
  EXPECT_EQ(parts, 41);
  EXPECT_EQ(first(x), 82);
}

TEST(BreakableGraphs, RunWarmUpsEagerlyBeforeTheCapture) {
  Buffer<int> x = zeros();
  std::vector<bool> capturing;
  BreakableGraph graph = breakable({.warmup = 2}, [&] {
    capturing.push_back(is_current_stream_capturing());
    add(x);
    eager([p = x.data()] { half_of_collatz(p); });
  });
  EXPECT_EQ(capturing, (std::vector<bool>{false, false, true}));
  EXPECT_EQ(first(x), 6) << "1 and 2, 3 and 4, 5 and 6";
}

TEST(BreakableGraphs, AllowOtherCapturesInEagerParts) {
  Buffer<int> x = zeros();
  BreakableGraph graph = breakable([&] {
    add(x);
    eager([&x] {
      CUDAGraph inner = capture([&] { add(x, 10); });
      inner.replay();
      BreakableGraph nested = breakable([&] {
        add(x, 100);
        eager([&x] { add(x, 1000); });
      });
    });
    add(x);
  });
  EXPECT_EQ(first(x), 1112);
  graph.replay();
  EXPECT_EQ(first(x), 2224);
}

TEST(EagerFunction, OutsideOfCapturesIsSimplyCalled) {
  Buffer<int> x = zeros();
  int local = 0;
  eager([&] { ++local; });
  EXPECT_EQ(local, 1);
  const SideStream side;
  const Buffer<int> y = eager([&](StreamRef stream) {
    EXPECT_EQ(stream, side.ref());
    add(x, 3);
    Buffer<int> made(1);
    multiply(x, 2, made);
    return made;
  });
  EXPECT_EQ(first(y), 6);
}

}  // namespace
}  // namespace reprise::breakables::test
