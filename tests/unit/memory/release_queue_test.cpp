// SPDX-License-Identifier: Apache-2.0
#include "memory/lifetime/release_queue.h"

#include <gtest/gtest.h>

#include <thread>

#include "backend/backend.h"
#include "reprise/stream.h"
#include "tests/unit/memory/memory_fixture.h"

namespace reprise::memory::test {
namespace {

using Resources = ReleaseQueue::Resources;

// Appends its number to a list when it is released.
std::shared_ptr<void> numbered(std::vector<int>& list, int number) {
  return std::shared_ptr<void>(new int(number), [&list](void* value) {
    list.push_back(*static_cast<int*>(value));
    delete static_cast<int*>(value);
  });
}

std::unique_ptr<Resources> resources(Resources values) {
  return std::make_unique<Resources>(std::move(values));
}

TEST(ReleaseQueueTest, GivesNothingBackBeforeItIsDrained) {
  std::vector<int> released;
  ReleaseQueue::push(resources({numbered(released, 1)}));
  EXPECT_TRUE(released.empty());
  ReleaseQueue::drain();
  EXPECT_EQ(released, std::vector<int>{1});
}

TEST(ReleaseQueueTest, GivesTheLastOneBackFirst) {
  std::vector<int> released;
  ReleaseQueue::push(resources({numbered(released, 1), numbered(released, 2), numbered(released, 3)}));
  ReleaseQueue::drain();
  EXPECT_EQ(released, (std::vector<int>{3, 2, 1}));
}

TEST(ReleaseQueueTest, DoesNothingWhenNothingIsQueued) {
  ReleaseQueue::drain();
  ReleaseQueue::push(nullptr);
  ReleaseQueue::push(resources({}));
  ReleaseQueue::drain();
}

TEST(ReleaseQueueTest, MayBeUsedByWhatItGivesBack) {
  std::vector<int> released;
  Resources values;
  values.push_back(std::shared_ptr<void>(nullptr, [&](void*) {
    ReleaseQueue::push(resources({numbered(released, 1)}));
    ReleaseQueue::drain();
    released.push_back(2);
  }));
  ReleaseQueue::push(std::make_unique<Resources>(std::move(values)));
  ReleaseQueue::drain();
  EXPECT_EQ(released, (std::vector<int>{1, 2}));
}

TEST(ReleaseQueueTest, WaitsForAFlagThatAPushAnnounces) {
  std::atomic<bool> flag{false};
  std::thread other([&] {
    flag.store(true, std::memory_order_release);
    ReleaseQueue::push(nullptr);
  });
  EXPECT_TRUE(ReleaseQueue::wait(flag, std::chrono::seconds(30)));
  other.join();
}

TEST(ReleaseQueueTest, GivesUpWaitingAfterTheLimit) {
  const std::atomic<bool> flag{false};
  EXPECT_FALSE(ReleaseQueue::wait(flag, std::chrono::microseconds(100)));
}

TEST(ReleaseQueueTest, KeepsWhatWaitsForALaunchUntilThatIsOver) {
  const Device device = default_device();
  const Stream stream(device);
  Gate gate;
  LastLaunch launch;
  launch.launch(stream, [&] {
    EXPECT_EQ(device.backend().launch_host_function({&Gate::pass, &gate}, stream.native()), ErrorCode::success);
  });
  std::vector<int> released;
  ReleaseQueue::push(resources({numbered(released, 1)}), std::move(launch));
  ReleaseQueue::push(resources({numbered(released, 2)}));
  ReleaseQueue::drain();
  EXPECT_EQ(released, std::vector<int>{2});
  gate.open();
  stream.synchronize();
  ReleaseQueue::drain();
  EXPECT_EQ(released, (std::vector<int>{2, 1}));
}

// A launch on a foreign stream that is being captured: its completion is unknown.
TEST(ReleaseQueueTest, ReleasesWhatIsBehindManyWhoseEndIsUnknown) {
  const Stream stream;
  backend::Backend& backend = stream.device().backend();
  std::vector<int> released;
  ASSERT_EQ(backend.stream_begin_capture(stream.native(), CaptureMode::relaxed), ErrorCode::success);
  for (int i = 0; i < 30; ++i) {
    LastLaunch launch;
    launch.launch(stream, [] {});
    ReleaseQueue::push(resources({numbered(released, i)}), std::move(launch));
  }
  ReleaseQueue::push(resources({numbered(released, 30)}));
  for (int i = 0; i < 30 && released.empty(); ++i) ReleaseQueue::drain();
  EXPECT_EQ(released, std::vector<int>{30});
  GraphHandle graph = nullptr;
  EXPECT_EQ(backend.stream_end_capture(stream.native(), &graph), ErrorCode::success);
  EXPECT_EQ(backend.graph_destroy(graph), ErrorCode::success);
  ReleaseQueue::drain_waiting();
  EXPECT_EQ(released.size(), 31u);
}

TEST(ReleaseQueueTest, TakesFromManyThreadsAtOnce) {
  std::atomic<int> released{0};
  std::vector<std::thread> threads;
  for (int t = 0; t < 4; ++t) {
    threads.emplace_back([&] {
      for (int i = 0; i < 100; ++i) {
        Resources values;
        values.push_back(std::shared_ptr<void>(nullptr, [&](void*) { ++released; }));
        ReleaseQueue::push(std::make_unique<Resources>(std::move(values)));
        if (i % 10 == 0) ReleaseQueue::drain();
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  ReleaseQueue::drain();
  EXPECT_EQ(released, 400);
}

}  // namespace
}  // namespace reprise::memory::test
