// SPDX-License-Identifier: Apache-2.0
#include "tests/unit/memory/memory_fixture.h"

namespace reprise::memory::test {
namespace {

using EndedStreams = MemoryTest;

constexpr std::size_t bytes = 12 * mib;

TEST_F(EndedStreams, MemoryOfADestroyedStreamIsNotGivenOutWhileItsWorkRuns) {
  Gate gate;
  void* block = nullptr;
  {
    const Stream ends(device_);
    block = allocate(bytes, ends);
    close(gate, ends);
    free(block);
  }
  // Among these is one with the old handle, if handles come back at all.
  for (int i = 0; i < 4; ++i) {
    const Stream begins(device_);
    void* const next = allocate(bytes, begins);
    EXPECT_NE(next, block);
    free(next);
  }
  gate.open();
  device_.synchronize();
}

TEST_F(EndedStreams, MemoryOfADestroyedStreamIsGivenToOthersOnceItsWorkIsDone) {
  void* block = nullptr;
  {
    const Stream ends(device_);
    block = allocate(bytes, ends);
    free(block);
  }
  device_.synchronize();
  EXPECT_EQ(allocate(bytes), block);
  free(block);
  EXPECT_EQ(all().segments, 1u);
}

TEST_F(EndedStreams, ABlockThatOutlivesItsStreamIsGivenToOthersAfterItsFree) {
  void* block = nullptr;
  {
    const Stream ends(device_);
    block = allocate(bytes, ends);
  }
  device_.synchronize();
  void* const meanwhile = allocate(bytes);
  EXPECT_NE(meanwhile, block);
  free(block);
  EXPECT_EQ(allocate(bytes), block);
  free(block);
  free(meanwhile);
}

TEST_F(EndedStreams, ASegmentThatIsPartlyInUseIsNotGivenToOthers) {
  void* kept = nullptr;
  {
    const Stream ends(device_);
    kept = allocate(512, ends);
    free(allocate(1024, ends));
  }
  device_.synchronize();
  free(allocate(1024));
  EXPECT_EQ(all().segments, 2u);
  free(kept);
}

TEST_F(EndedStreams, ManyShortLivedStreamsDoNotPileUpMemory) {
  for (int i = 0; i < 100; ++i) {
    const Stream short_lived(device_);
    void* const block = allocate(1000, short_lived);
    fill_async(block, 1, 1000, short_lived);
    free(block);
    short_lived.synchronize();
  }
  EXPECT_LE(all().segments, 2u);
}

TEST_F(EndedStreams, TheirMemoryGoesBackToTheDriverWithTheRest) {
  {
    const Stream ends(device_);
    free(allocate(bytes, ends));
  }
  allocator_.empty_cache();
  EXPECT_EQ(all().reserved_bytes, 0u);
}

TEST_F(EndedStreams, AStreamThatEndsBreaksNoCapture) {
  const RawCapture capture(other_);
  {
    const Stream ends(device_);
    free(allocate(bytes, ends));
  }
  free(allocate(bytes));
  EXPECT_TRUE(capture.is_whole());
}

}  // namespace
}  // namespace reprise::memory::test
