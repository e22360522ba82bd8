// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>

#include <vector>

#include "reprise/kernel.h"

// Where threads and blocks stand, and the shapes of launches. The device is not needed for that.

namespace reprise {
namespace {

TEST(LaunchShape, CoversAllThreads) {
  static_assert(LaunchConfig::cover(1).grid == Dim3(1));
  static_assert(LaunchConfig::cover(256).grid == Dim3(1));
  static_assert(LaunchConfig::cover(257).grid == Dim3(2));
  static_assert(LaunchConfig::cover(1000, 128).grid == Dim3(8));
  static_assert(LaunchConfig::cover(1000, 128).block == Dim3(128));
  EXPECT_EQ(LaunchConfig::cover(1024, 32).grid.x * 32U, 1024U);
}

TEST(LaunchShape, OfNoThreadsIsOneBlock) {
  static_assert(LaunchConfig::cover(0).grid == Dim3(1));
}

TEST(LaunchShape, IsOneThreadIfNothingIsSaid) {
  const LaunchConfig config;
  EXPECT_EQ(config.grid, Dim3(1, 1, 1));
  EXPECT_EQ(config.block, Dim3(1, 1, 1));
  EXPECT_EQ(config.shared_bytes, 0U);
  EXPECT_EQ(config.cluster, Dim3(1, 1, 1));
  EXPECT_FALSE(config.cooperative);
  EXPECT_FALSE(config.programmatic);
}

TEST(ThreadPosition, IsGlobalAlongEachAxis) {
  const Thread thread{.thread_idx = Dim3(1, 2, 3),
                      .block_idx = Dim3(4, 5, 6),
                      .block_dim = Dim3(7, 8, 9),
                      .grid_dim = Dim3(10, 11, 12)};
  EXPECT_EQ(thread.global_x(), 4U * 7 + 1);
  EXPECT_EQ(thread.global_y(), 5U * 8 + 2);
  EXPECT_EQ(thread.global_z(), 6U * 9 + 3);
}

TEST(ThreadPosition, HasMoreThan32Bits) {
  const Thread thread{.thread_idx = Dim3(1023, 0, 0),
                      .block_idx = Dim3(0x7FFFFFFE, 0, 0),
                      .block_dim = Dim3(1024),
                      .grid_dim = Dim3(0x7FFFFFFF)};
  EXPECT_EQ(thread.global_x(), std::size_t{0x7FFFFFFE} * 1024 + 1023);
}

TEST(ThreadPosition, RankCountsXFastest) {
  const auto rank = [](unsigned x, unsigned y, unsigned z) {
    return Thread{.thread_idx = Dim3(x, y, z), .block_idx = {}, .block_dim = Dim3(4, 3, 2), .grid_dim = {}}.rank();
  };
  EXPECT_EQ(rank(0, 0, 0), 0U);
  EXPECT_EQ(rank(1, 0, 0), 1U);
  EXPECT_EQ(rank(0, 1, 0), 4U);
  EXPECT_EQ(rank(0, 0, 1), 12U);
  EXPECT_EQ(rank(3, 2, 1), 23U);
}

TEST(BlockPosition, VisitsEachThreadOnceInRankOrder) {
  Block block(Dim3(1, 2, 3), Dim3(3, 2, 2), Dim3(4, 5, 6), nullptr, 0);
  EXPECT_EQ(block.size(), 12U);
  std::vector<unsigned> ranks;
  block.for_each_thread([&](const Thread& thread) {
    ranks.push_back(thread.rank());
    EXPECT_EQ(thread.block_idx, Dim3(1, 2, 3));
    EXPECT_EQ(thread.block_dim, block.block_dim());
    EXPECT_EQ(thread.grid_dim, block.grid_dim());
  });
  ASSERT_EQ(ranks.size(), 12U);
  for (unsigned i = 0; i < 12; ++i) EXPECT_EQ(ranks[i], i);
}

TEST(BlockSharedMemory, GivesSuccessiveAlignedArrays) {
  alignas(16) std::byte memory[64];
  Block block({}, {}, {}, memory, sizeof memory);
  EXPECT_EQ(static_cast<void*>(block.shared<char>(3)), memory);
  EXPECT_EQ(static_cast<void*>(block.shared<int>(2)), memory + 4);
  EXPECT_EQ(static_cast<void*>(block.shared<double>(1)), memory + 16);
  EXPECT_EQ(static_cast<void*>(block.shared<char>(40)), memory + 24) << "to the last byte";
}

TEST(BlockSharedMemory, RefusesMoreThanThereIsAndGivesLessAfterwards) {
  alignas(16) std::byte memory[16];
  Block block({}, {}, {}, memory, sizeof memory);
  EXPECT_THROW(block.shared<char>(17), Error);
  EXPECT_THROW(block.shared<int>(std::size_t{1} << 62), Error) << "also when the size overflows";
  EXPECT_NO_THROW(block.shared<char>(16));
  EXPECT_THROW(block.shared<char>(1), Error);
  EXPECT_NO_THROW(block.shared<char>(0));
}

struct Visit {
  REPRISE_KERNEL void operator()(Thread t, Dim3* seen, int* count) const { seen[(*count)++] = t.block_idx; }
};

// A device may split a launch: each part runs its own blocks, all of them together run each block once.
TEST(HostEntry, RunsTheBlocksOfItsPart) {
  Dim3 seen[12];
  int count = 0;
  Dim3* seen_argument = seen;
  int* count_argument = &count;
  void* const params[] = {static_cast<void*>(&seen_argument), static_cast<void*>(&count_argument)};
  HostLaunch launch;
  launch.grid = Dim3(3, 2, 2);
  launch.first_block = 0;
  launch.last_block = 5;
  kernel_record<Visit>().host_entry(launch, params);
  EXPECT_EQ(count, 5);
  EXPECT_EQ(seen[4], Dim3(1, 1, 0)) << "x counts fastest";
  launch.first_block = 5;
  launch.last_block = 12;
  kernel_record<Visit>().host_entry(launch, params);
  ASSERT_EQ(count, 12);
  for (unsigned i = 0; i < 12; ++i) EXPECT_EQ(seen[i], Dim3(i % 3, i / 3 % 2, i / 6)) << i;
}

TEST(AtomicAdd, ReturnsWhatWasThere) {
  int value = 5;
  EXPECT_EQ(atomic_add(&value, 3), 5);
  EXPECT_EQ(value, 8);
  float number = 0.5F;
  EXPECT_EQ(atomic_add(&number, 0.25F), 0.5F);
  EXPECT_EQ(number, 0.75F);
}

}  // namespace
}  // namespace reprise
