// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>

#include <mutex>
#include <thread>
#include <vector>

#include "graph/launch_mutex.h"

namespace reprise::graphs {
namespace {

TEST(LaunchMutex, IsHeldByOneThreadAtATime) {
  LaunchMutex mutex;
  long count = 0;  // not atomic: only the mutex keeps the threads apart
  std::vector<std::thread> threads;
  for (int i = 0; i < 4; ++i)
    threads.emplace_back([&] {
      for (int k = 0; k < 20'000; ++k) {
        const std::lock_guard lock(mutex);
        const long before = count;
        if (k % 64 == 0) std::this_thread::yield();
        count = before + 1;
      }
    });
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(count, 80'000);
}

TEST(LaunchMutex, WakesAThreadThatSleepsForIt) {
  LaunchMutex mutex;
  mutex.lock();
  bool reached = false;
  std::thread other([&] {
    const std::lock_guard lock(mutex);
    reached = true;
  });
  std::this_thread::yield();
  mutex.unlock();
  other.join();
  EXPECT_TRUE(reached);
}

}  // namespace
}  // namespace reprise::graphs
