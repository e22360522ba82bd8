// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>

#include <array>
#include <atomic>
#include <cstdio>
#include <cstdlib>
#include <string>
#include <thread>
#include <vector>

#include "backend/backend.h"
#include "backend/check.h"
#include "reprise/reprise.h"

// The race check of the host device. It is on for a whole process, so each test runs its body in one of its own; what
// the check says goes to standard error, and the process ends with the number of reports.

namespace reprise {
namespace {

constexpr std::size_t n = 100;

// The kernels only say that they touch memory: a sanitizer would be right about the races, too. Where copies race, the
// first one is done before the second one is submitted.
struct Write {
  REPRISE_KERNEL void operator()(Thread, int*, std::size_t) const {}
  static auto accesses(int* x, std::size_t count) { return std::array{writes(x, count)}; }
};

struct Read {
  REPRISE_KERNEL void operator()(Thread, const int*, std::size_t) const {}
  static auto accesses(const int* x, std::size_t count) { return std::vector{reads(x, count)}; }
};

struct DeclaresNothing {
  REPRISE_KERNEL void operator()(Thread, int*, std::size_t) const {}
};

void write(const StreamRef& stream, const Buffer<int>& x) {
  launch(stream, LaunchConfig::cover(n), Write{}, x.data(), x.size());
}
void read(const StreamRef& stream, const Buffer<int>& x) {
  launch(stream, LaunchConfig::cover(n), Read{}, x.data(), x.size());
}

std::atomic<int> reports{0};

void expect_reports(int expected, void (*body)(), const char* text = "", int devices = 1, bool check = true) {
  const auto run = [&] {
    HostDeviceOptions options;
    options.devices = devices;
    options.check_races = check;
    configure_host_devices(options);
    set_warning_sink([](std::string_view message) {
      ++reports;
      std::fprintf(stderr, "%.*s\n", static_cast<int>(message.size()), message.data());
    });
    const DeviceGuard guard(Device::parse("host"));
    body();
    std::_Exit(reports);
  };
  EXPECT_EXIT(run(), ::testing::ExitedWithCode(expected), text);
}

class RaceCheck : public ::testing::Test {
 protected:
  void SetUp() override { ::testing::FLAGS_gtest_death_test_style = "threadsafe"; }
};

/// A buffer and two streams that nothing orders.
struct Scene {
  Stream a, b;
  Buffer<int> x{n, a};
};

backend::Backend& host() {
  return Device::parse("host").backend();
}

/// The work of the stream so far is done, and the runtime was not asked whether.
void let_finish(const StreamRef& stream) {
  static std::atomic<bool> reached;
  reached = false;
  const backend::HostNodeParams params{[](void*) { reached = true; }, nullptr};
  if (host().launch_host_function(params, stream.native()) != Result::success) std::_Exit(100);
  while (!reached) std::this_thread::yield();
}

template <class T>
T* pinned(std::size_t count) {
  void* memory = nullptr;
  if (host().pinned_allocate(&memory, count * sizeof(T)) != Result::success) std::_Exit(100);
  return static_cast<T*>(memory);
}

TEST_F(RaceCheck, NamesBothOperationsTheirStreamsTheMemoryAndWhatToDo) {
  expect_reports(
      1,
      [] {
        const Scene s;
        write(s.a, s.x);
        read(s.b, s.x);
      },
      "race: kernel reprise::.*Write on stream 0x[0-9a-f]+ of host:0 writes 400 bytes at 0x[0-9a-f]+; "
      "kernel reprise::.*Read on stream 0x[0-9a-f]+ of host:0 reads 400 bytes at 0x[0-9a-f]+; nothing orders the two. "
      "They share 400 bytes from 0x[0-9a-f]+ on: byte 0 of the allocation of 2097152 bytes at 0x[0-9a-f]+, memory of "
      "host:0. To order them, record an event on the first stream after the one, and let the second stream wait for it "
      "before the other");
}

TEST_F(RaceCheck, SaysNothingWhenItIsOff) {
  expect_reports(
      0,
      [] {
        const Scene s;
        write(s.a, s.x);
        write(s.b, s.x);
      },
      "", 1, false);
}

TEST_F(RaceCheck, IsSwitchedOnByTheEnvironment) {
  EXPECT_EXIT(
      {
        setenv("REPRISE_HOST_RACES", "1", 1);
        const DeviceGuard guard(Device::parse("host"));
        const Scene s;
        write(s.a, s.x);
        write(s.b, s.x);
        std::_Exit(0);
      },
      ::testing::ExitedWithCode(0), "race: kernel");
}

TEST_F(RaceCheck, ReportsAWriteAfterAReadAndAWriteAfterAWrite) {
  expect_reports(2, [] {
    const Scene s;
    read(s.a, s.x);
    write(s.b, s.x);
    const Buffer<int> y(n, s.a);
    write(s.a, y);
    write(s.b, y);
  });
}

TEST_F(RaceCheck, TwoReadsAreNoRace) {
  expect_reports(0, [] {
    const Scene s;
    read(s.a, s.x);
    read(s.b, s.x);
  });
}

TEST_F(RaceCheck, FindsTheReadThatIsNotOrderedAmongSeveral) {
  expect_reports(
      1,
      [] {
        const Scene s;
        const Stream c;
        read(s.a, s.x);
        read(s.b, s.x);
        c.wait(s.b);
        write(c, s.x);
      },
      "Read on .*Write on ");
}

TEST_F(RaceCheck, WorkOnOneStreamIsOrdered) {
  expect_reports(0, [] {
    const Scene s;
    write(s.a, s.x);
    read(s.a, s.x);
    write(s.a, s.x);
  });
}

TEST_F(RaceCheck, AnEventOrders) {
  expect_reports(0, [] {
    for (const bool timing : {false, true}) {
      const Scene s;
      const Event event(Device::parse("host"), {timing});
      write(s.a, s.x);
      event.record(s.a);
      event.wait(s.b);
      write(s.b, s.x);
      Device::parse("host").synchronize();  // x goes back in the order of a, and b still works on it
    }
  });
}

TEST_F(RaceCheck, AnEventOrdersAlsoWhenItIsReachedBeforeTheWait) {
  expect_reports(0, [] {
    for (const bool timing : {false, true}) {
      const Scene s;
      const Event event(Device::parse("host"), {timing});
      write(s.a, s.x);
      event.record(s.a);
      let_finish(s.a);
      event.wait(s.b);
      write(s.b, s.x);
      Device::parse("host").synchronize();  // x goes back in the order of a, and b still works on it
    }
  });
}

TEST_F(RaceCheck, OrderGoesThroughAThirdStream) {
  expect_reports(0, [] {
    const Scene s;
    const Stream c;
    write(s.a, s.x);
    c.wait(s.a);
    s.b.wait(c);
    write(s.b, s.x);
  });
}

TEST_F(RaceCheck, AnEventDoesNotOrderWhatComesAfterItsRecordOrBeforeTheWait) {
  expect_reports(2, [] {
    const Scene s;
    const Event event;
    event.record(s.a);
    write(s.a, s.x);
    event.wait(s.b);
    read(s.b, s.x);
    const Buffer<int> y(n, s.a);
    read(s.b, y);
    write(s.a, y);
    event.record(s.a);
    event.wait(s.b);
  });
}

TEST_F(RaceCheck, ThatTwoOperationsDidNotOverlapByLuckIsNoOrder) {
  expect_reports(1, [] {
    const Scene s;
    write(s.a, s.x);
    let_finish(s.a);
    write(s.b, s.x);
  });
}

TEST_F(RaceCheck, TheLegacyStreamOrdersBlockingStreams) {
  expect_reports(0, [] {
    const Device device = Device::parse("host");
    const Stream a(device, {true}), b(device, {true});
    const Buffer<int> x(n, a);
    write(a, x);
    let_finish(a);
    write(device.default_stream(), x);
    let_finish(device.default_stream());
    write(b, x);
  });
}

TEST_F(RaceCheck, TheLegacyStreamDoesNotOrderOtherStreams) {
  expect_reports(1, [] {
    const Scene s;
    write(s.a, s.x);
    write(Device::parse("host").default_stream(), s.x);
  });
}

TEST_F(RaceCheck, BlockingStreamsAreNotOrderedAmongThemselves) {
  expect_reports(1, [] {
    const Device device = Device::parse("host");
    const Stream a(device, {true}), b(device, {true});
    const Buffer<int> x(n, a);
    write(a, x);
    write(b, x);
  });
}

TEST_F(RaceCheck, WhatTheHostWaitedForIsOrdered) {
  expect_reports(0, [] {
    const Scene s;
    const Event event;
    write(s.a, s.x);
    s.a.synchronize();
    write(s.b, s.x);
    Device::parse("host").synchronize();
    write(s.a, s.x);
    event.record(s.a);
    event.synchronize();
    write(s.b, s.x);
    while (!s.b.query()) std::this_thread::yield();
    write(s.a, s.x);
    event.record(s.a);
    while (!event.query()) std::this_thread::yield();
    write(s.b, s.x);
    std::vector<int> values(n);
    s.x.copy_to(values, s.b);  // returns when the copy to pageable memory is done
    write(s.a, s.x);
  });
}

TEST_F(RaceCheck, WhatTheHostWaitedForDoesNotOrderTheRest) {
  expect_reports(1, [] {
    const Scene s;
    write(s.a, s.x);
    s.b.synchronize();
    write(s.b, s.x);
  });
}

TEST_F(RaceCheck, AWaitForTheDeviceCoversStreamsThatAreGone) {
  expect_reports(0, [] {
    const Stream b;
    const Buffer<int> x(n, b);
    {
      const Stream a;
      write(a, x);
      let_finish(a);
    }
    Device::parse("host").synchronize();
    write(b, x);
  });
}

TEST_F(RaceCheck, PartsOfABufferAreToldApart) {
  expect_reports(
      1,
      [] {
        const Scene s;
        fill_async(s.x.data(), 1, 200, s.a);
        fill_async(s.x.data() + 50, 1, 200, s.b);
        let_finish(s.a);
        fill_async(s.x.data() + 49, 1, 4, s.b);
      },
      "memset on .* writes 200 bytes.*memset on .* writes 4 bytes .* They share 4 bytes from .*: byte 196 of");
}

TEST_F(RaceCheck, CopiesReadAndWrite) {
  expect_reports(2, [] {
    const Scene s;
    const Buffer<int> y(n, s.a);
    copy_async(y.data(), s.x.data(), s.x.size_bytes(), s.a);
    write(s.b, s.x);
    read(s.b, y);
  });
}

TEST_F(RaceCheck, PinnedMemoryIsLookedAtAndPageableMemoryIsStaged) {
  expect_reports(
      1,
      [] {
        const Scene s;
        const Buffer<int> y(n, s.b);
        const std::vector<int> pageable(n);
        copy_async(s.x.data(), pageable.data(), 4 * n, s.a);
        y.copy_to(std::span<int>(const_cast<int*>(pageable.data()), n), s.b);
        int* const memory = pinned<int>(n);
        copy_async(s.x.data(), memory, 4 * n, s.a);
        let_finish(s.a);
        copy_async(memory, y.data(), 4 * n, s.b);
      },
      "pinned memory of the host");
}

TEST_F(RaceCheck, MemoryThatWasFreedAndAllocatedAgainHasNoHistory) {
  expect_reports(0, [] {
    const Stream a, b;
    void* memory = nullptr;
    if (host().memory_allocate_async(&memory, 400, a.native()) != Result::success) std::_Exit(100);
    launch(a, LaunchConfig::cover(n), Write{}, static_cast<int*>(memory), n);
    if (host().memory_free_async(memory, a.native()) != Result::success) std::_Exit(100);
    let_finish(a);
    void* again = nullptr;
    if (host().memory_allocate(&again, 400) != Result::success || again != memory) std::_Exit(101);
    launch(b, LaunchConfig::cover(n), Write{}, static_cast<int*>(again), n);
  });
}

TEST_F(RaceCheck, AFreeInStreamOrderIsAWrite) {
  expect_reports(
      1,
      [] {
        const Stream a, b;
        void* memory = nullptr;
        if (host().memory_allocate_async(&memory, 400, a.native()) != Result::success) std::_Exit(100);
        b.wait(a);
        launch(b, LaunchConfig::cover(n), Read{}, static_cast<const int*>(memory), n);
        if (host().memory_free_async(memory, a.native()) != Result::success) std::_Exit(100);
      },
      "Read on .*the free of stream-ordered memory on ");
}

TEST_F(RaceCheck, AKernelThatDeclaresNothingIsNotLookedAt) {
  expect_reports(0, [] {
    const Scene s;
    launch(s.a, LaunchConfig::cover(n), DeclaresNothing{}, s.x.data(), n);
    launch(s.b, LaunchConfig::cover(n), DeclaresNothing{}, s.x.data(), n);
  });
}

TEST_F(RaceCheck, ReportsAPairOnce) {
  expect_reports(1, [] {
    const Scene s;
    for (int i = 0; i < 10; ++i) {
      write(s.a, s.x);
      read(s.b, s.x);
      s.a.wait(s.b);
    }
  });
}

TEST_F(RaceCheck, NodesOfAGraphThatNothingOrdersAreReportedOnce) {
  expect_reports(
      1,
      [] {
        const Scene s;
        CUDAGraph g;
        capture(g, {}, [&] {
          s.a.wait(current_stream());
          write(s.a, s.x);
          read(current_stream(), s.x);
          current_stream().wait(s.a);
        });
        for (int i = 0; i < 3; ++i) g.replay(s.a);
      },
      "race: kernel .*Write on node 0 of a graph writes .*kernel .*Read on node 1 of a graph reads .*when the graph is "
      "captured");
}

TEST_F(RaceCheck, EdgesOrderTheNodesOfAGraph) {
  expect_reports(0, [] {
    const Scene s;
    CUDAGraph g;
    capture(g, {}, [&] {
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
    capture(g, {}, [&] {
      s.a.wait(current_stream());
      write(s.a, s.x);
      write(current_stream(), s.x);
      current_stream().wait(s.a);
    });
    g.instantiate();
    std::vector<GraphNodeHandle> nodes;
    if (host().graph_nodes(g.raw_cuda_graph(), &nodes) != Result::success) std::_Exit(100);
    if (host().graph_node_set_enabled(g.raw_cuda_graph_exec(), nodes[0], false) != Result::success) std::_Exit(100);
    g.replay(s.a);
  });
}

TEST_F(RaceCheck, AGraphIsLookedAtAgainWhenItWasChanged) {
  expect_reports(1, [] {
    const Scene s;
    CUDAGraph g(KeepGraph::yes);
    capture(g, {}, [&] {
      s.a.wait(current_stream());
      write(s.a, s.x);
      write(current_stream(), s.x);
      current_stream().wait(s.a);
    });
    g.instantiate();
    std::vector<GraphNodeHandle> nodes;
    if (host().graph_nodes(g.raw_cuda_graph(), &nodes) != Result::success) std::_Exit(100);
    for (const bool on : {false, true}) {
      if (host().graph_node_set_enabled(g.raw_cuda_graph_exec(), nodes[0], on) != Result::success) std::_Exit(100);
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
        capture(g, {}, [&] { write(current_stream(), s.x); });
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
    capture(g, {}, [&] { write(current_stream(), s.x); });
    capture(other, {}, [&] { write(current_stream(), s.x); });
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
    capture(g, {}, [&] {
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
        capture(g, {}, [&] { copy_async(values.data(), s.x.data(), 4 * n, current_stream()); });
        capture(other, {}, [&] { copy_async(values.data(), s.x.data(), 4 * n, current_stream()); });
        g.replay(s.a);
        let_finish(s.a);
        other.replay(s.b);
        Device::parse("host").synchronize();
      },
      "pageable memory of the host");
}

TEST_F(RaceCheck, SeesStreamsOfTwoDevices) {
  expect_reports(
      1,
      [] {
        const Stream a(Device::parse("host:0")), b(Device::parse("host:1"));
        const Buffer<int> x(n, a), y(n, b);
        copy_async(y.data(), x.data(), 4 * n, b);
        write(a, x);
        b.wait(a);
        read(b, x);
      },
      "memcpy on stream .* of host:1 reads .*Write on stream .* of host:0 writes", 2);
}

}  // namespace
}  // namespace reprise
