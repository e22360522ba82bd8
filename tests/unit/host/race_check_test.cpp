// SPDX-License-Identifier: Apache-2.0
#include "tests/unit/host/race_check_fixture.h"

// What orders two operations of streams, and what does not.

namespace reprise::race_test {
namespace {

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
      "host:0. To order them, record an event on the first operation's stream right after it, and make the second "
      "operation's stream wait for that event before the second operation");
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
    s.x.read_async(values, s.b);  // returns when the copy to pageable memory is done
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
        y.read_async(std::span<int>(const_cast<int*>(pageable.data()), n), s.b);
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
    if (host().memory_allocate_async(&memory, 400, a.native()) != ErrorCode::success) std::_Exit(100);
    launch(a, n, Write{}, static_cast<int*>(memory), n);
    if (host().memory_free_async(memory, a.native()) != ErrorCode::success) std::_Exit(100);
    let_finish(a);
    void* again = nullptr;
    if (host().memory_allocate(&again, 400) != ErrorCode::success || again != memory) std::_Exit(101);
    launch(b, n, Write{}, static_cast<int*>(again), n);
  });
}

TEST_F(RaceCheck, AFreeInStreamOrderIsAWrite) {
  expect_reports(
      1,
      [] {
        const Stream a, b;
        void* memory = nullptr;
        if (host().memory_allocate_async(&memory, 400, a.native()) != ErrorCode::success) std::_Exit(100);
        b.wait(a);
        launch(b, n, Read{}, static_cast<const int*>(memory), n);
        if (host().memory_free_async(memory, a.native()) != ErrorCode::success) std::_Exit(100);
      },
      "Read on .*the free of stream-ordered memory on ");
}

TEST_F(RaceCheck, AKernelThatDeclaresNothingIsNotLookedAt) {
  expect_reports(0, [] {
    const Scene s;
    launch(s.a, n, DeclaresNothing{}, s.x.data(), n);
    launch(s.b, n, DeclaresNothing{}, s.x.data(), n);
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

TEST_F(RaceCheck, TheElapsedTimeOfEventsTellsTheHostThatTheyAreReached) {
  expect_reports(0, [] {
    const Scene s;
    const Event before(s.a.device()), after(s.a.device());
    before.record(s.a);
    write(s.a, s.x);
    after.record(s.a);
    let_finish(s.a);
    static_cast<void>(elapsed_ms(before, after));
    read(s.b, s.x);
  });
}

TEST_F(RaceCheck, PinnedMemoryThatWasFreedAndAllocatedAgainHasNoHistory) {
  expect_reports(0, [] {
    const Scene s;
    int* const first = pinned<int>(n);
    copy_async(first, s.x.data(), 4 * n, s.a);
    let_finish(s.a);
    if (host().pinned_free(first) != ErrorCode::success) std::_Exit(100);
    int* const second = pinned<int>(n);
    if (second != first) return;  // the allocator gave another address: nothing to see
    const Buffer<int> y(n, s.b);
    copy_async(second, y.data(), 4 * n, s.b);
    let_finish(s.b);
  });
}

TEST_F(RaceCheck, ABatchReadsItsSourcesAndWritesItsDestinations) {
  expect_reports(2, [] {
    const Scene s;
    const Buffer<int> y(n, s.a);
    write(s.a, s.x);
    const CopyOp copy{y.data(), s.x.data(), 4 * n};
    copy_batch_async({&copy, 1}, s.b);
    read(s.a, y);
  });
  expect_reports(1, [] {
    const Scene s;
    const FillOp fill = make_fill(s.x.data(), 1, n);
    fill_batch_async({&fill, 1}, s.a);
    let_finish(s.a);
    read(s.b, s.x);
  });
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
}  // namespace reprise::race_test
