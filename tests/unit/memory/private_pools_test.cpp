// SPDX-License-Identifier: Apache-2.0
#include <optional>
#include <set>
#include <thread>

#include "tests/unit/memory/memory_fixture.h"

namespace reprise::memory::test {
namespace {

class PrivatePools : public MemoryTest {
 protected:
  PoolStatistics of(const OpenPool& pool) const { return allocator_.statistics(pool.id()); }
  PoolStatistics of_default() const { return allocator_.statistics(MempoolId{}); }
};

TEST(PoolIds, AreNeverTheSameAndNameAPool) {
  std::set<std::uint64_t> numbers;
  for (int i = 0; i < 10; ++i) {
    const MempoolId shared = graph_pool_handle();
    EXPECT_EQ(shared.first, 0u);
    EXPECT_TRUE(shared);
    const MempoolId own = new_capture_pool_id();
    EXPECT_EQ(own.second, 0u);
    EXPECT_TRUE(own);
    numbers.insert(shared.second);
    numbers.insert(own.first);
  }
  EXPECT_EQ(numbers.size(), 20u);
  EXPECT_FALSE(MempoolId{});
}

TEST_F(PrivatePools, TakeWhatIsAllocatedForACapturingStream) {
  const OpenPool pool(allocator_);
  const PoolCapture capture(allocator_, pool.id(), stream_);
  void* const block = allocate(1000);
  EXPECT_EQ(of(pool).allocated_bytes, 1024u);
  EXPECT_EQ(of(pool).reserved_bytes, 2 * mib);
  EXPECT_EQ(of(pool).peak_allocated_bytes, 1024u);
  EXPECT_EQ(of_default().reserved_bytes, 0u);
  EXPECT_EQ(all().allocated_bytes, 1024u);
  EXPECT_TRUE(capture.is_whole());
  free(block);
}

TEST_F(PrivatePools, TakeWhatIsAllocatedForTheStreamBeforeTheCaptureBegins) {
  const OpenPool pool(allocator_);
  std::optional<PoolFilled> filled(std::in_place, allocator_, pool.id(), stream_);
  void* const block = allocate(1000);
  EXPECT_EQ(of(pool).allocations, 1u);
  void* const others = allocate(1000, other_);
  EXPECT_EQ(of_default().allocations, 1u);
  filled.reset();
  free(block);
  free(others);
}

TEST_F(PrivatePools, DoNotTakeTheStreamsAllocationsAfterOneThatWasAnnouncedAndNeverBegan) {
  const OpenPool pool(allocator_);
  std::optional<PoolFilled>(std::in_place, allocator_, pool.id(), stream_).reset();
  void* const block = allocate(1000);
  EXPECT_EQ(of(pool).allocations, 0u);
  free(block);
}

TEST_F(PrivatePools, AreFilledFromAnyThread) {
  const OpenPool pool(allocator_);
  const PoolCapture capture(allocator_, pool.id(), stream_);
  void* block = nullptr;
  std::thread([&] { block = allocate(1000); }).join();
  EXPECT_EQ(of(pool).allocations, 1u);
  EXPECT_TRUE(capture.is_whole());
  std::thread([&] { free(block); }).join();
  EXPECT_EQ(of(pool).allocations, 0u);
}

TEST_F(PrivatePools, TakeTheAllocationsOfAStreamThatJoinedTheCapture) {
  const OpenPool pool(allocator_);
  const PoolCapture capture(allocator_, pool.id(), stream_);
  other_.wait(stream_.ref());
  void* const block = allocate(1000, other_);
  EXPECT_EQ(of(pool).allocations, 1u);
  stream_.wait(other_.ref());
  free(block);
}

TEST_F(PrivatePools, TakeTheAllocationsOfTheCapturesOtherIds) {
  const OpenPool pool(allocator_);
  const PoolCapture capture(allocator_, pool.id(), stream_);
  const RawCapture body(other_);
  capture.inside().add_id(body.id());
  void* const block = allocate(1000, other_);
  EXPECT_EQ(of(pool).allocations, 1u);
  free(block);
}

TEST_F(PrivatePools, DoNotTakeTheAllocationsOfStreamsOutsideOfTheCapture) {
  const OpenPool pool(allocator_);
  const PoolCapture capture(allocator_, pool.id(), stream_);
  const RawCapture foreign(other_);
  const Stream eager(device_);
  void* const of_foreign = allocate(1000, other_);
  void* const of_eager = allocate(1000, eager);
  void* const of_legacy = allocate(1000, device_.default_stream());
  EXPECT_EQ(of(pool).allocations, 0u);
  EXPECT_EQ(of_default().allocations, 3u);
  EXPECT_TRUE(capture.is_whole());
  for (void* block : {of_foreign, of_eager, of_legacy}) free(block);
}

TEST_F(PrivatePools, TheLegacyStreamIsInNoCaptureAlthoughAskingAboutItFails) {
  const OpenPool pool(allocator_);
  const Stream blocking(device_, StreamOptions{.blocking = true});
  const PoolCapture capture(allocator_, pool.id(), blocking);
  void* const block = allocate(1000, device_.default_stream());
  EXPECT_EQ(of_default().allocations, 1u);
  EXPECT_TRUE(capture.is_whole());
  free(block);
}

TEST_F(PrivatePools, EndWithTheCapture) {
  const OpenPool pool(allocator_);
  { const PoolCapture capture(allocator_, pool.id(), stream_); }
  void* const block = allocate(1000);
  EXPECT_EQ(of(pool).allocations, 0u);
  free(block);
}

TEST_F(PrivatePools, TwoCapturesAtOnceFillTwoPools) {
  const OpenPool pool(allocator_), other_pool(allocator_);
  const PoolCapture capture(allocator_, pool.id(), stream_);
  const PoolCapture other_capture(allocator_, other_pool.id(), other_);
  void* const block = allocate(1000);
  void* const others = allocate(12 * mib, other_);
  EXPECT_EQ(of(pool).allocated_bytes, 1024u);
  EXPECT_EQ(of(other_pool).allocated_bytes, 12 * mib);
  free(block);
  free(others);
}

TEST_F(PrivatePools, ABlockIsGivenOutAgainWithinTheCapture) {
  const OpenPool pool(allocator_);
  const PoolCapture capture(allocator_, pool.id(), stream_);
  void* const block = allocate(1000);
  free(block);
  EXPECT_EQ(allocate(1000), block);
  free(block);
}

TEST_F(PrivatePools, ABlockIsNeverGivenOutOutsideOfItsPool) {
  const OpenPool pool(allocator_);
  void* block = nullptr;
  {
    const PoolCapture capture(allocator_, pool.id(), stream_);
    block = allocate(1000);
    free(block);
  }
  void* const eager = allocate(1000);
  EXPECT_NE(eager, block);
  EXPECT_EQ(all().segments, 2u);
  free(eager);
}

TEST_F(PrivatePools, DoNotTakeBlocksOfTheDefaultPool) {
  void* const eager = allocate(1000);
  free(eager);
  const OpenPool pool(allocator_);
  const PoolCapture capture(allocator_, pool.id(), stream_);
  void* const block = allocate(1000);
  EXPECT_NE(block, eager);
  free(block);
}

TEST_F(PrivatePools, ABlockFreedAfterTheCaptureGoesBackToItsPool) {
  const OpenPool pool(allocator_);
  void* block = nullptr;
  {
    const PoolCapture capture(allocator_, pool.id(), stream_);
    block = allocate(1000);
  }
  EXPECT_EQ(of(pool).allocations, 1u);
  free(block);
  EXPECT_EQ(of(pool).allocations, 0u);
  const PoolCapture capture(allocator_, pool.id(), stream_);
  EXPECT_EQ(allocate(1000), block);
  free(block);
}

TEST_F(PrivatePools, AnEagerBlockFreedInACaptureGoesBackToTheDefaultPool) {
  void* const eager = allocate(1000);
  const OpenPool pool(allocator_);
  {
    const PoolCapture capture(allocator_, pool.id(), stream_);
    free(eager);
    void* const block = allocate(1000);
    EXPECT_NE(block, eager);
    free(block);
  }
  EXPECT_EQ(allocate(1000), eager);
  free(eager);
}

TEST_F(PrivatePools, CapturesThatShareAPoolShareItsMemory) {
  const OpenPool first(allocator_);
  const OpenPool second(allocator_, first.id());
  void* block = nullptr;
  {
    const PoolCapture capture(allocator_, first.id(), stream_);
    block = allocate(1000);
    free(block);
  }
  const PoolCapture capture(allocator_, second.id(), stream_);
  EXPECT_EQ(allocate(1000), block);
  EXPECT_EQ(of(first).segments, 1u);
  free(block);
}

TEST_F(PrivatePools, TwoCapturesCannotFillOnePoolAtOnce) {
  const OpenPool pool(allocator_);
  {
    const PoolCapture capture(allocator_, pool.id(), stream_);
    EXPECT_THAT(text_of<UsageError>([&] { PoolFilled(allocator_, pool.id(), other_); }),
                HasSubstr("another capture is filling"));
    void* const others = allocate(1000, other_);
    EXPECT_EQ(of_default().allocations, 1u);
    free(others);
  }
  EXPECT_NO_THROW(PoolCapture(allocator_, pool.id(), other_));
}

TEST_F(PrivatePools, ACaptureNeedsAPoolThatAGraphHolds) {
  EXPECT_THROW(PoolFilled(allocator_, graph_pool_handle(), stream_), UsageError);
  EXPECT_THROW(inside().open_pool(MempoolId{}, ""), UsageError);
  void* const block = allocate(1000);
  EXPECT_EQ(of_default().allocations, 1u);
  free(block);
}

TEST_F(PrivatePools, EmptyCacheLeavesThoseThatAGraphHolds) {
  const OpenPool pool(allocator_);
  {
    const PoolCapture capture(allocator_, pool.id(), stream_);
    free(allocate(1000));
  }
  allocator_.empty_cache();
  EXPECT_EQ(of(pool).reserved_bytes, 2 * mib);
}

TEST_F(PrivatePools, TheirMemoryGoesBackToTheDriverWithTheLastGraph) {
  const std::size_t before = device_.memory_info().free;
  OpenPool first(allocator_);
  OpenPool second(allocator_, first.id());
  {
    const PoolCapture capture(allocator_, first.id(), stream_);
    free(allocate(1000));
    free(allocate(12 * mib));
  }
  first.close();
  EXPECT_EQ(of(first).reserved_bytes, 14 * mib);
  second.close();
  EXPECT_EQ(of(first).reserved_bytes, 0u);
  EXPECT_EQ(all().reserved_bytes, 0u);
  EXPECT_EQ(device_.memory_info().free, before);
}

TEST_F(PrivatePools, AnAllocationOutlivesTheGraphsOfItsPool) {
  OpenPool pool(allocator_);
  void* block = nullptr;
  {
    const PoolCapture capture(allocator_, pool.id(), stream_);
    block = allocate(1000);
    free(allocate(12 * mib));
  }
  pool.close();
  EXPECT_EQ(of(pool).reserved_bytes, 2 * mib);
  unsigned char value = 0;
  fill_async(block, 7, 1000, stream_);
  copy_async(&value, block, 1, stream_);
  stream_.synchronize();
  EXPECT_EQ(value, 7);
  allocator_.empty_cache();
  EXPECT_EQ(of(pool).allocations, 1u);
  free(block);
  allocator_.empty_cache();
  EXPECT_EQ(of(pool).reserved_bytes, 0u);
  EXPECT_EQ(all().reserved_bytes, 0u);
}

TEST_F(PrivatePools, FreeingTheLastBlockDoesNotWaitForTheDevice) {
  OpenPool pool(allocator_);
  void* block = nullptr;
  {
    const PoolCapture capture(allocator_, pool.id(), stream_);
    block = allocate(1000);
  }
  pool.close();
  backend_.forget_calls();
  free(block);
  EXPECT_EQ(backend_.calls(), 0);
}

TEST_F(PrivatePools, CanBeOpenedAgainWhileAnAllocationKeepsThem) {
  OpenPool pool(allocator_);
  void* block = nullptr;
  {
    const PoolCapture capture(allocator_, pool.id(), stream_);
    block = allocate(1000);
  }
  pool.close();
  const OpenPool again(allocator_, pool.id());
  free(block);
  allocator_.empty_cache();
  const PoolCapture capture(allocator_, again.id(), stream_);
  EXPECT_EQ(allocate(1000), block);
  free(block);
}

TEST_F(PrivatePools, ClosingOnceTooOftenIsReported) {
  const Warnings warnings;
  OpenPool pool(allocator_);
  pool.close();
  inside().close_pool(pool.id(), "");
  ASSERT_EQ(warnings.texts().size(), 1u);
  EXPECT_THAT(warnings.texts()[0], HasSubstr("closed more often"));
}

TEST_F(PrivatePools, EndingACaptureThatFillsNoneDoesNothing) {
  const Warnings warnings;
  const OpenPool pool(allocator_);
  const GraphOptions options = {};
  const captures::Registration registered(stream_, options, pool.id());
  inside().end_filling(registered.capture());
  EXPECT_TRUE(warnings.texts().empty());
}

TEST_F(PrivatePools, ClosingOneInAnyCaptureBreaksNothing) {
  OpenPool pool(allocator_);
  {
    const PoolCapture capture(allocator_, pool.id(), stream_);
    free(allocate(1000));
  }
  const RawCapture foreign(other_);
  pool.close();
  EXPECT_EQ(all().reserved_bytes, 0u);
  EXPECT_TRUE(foreign.is_whole());
}

TEST_F(PrivatePools, CapturesAreQueriedOnlyWhileOneIsUnderway) {
  const OpenPool pool(allocator_);
  free(allocate(1000));
  backend_.forget_calls();
  free(allocate(1000));
  EXPECT_EQ(backend_.calls(), 0);
  {
    const PoolCapture capture(allocator_, pool.id(), other_);
    backend_.forget_calls();
    free(allocate(1000));
    EXPECT_EQ(backend_.calls(Call::stream_capture_info), 1);
    EXPECT_EQ(backend_.calls(), 1);
  }
  backend_.forget_calls();
  free(allocate(1000));
  EXPECT_EQ(backend_.calls(), 0);
}

TEST_F(PrivatePools, AnAllocationInACaptureMakesOneCallOfTheDriver) {
  const OpenPool pool(allocator_);
  const PoolCapture capture(allocator_, pool.id(), stream_);
  free(allocate(1000));
  backend_.forget_calls();
  void* const block = allocate(1000);
  EXPECT_EQ(backend_.calls(Call::stream_capture_info), 1);
  EXPECT_EQ(backend_.calls(), 1);
  free(block);
  EXPECT_EQ(backend_.calls(), 1);
  EXPECT_EQ(of(pool).reserved_bytes, 2 * mib);
}

TEST_F(PrivatePools, StatisticsReturnToTheirLevelAfterManyCaptures) {
  for (int i = 0; i < 50; ++i) {
    const OpenPool pool(allocator_, new_capture_pool_id());
    const PoolCapture capture(allocator_, pool.id(), stream_);
    void* const kept = allocate(1000);
    free(allocate(5 * mib));
    free(kept);
  }
  EXPECT_EQ(all().reserved_bytes, 0u);
  EXPECT_EQ(all().allocated_bytes, 0u);
  EXPECT_EQ(all().segments, 0u);
}

}  // namespace
}  // namespace reprise::memory::test
