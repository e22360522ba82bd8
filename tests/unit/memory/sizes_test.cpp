// SPDX-License-Identifier: Apache-2.0
#include <cstdint>

#include "tests/unit/memory/memory_fixture.h"

namespace reprise::memory::test {
namespace {

using CachingAllocatorSizes = MemoryTest;

TEST_F(CachingAllocatorSizes, ARequestIsRoundedUpTo512Bytes) {
  void* const one = allocate(1);
  EXPECT_EQ(all().allocated_bytes, 512u);
  void* const two = allocate(513);
  EXPECT_EQ(all().allocated_bytes, 512u + 1024u);
  free(one);
  free(two);
}

TEST_F(CachingAllocatorSizes, EveryBlockIsAlignedTo512Bytes) {
  std::vector<void*> blocks;
  for (const std::size_t bytes : {1u, 700u, 1025u, 100000u, 3000000u, 11000001u}) {
    blocks.push_back(allocate(bytes));
    EXPECT_EQ(reinterpret_cast<std::uintptr_t>(blocks.back()) % 512, 0u) << bytes;
  }
  for (void* block : blocks) free(block);
}

TEST_F(CachingAllocatorSizes, RequestsUpToOneMibAreCutFromSegmentsOfTwoMib) {
  void* const first = allocate(1 * mib);
  void* const second = allocate(1 * mib);
  EXPECT_EQ(all().reserved_bytes, 2 * mib);
  EXPECT_EQ(all().segments, 1u);
  void* const third = allocate(1);
  EXPECT_EQ(all().reserved_bytes, 4 * mib);
  for (void* block : {first, second, third}) free(block);
}

TEST_F(CachingAllocatorSizes, RequestsAboveOneMibAreCutFromSegmentsOfTwentyMib) {
  void* const first = allocate(1 * mib + 1);
  EXPECT_EQ(all().reserved_bytes, 20 * mib);
  void* const second = allocate(10 * mib - 512);
  EXPECT_EQ(all().segments, 1u);
  free(first);
  free(second);
}

TEST_F(CachingAllocatorSizes, RequestsFromTenMibOnGetASegmentThatIsAMultipleOfTwoMib) {
  void* const ten = allocate(10 * mib);
  EXPECT_EQ(all().reserved_bytes, 10 * mib);
  void* const more = allocate(10 * mib + 1);
  EXPECT_EQ(all().reserved_bytes, 22 * mib);
  EXPECT_EQ(all().segments, 2u);
  free(ten);
  free(more);
}

TEST_F(CachingAllocatorSizes, ALargeBlockIsNotSplitWhenOneMibOrLessWouldBeLeftOver) {
  void* const first = allocate(9 * mib + 512);    // leaves 11 MiB - 512
  void* const second = allocate(10 * mib - 512);  // would leave 1 MiB
  EXPECT_EQ(all().allocated_bytes, 20 * mib);
  free(first);
  free(second);
}

TEST_F(CachingAllocatorSizes, ALargeBlockIsSplitWhenMoreThanOneMibWouldBeLeftOver) {
  void* const first = allocate(9 * mib);           // leaves 11 MiB
  void* const second = allocate(10 * mib - 1024);  // leaves 1 MiB + 1024
  EXPECT_EQ(all().allocated_bytes, 19 * mib - 1024);
  free(first);
  free(second);
}

TEST_F(CachingAllocatorSizes, ASmallBlockIsSplitWhenever512BytesAreLeftOver) {
  void* const first = allocate(1 * mib);
  void* const second = allocate(1 * mib - 512);
  void* const third = allocate(512);
  EXPECT_EQ(all().segments, 1u);
  EXPECT_EQ(all().allocated_bytes, 2 * mib);
  for (void* block : {first, second, third}) free(block);
}

TEST_F(CachingAllocatorSizes, FreedNeighboursAreJoined) {
  std::byte* blocks[4];
  for (std::byte*& block : blocks) block = allocate(512 * kib);
  free(blocks[1]);
  free(blocks[2]);
  EXPECT_EQ(allocate(1 * mib), blocks[1]);
  free(blocks[1]);
  free(blocks[0]);
  free(blocks[3]);
  void* const half = allocate(1 * mib);
  void* const other_half = allocate(1 * mib);
  EXPECT_EQ(all().segments, 1u);
  free(half);
  free(other_half);
}

TEST_F(CachingAllocatorSizes, BlocksOfDifferentSegmentsAreNotJoined) {
  void* const first = allocate(10 * mib);
  void* const second = allocate(10 * mib);
  free(first);
  free(second);
  void* const both = allocate(20 * mib);
  EXPECT_EQ(all().segments, 3u);
  free(both);
}

TEST_F(CachingAllocatorSizes, TheSmallestBlockThatFitsIsChosen) {
  void* const large = allocate(12 * mib);
  void* const small = allocate(10 * mib);
  void* const middle = allocate(11 * mib);
  for (void* block : {large, small, middle}) free(block);
  EXPECT_EQ(allocate(10 * mib), small);
  EXPECT_EQ(allocate(10 * mib + 1), std::min(middle, large));  // 11 MiB got 12 MiB, too
  EXPECT_EQ(allocate(12 * mib), std::max(middle, large));
  for (void* block : {large, small, middle}) free(block);
}

TEST_F(CachingAllocatorSizes, AmongEqualBlocksTheLowestAddressIsChosen) {
  std::byte* blocks[8];
  for (std::byte*& block : blocks) block = allocate(256 * kib);
  free(blocks[4]);
  free(blocks[0]);
  free(blocks[2]);
  EXPECT_EQ(allocate(256 * kib), blocks[0]);
  EXPECT_EQ(allocate(256 * kib), blocks[2]);
  EXPECT_EQ(allocate(256 * kib), blocks[4]);
  for (std::byte* block : blocks) free(block);
}

TEST_F(CachingAllocatorSizes, ASmallRequestDoesNotTakeALargeBlock) {
  void* const large = allocate(2 * mib);
  free(large);
  void* const small = allocate(512);
  EXPECT_EQ(all().reserved_bytes, 22 * mib);
  free(small);
}

TEST(RoundUp, StopsAtTheLargestMultipleInsteadOfWrappingAround) {
  EXPECT_EQ(round_up(1, 512), 512u);
  EXPECT_EQ(round_up(1024, 512), 1024u);
  EXPECT_EQ(round_up(SIZE_MAX, 512), SIZE_MAX - 511);
  EXPECT_GE(make_request(SIZE_MAX).segment_bytes, SIZE_MAX - 4 * mib);
}

}  // namespace
}  // namespace reprise::memory::test
