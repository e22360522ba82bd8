// SPDX-License-Identifier: Apache-2.0
#include "support/thread_object.h"

#include <gtest/gtest.h>

#include <atomic>
#include <thread>

namespace reprise::support {
namespace {

std::atomic<int> living = 0;

struct LivingCount {
  LivingCount() { ++living; }
  LivingCount(const LivingCount&) = delete;
  LivingCount& operator=(const LivingCount&) = delete;
  ~LivingCount() { --living; }

  int value = 0;
};

TEST(ThreadObject, IsOneForEachThreadAndEndsWithIt) {
  ThreadObject<LivingCount>::get().value = 1;
  const int before = living;
  std::thread([&] {
    EXPECT_EQ(ThreadObject<LivingCount>::get().value, 0);
    ThreadObject<LivingCount>::get().value = 2;
    EXPECT_EQ(ThreadObject<LivingCount>::get().value, 2);
    EXPECT_EQ(living, before + 1);
  }).join();
  EXPECT_EQ(living, before);
  EXPECT_EQ(ThreadObject<LivingCount>::get().value, 1);
}

TEST(ThreadObject, OutlivesTheThreadLocalObjectsOfItsThread) {
  int found = 0;
  struct Older {
    int* found;
    ~Older() { *found = ThreadObject<LivingCount>::get().value; }
  };
  const int before = living;
  std::thread([&] {
    thread_local const Older older{&found};
    ThreadObject<LivingCount>::get().value = 3;
  }).join();
  EXPECT_EQ(found, 3);
  EXPECT_EQ(living, before);
}

TEST(ThreadObject, IsMadeAnewByWhatUsesItEvenLater) {
  struct Key {
    pthread_key_t key{};
    Key() {
      pthread_key_create(&key, [](void*) { ThreadObject<LivingCount>::get().value = 4; });
    }
    ~Key() { pthread_key_delete(key); }
  } const of_another_library;
  ThreadObject<LivingCount>::get();  // its key is the older one, and comes first
  const int before = living;
  std::thread([&] {
    pthread_setspecific(of_another_library.key, &living);
    ThreadObject<LivingCount>::get().value = 3;
  }).join();
  EXPECT_EQ(living, before) << "it was destroyed, too";
}

}  // namespace
}  // namespace reprise::support
