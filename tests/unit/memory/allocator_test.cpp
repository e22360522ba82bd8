// SPDX-License-Identifier: Apache-2.0
#include <cstring>
#include <thread>

#include "tests/unit/memory/memory_fixture.h"

namespace reprise::memory::test {
namespace {

using CachingAllocatorTest = MemoryTest;

TEST_F(CachingAllocatorTest, IsTheSameOneForTheSameDevice) {
  EXPECT_EQ(&CachingAllocator::of(device_), &allocator_);
  EXPECT_NE(&CachingAllocator::of(default_device()), &allocator_);
  EXPECT_EQ(&CachingAllocator::of(device_), &allocator_);
  EXPECT_EQ(allocator_.device(), device_);
}

TEST_F(CachingAllocatorTest, GivesAFreedBlockOutAgainForTheSameStream) {
  void* const block = allocate(1000);
  free(block);
  EXPECT_EQ(allocate(1000), block);
  free(block);
}

TEST_F(CachingAllocatorTest, DoesNotWaitForTheStreamBeforeItGivesABlockOutAgain) {
  Gate gate(reprise::test::by_steps_too);
  close(gate, stream_);
  void* const block = allocate(1000);
  free(block);
  EXPECT_EQ(allocate(1000), block);
  free(block);
  gate.open();
  stream_.synchronize();
}

TEST_F(CachingAllocatorTest, DoesNotGiveABlockToAnotherStream) {
  void* const block = allocate(1000);
  free(block);
  void* const others = allocate(1000, other_);
  EXPECT_EQ(all().segments, 2u);
  EXPECT_NE(others, block);
  free(others);
}

TEST_F(CachingAllocatorTest, KnowsTheLegacyStreamByBothOfItsHandles) {
  void* const block = allocate(1000, device_.default_stream());
  free(block);
  EXPECT_EQ(allocate(1000, StreamRef(device_, reinterpret_cast<StreamHandle>(0x1))), block);
  free(block);
}

TEST_F(CachingAllocatorTest, AsksTheDriverOnceForWhatItCanGiveOutAgain) {
  free(allocate(1000));
  backend_.forget_calls();
  for (int i = 0; i < 100; ++i) free(allocate(1000));
  EXPECT_EQ(backend_.calls(), 0);
}

TEST_F(CachingAllocatorTest, TheMemoryCanBeUsed) {
  void* const block = allocate(4096);
  std::vector<unsigned char> values(4096);
  fill_async(block, 0xAB, 4096, stream_);
  copy_async(values.data(), block, 4096, stream_);
  stream_.synchronize();
  EXPECT_EQ(values, std::vector<unsigned char>(4096, 0xAB));
  free(block);
}

TEST_F(CachingAllocatorTest, ZeroBytesAreANullPointer) {
  EXPECT_EQ(allocate(0), nullptr);
  EXPECT_EQ(all().allocations, 0u);
}

TEST_F(CachingAllocatorTest, FreeingNullDoesNothing) {
  EXPECT_NO_THROW(free(nullptr));
}

TEST_F(CachingAllocatorTest, AStreamOfAnotherDeviceIsRefused) {
  const Device elsewhere(new_device());
  EXPECT_THROW(allocate(1, elsewhere.default_stream()), UsageError);
  EXPECT_THROW(allocate(0, elsewhere.default_stream()), UsageError);
  EXPECT_EQ(all().reserved_bytes, 0u);
  free(allocate(1));
}

TEST_F(CachingAllocatorTest, FreeingABlockOfAnotherDeviceIsRefused) {
  CachingAllocator& elsewhere = CachingAllocator::of(Device(new_device()));
  void* const block = allocate(1024);
  EXPECT_THROW(elsewhere.deallocate(block), UsageError);
  free(block);
}

TEST_F(CachingAllocatorTest, CountsWhatIsReservedAndWhatIsInUse) {
  EXPECT_EQ(all().reserved_bytes, 0u);
  void* const small = allocate(1000);
  void* const large = allocate(12 * mib);
  PoolStatistics now = all();
  EXPECT_EQ(now.reserved_bytes, 14 * mib);
  EXPECT_EQ(now.allocated_bytes, 12 * mib + 1024);
  EXPECT_EQ(now.segments, 2u);
  EXPECT_EQ(now.allocations, 2u);
  free(large);
  now = all();
  EXPECT_EQ(now.reserved_bytes, 14 * mib);
  EXPECT_EQ(now.allocated_bytes, 1024u);
  EXPECT_EQ(now.allocations, 1u);
  free(small);
  allocator_.empty_cache();
  now = all();
  EXPECT_EQ(now.reserved_bytes, 0u);
  EXPECT_EQ(now.allocated_bytes, 0u);
  EXPECT_EQ(now.segments, 0u);
}

TEST_F(CachingAllocatorTest, CountsTheDefaultPoolUnderTheIdThatNamesNoPool) {
  void* const block = allocate(1000);
  EXPECT_EQ(allocator_.statistics(MempoolId{}).allocated_bytes, 1024u);
  EXPECT_EQ(allocator_.statistics(graph_pool_handle()).reserved_bytes, 0u);
  free(block);
}

TEST_F(CachingAllocatorTest, RemembersThePeaksUntilTheyAreReset) {
  void* const block = allocate(12 * mib);
  free(allocate(1000));
  free(block);
  allocator_.empty_cache();
  EXPECT_EQ(all().peak_reserved_bytes, 14 * mib);
  EXPECT_EQ(all().peak_allocated_bytes, 12 * mib + 1024);
  allocator_.reset_peak();
  EXPECT_EQ(all().peak_reserved_bytes, 0u);
  EXPECT_EQ(all().peak_allocated_bytes, 0u);
  EXPECT_EQ(allocator_.statistics(MempoolId{}).peak_allocated_bytes, 0u);
}

TEST_F(CachingAllocatorTest, EmptyCacheGivesBackWhatIsWhollyFreeAndKeepsTheRest) {
  void* const used = allocate(512);
  free(allocate(1024));
  free(allocate(12 * mib));
  const std::size_t before = device_.memory_info().free;
  allocator_.empty_cache();
  EXPECT_EQ(all().reserved_bytes, 2 * mib);
  EXPECT_EQ(device_.memory_info().free, before + 12 * mib);
  free(used);
}

TEST_F(CachingAllocatorTest, WhatTheDriverRefusesToTakeBackStaysCached) {
  void* const block = allocate(1000);
  free(block);
  backend_.fail(Call::memory_free, ErrorCode::launch_failure);
  EXPECT_THROW(allocator_.empty_cache(), BackendError);
  EXPECT_EQ(all().reserved_bytes, 2 * mib);
  EXPECT_EQ(allocate(1000), block);
  free(block);
}

TEST_F(CachingAllocatorTest, ItsCallsOfTheDriverBreakNoCaptureInAnyMode) {
  for (const auto mode : {CaptureMode::global, CaptureMode::thread, CaptureMode::relaxed}) {
    const RawCapture capture(other_, mode);
    free(allocate(12 * mib));
    allocator_.empty_cache();
    EXPECT_TRUE(capture.is_whole());
    EXPECT_EQ(all().reserved_bytes, 0u);
  }
}

TEST_F(CachingAllocatorTest, AThreadMayAllocateWhatAnotherIsJustGivingBackToTheDriver) {
  void* const block = allocate(12 * mib);
  free(block);
  void* next = nullptr;
  backend_.after(Call::memory_free, [&] { next = allocate(12 * mib, other_); });
  allocator_.empty_cache();
  ASSERT_EQ(next, block);  // the driver had the address again, and gave it out
  EXPECT_EQ(all().allocated_bytes, 12 * mib);
  EXPECT_NO_THROW(free(next));
  EXPECT_EQ(allocate(12 * mib, other_), next);
  free(next);
}

TEST_F(CachingAllocatorTest, TwoBlocksInUseNeverOverlap) {
  struct Held {
    std::byte* address;
    std::size_t bytes;
  };
  std::vector<Held> held;
  unsigned random = 7;
  for (int i = 0; i < 2000; ++i) {
    random = random * 1664525u + 1013904223u;
    if (held.size() < 40 && (random >> 30) != 0) {
      const std::size_t bytes = 1 + (random >> 8) % (3 * mib);
      std::byte* const address = allocate(bytes);
      for (const Held& one : held) {
        ASSERT_TRUE(address + bytes <= one.address || one.address + one.bytes <= address);
      }
      held.push_back({address, bytes});
    } else if (!held.empty()) {
      const std::size_t victim = (random >> 16) % held.size();
      free(held[victim].address);
      held[victim] = held.back();
      held.pop_back();
    }
  }
  for (const Held& one : held) free(one.address);
}

TEST(CachingAllocatorEnd, GivesItsMemoryBack) {
  FaultyBackend& backend = new_device();
  const Device device(backend);
  const std::size_t before = device.memory_info().free;
  {
    CachingAllocator allocator(device);
    allocator.allocate(1000, device.default_stream());
    allocator.deallocate(allocator.allocate(12 * mib, device.default_stream()));
    EXPECT_LT(device.memory_info().free, before);
  }
  EXPECT_EQ(device.memory_info().free, before);
}

}  // namespace
}  // namespace reprise::memory::test
