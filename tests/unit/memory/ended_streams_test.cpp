// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <optional>
#include <set>

#include "tests/unit/memory/memory_fixture.h"

namespace reprise::memory::test {
namespace {

constexpr std::size_t bytes = 12 * mib;

class EndedStreams : public MemoryTest {
 protected:
  /// \param block of a stream that has ended
  void expect_given_to_others_once_it_is_free(void* block) {
    void* const meanwhile = allocate(bytes);
    EXPECT_NE(meanwhile, block);
    free(block);
    EXPECT_EQ(allocate(bytes), block);
    free(block);
    free(meanwhile);
  }
};

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
  expect_given_to_others_once_it_is_free(block);
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

/// A capture with streams that take part in it for a while.
class EndedStreamsInCapture : public EndedStreams {
 protected:
  EndedStreamsInCapture() { fork_.record(stream_); }

  /// The block that a stream gets, uses and frees. It is forked off where the capture was at the fork, and joined.
  void* used_by_another(const Event& fork) {
    const Stream ends(device_);
    fork.wait(ends);
    void* const block = allocate(bytes, ends);
    fill_async(block, 1, 64, ends);
    free(block);
    stream_.wait(ends);
    return block;
  }

  OpenPool pool_{allocator_};
  std::optional<PoolCapture> capture_{std::in_place, allocator_, pool_.id(), stream_};
  const Event fork_{device_};
};

TEST_F(EndedStreamsInCapture, LeaveTheirMemoryToNoStreamThatMayRunBesideThem) {
  // Among these is one with the handle of another one, if handles come back at all.
  std::set<void*> blocks;
  for (int i = 0; i < 5; ++i) blocks.insert(used_by_another(fork_));
  EXPECT_EQ(blocks.size(), 5u);
  EXPECT_TRUE(capture_->is_whole());
}

TEST_F(EndedStreamsInCapture, LeaveTheirMemoryToStreamsThatComeAfterThem) {
  std::set<void*> blocks;
  for (int i = 0; i < 5; ++i) {
    const Event fork(device_);
    fork.record(stream_);
    blocks.insert(used_by_another(fork));
  }
  blocks.insert(allocate(bytes));
  EXPECT_EQ(blocks.size(), 1u);
  free(*blocks.begin());
}

TEST_F(EndedStreamsInCapture, LeaveABlockThatOutlivesThemOnceItIsFree) {
  std::optional<Stream> ends(std::in_place, device_);
  fork_.wait(*ends);
  void* const block = allocate(bytes, *ends);
  stream_.wait(*ends);
  ends.reset();
  expect_given_to_others_once_it_is_free(block);
}

TEST_F(EndedStreamsInCapture, LeaveTheirMemoryToThePool) {
  void* const kept = allocate(512);
  for (int i = 0; i < 5; ++i) used_by_another(fork_);
  EXPECT_EQ(all().segments, 6u);
  capture_.reset();
  pool_.close();
  EXPECT_EQ(all().segments, 1u);
  free(kept);
}

TEST_F(EndedStreamsInCapture, HoldBackWhatTheyUsedOfOthers) {
  void* const block = allocate(bytes);
  {
    const Stream ends(device_);
    fork_.wait(ends);
    allocator_.record_stream(block, ends);
    fill_async(block, 1, 64, ends);
    stream_.wait(ends);
  }
  free(block);
  void* const next = allocate(bytes);
  EXPECT_NE(next, block);
  free(next);
  capture_.reset();
  free(allocate(512));  // while no capture is underway
  const PoolCapture again(allocator_, pool_.id(), stream_);
  EXPECT_EQ(std::min<void*>(allocate(bytes), allocate(bytes)), std::min(block, next)) << "both are free again";
  free(block);
  free(next);
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
