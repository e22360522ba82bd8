// SPDX-License-Identifier: Apache-2.0
#include <stdexcept>
#include <utility>

#include "tests/unit/host/race_check_fixture.h"

// Races within graphs, and between their launches and other work.

namespace reprise::race_test {
namespace {

TEST_F(RaceCheck, NodesOfAGraphThatNothingOrdersAreReportedOnce) {
  expect_reports(
      1,
      [] {
        const Scene s;
        CUDAGraph g;
        capture(g, [&] {
          s.a.wait(current_stream());
          write(s.a, s.x);
          read(current_stream(), s.x);
          current_stream().wait(s.a);
        });
        for (int i = 0; i < 3; ++i) g.replay(s.a);
      },
      "race: kernel .*Write on node 0 of a graph writes .*kernel .*Read on node 1 of a graph reads .*To order "
      "them, record an event on the first node's stream right after it during the capture");
}

TEST_F(RaceCheck, EdgesOrderTheNodesOfAGraph) {
  expect_reports(0, [] {
    const Scene s;
    CUDAGraph g;
    capture(g, [&] {
      write(current_stream(), s.x);
      s.a.wait(current_stream());
      s.b.wait(current_stream());
      read(s.a, s.x);
      read(s.b, s.x);
      current_stream().wait(s.a);
      current_stream().wait(s.b);
      write(current_stream(), s.x);
    });
    g.replay(s.a);
  });
}

TEST_F(RaceCheck, ANodeThatIsSwitchedOffTouchesNothing) {
  expect_reports(0, [] {
    const Scene s;
    CUDAGraph g(KeepGraph::yes);
    capture(g, [&] {
      s.a.wait(current_stream());
      write(s.a, s.x);
      write(current_stream(), s.x);
      current_stream().wait(s.a);
    });
    g.instantiate();
    std::vector<GraphNodeHandle> nodes;
    if (host().graph_nodes(g.raw_cuda_graph(), &nodes) != ErrorCode::success) std::_Exit(100);
    if (host().graph_node_set_enabled(g.raw_cuda_graph_exec(), nodes[0], false) != ErrorCode::success) std::_Exit(100);
    g.replay(s.a);
  });
}

TEST_F(RaceCheck, AGraphIsLookedAtAgainWhenItWasChanged) {
  expect_reports(1, [] {
    const Scene s;
    CUDAGraph g(KeepGraph::yes);
    capture(g, [&] {
      s.a.wait(current_stream());
      write(s.a, s.x);
      write(current_stream(), s.x);
      current_stream().wait(s.a);
    });
    g.instantiate();
    std::vector<GraphNodeHandle> nodes;
    if (host().graph_nodes(g.raw_cuda_graph(), &nodes) != ErrorCode::success) std::_Exit(100);
    for (const bool on : {false, true}) {
      if (host().graph_node_set_enabled(g.raw_cuda_graph_exec(), nodes[0], on) != ErrorCode::success) std::_Exit(100);
      g.replay(s.a);
    }
  });
}

TEST_F(RaceCheck, ALaunchIsOneOperationOfItsStream) {
  expect_reports(
      1,
      [] {
        const Scene s;
        CUDAGraph g;
        capture(g, [&] { write(current_stream(), s.x); });
        write(s.a, s.x);
        g.replay(s.a);
        read(s.a, s.x);
        read(s.b, s.x);
      },
      "Write in a launch of a graph on stream .* writes .*Read on stream .* reads");
}

TEST_F(RaceCheck, LaunchesOfOneGraphAreOrderedAndThoseOfTwoAreNot) {
  expect_reports(1, [] {
    const Scene s;
    CUDAGraph g, other;
    capture(g, [&] { write(current_stream(), s.x); });
    capture(other, [&] { write(current_stream(), s.x); });
    g.replay(s.a);
    let_finish(s.a);
    g.replay(s.b);
    let_finish(s.b);
    g.replay(s.a);
    other.replay(s.b);
  });
}

TEST_F(RaceCheck, EventNodesOfAGraphOrderTheWholeLaunch) {
  expect_reports(0, [] {
    const Scene s;
    const Buffer<int> y(n, s.a);
    const Event before, after;
    CUDAGraph g;
    write(s.b, y);
    before.record(s.b);
    capture(g, [&] {
      before.wait(current_stream(), EventUse::external);
      write(current_stream(), y);
      write(current_stream(), s.x);
      after.record(current_stream(), EventUse::external);
    });
    g.replay(s.a);
    after.wait(s.b);
    write(s.b, s.x);
  });
}

TEST_F(RaceCheck, HostMemoryInCapturedCopiesIsLookedAt) {
  expect_reports(
      1,
      [] {
        const Scene s;
        std::vector<int> values(n);
        CUDAGraph g, other;
        capture(g, [&] { copy_async(values.data(), s.x.data(), 4 * n, current_stream()); });
        capture(other, [&] { copy_async(values.data(), s.x.data(), 4 * n, current_stream()); });
        g.replay(s.a);
        let_finish(s.a);
        other.replay(s.b);
        Device::parse("host").synchronize();
      },
      "pageable memory of the host");
}

struct ThrowsOnce {
  REPRISE_KERNEL void operator()(Thread t, int* x, std::size_t count) const {
    if (t.global_x() < count) x[t.global_x()] = 7;
  }
  static auto accesses(int* x, std::size_t count) {
    static bool thrown = false;
    if (!std::exchange(thrown, true)) throw std::runtime_error("accesses failed");
    return std::array{writes(x, count)};
  }
};

TEST_F(RaceCheck, AnAccessesThatThrowsLeavesTheGraphAsItWas) {
  expect_reports(1, [] {
    const Scene s;
    s.a.synchronize();
    Buffer<int> y(n, s.a);
    y.fill_bytes_async(0, s.a);
    s.a.synchronize();
    CUDAGraph g;
    capture(g, [&] {
      const Stream fork;
      fork.wait(current_stream());
      write(fork, s.x);
      write(current_stream(), s.x);
      launch(n, ThrowsOnce{}, y.data(), n);
      current_stream().wait(fork);
    });
    bool threw = false;
    try {
      g.replay(s.a);
    } catch (const std::runtime_error&) {
      threw = true;
    }
    std::vector<int> values(n);
    y.read_async(values, s.a);
    s.a.synchronize();
    if (!threw || values[0] != 0) std::_Exit(101);  // nothing ran
    reports = 0;                                    // the race may have been seen before the exception
    CUDAGraph other;
    g.replay(s.a);
    y.read_async(values, s.a);
    s.a.synchronize();
    if (values[0] != 7) std::_Exit(102);
    write(s.a, s.x);
    let_finish(s.a);
    write(s.b, s.x);
  });
}

using Flag = std::uint32_t;

struct CountDown {
  REPRISE_KERNEL void operator()(Thread, Flag* flag) const { *flag -= 1; }
  static auto accesses(Flag* flag) { return std::array{reads(flag, 1), writes(flag, 1)}; }
};
struct Draw {
  REPRISE_KERNEL void operator()(Thread, PhiloxState, int*, std::size_t) const {}
  static auto accesses(const PhiloxState& state, int* x, std::size_t count) {
    return std::array{state.access(), writes(x, count)};
  }
};

/// Streams that use memory beside one another, and end.
void use_short_lived_streams(const StreamRef& here) {
  const Event fork;
  fork.record(here);
  for (int i = 0; i < 4; ++i) {
    const Stream ends;
    fork.wait(ends);
    const Buffer<int> temporary(n, ends);
    write(ends, temporary);
    here.wait(ends);
  }
}

TEST_F(RaceCheck, StreamsThatEndInACaptureShareNoMemory) {
  expect_reports(0, [] {
    CUDAGraph g = capture([](const StreamRef& here) { use_short_lived_streams(here); });
    g.replay();
    Device::parse("host").synchronize();
  });
}

TEST_F(RaceCheck, StreamsThatEndInTheCaptureOfACacheShareNoMemory) {
  expect_reports(0, [] {
    GraphCache cache;
    for (int i = 0; i < 4; ++i) cache.run(1, [] { use_short_lived_streams(current_stream()); });
    Device::parse("host").synchronize();
  });
}

TEST_F(RaceCheck, StreamsThatEndInALoopShareNoMemory) {
  expect_reports(0, [] {
    const Buffer<Flag> flag(std::array{Flag{3}});
    CUDAGraph g = capture([&] {
      while_(flag.data(), [&](const StreamRef& inside) {
        use_short_lived_streams(inside);
        launch(inside, LaunchConfig{}, CountDown{}, flag.data());
      });
    });
    g.replay();
    Device::parse("host").synchronize();
  });
}

TEST_F(RaceCheck, AStreamThatLeavesALoopLeavesItsMemoryThere) {
  expect_reports(0, [] {
    const Buffer<Flag> flag(std::array{Flag{3}});
    const Stream side, beside;
    CUDAGraph g = capture([&](const StreamRef& here) {
      beside.wait(here);
      while_(flag.data(), [&](const StreamRef& inside) {
        side.wait(inside);
        write(side, Buffer<int>(n, side));
        inside.wait(side);
        launch(inside, LaunchConfig{}, CountDown{}, flag.data());
      });
      side.wait(beside);
      write(side, Buffer<int>(n, side));
      here.wait(side);
    });
    g.replay();
    Device::parse("host").synchronize();
  });
}

TEST_F(RaceCheck, WordsOfRandomNumbersTakeNoMemoryOfAStreamThatEnded) {
  expect_reports(0, [] {
    const Generator generator(current_device(), 1);
    const Buffer<int> x(n);
    CUDAGraph g = capture([&](const StreamRef& here) {
      use_short_lived_streams(here);
      launch(here, LaunchConfig{}, Draw{}, generator.philox_state(1, here), x.data(), n);
    });
    g.replay();
    Device::parse("host").synchronize();
  });
}

TEST_F(RaceCheck, TheEndOfAGraphFreesWhatItsReplaysLeftWithoutARace) {
  expect_reports(0, [] {
    for (const KeepGraph keep : {KeepGraph::no, KeepGraph::yes}) {
      const Stream stream;
      {
        CUDAGraph g(keep);
        capture(g, [] { fill_async(allocate_async(4 * n), 1, 4 * n); });
        g.replay(stream);
      }
      let_finish(stream);
      while (graph_memory().left_bytes != 0) release_finished_graphs();
      Device::parse("host").synchronize();
    }
  });
}

}  // namespace
}  // namespace reprise::race_test
