// SPDX-License-Identifier: Apache-2.0
#include <chrono>
#include <cstdint>
#include <future>
#include <string>
#include <thread>

#include "reprise/capture.h"
#include "tests/unit/memory/memory_fixture.h"

namespace reprise::memory::test {
namespace {

// A segment of its own for each request, so that the address shows whether a block was given out again.
constexpr std::size_t bytes = 12 * mib;

class RecordStream : public MemoryTest {
 protected:
  /// Allocates and frees the same amount again: was it `block`? One request more each time, so that what was given out
  /// instead before is not all that there is now.
  bool gives_out_again(void* block) {
    std::vector<void*> given(++requests_);
    for (void*& one : given) one = allocate(bytes);
    for (void* one : given) free(one);
    return std::find(given.begin(), given.end(), block) != given.end();
  }

  /// Records a stream that is destroyed by the backend's own call, of which the library has no notice. Returns `block`.
  void* record_on_destroyed_stream(void* block) {
    StreamHandle raw = nullptr;
    backend::Checked(backend_).stream_create(&raw, backend::StreamFlags::non_blocking, 0);
    allocator_.record_stream(block, StreamRef(device_, raw));
    backend::Checked(backend_).stream_destroy(raw);
    return block;
  }

  std::size_t requests_ = 0;
};

TEST_F(RecordStream, HoldsABlockBackUntilTheOtherStreamsWorkIsDone) {
  Gate gate;
  close(gate, other_);
  void* const block = allocate(bytes);
  allocator_.record_stream(block, other_);
  free(block);
  EXPECT_FALSE(gives_out_again(block));
  gate.open();
  other_.synchronize();
  allocator_.empty_cache();
  EXPECT_EQ(all().reserved_bytes, 0u);
}

TEST_F(RecordStream, GivesTheBlockOutAgainAfterwards) {
  Gate gate;
  close(gate, other_);
  void* const block = allocate(bytes);
  allocator_.record_stream(block, other_);
  free(block);
  gate.open();
  other_.synchronize();
  EXPECT_TRUE(gives_out_again(block));
}

TEST_F(RecordStream, DoesNotWaitForWorkGivenToTheStreamAfterTheFree) {
  void* const block = allocate(bytes);
  allocator_.record_stream(block, other_);
  free(block);
  other_.synchronize();
  Gate gate(reprise::test::by_steps_too);
  close(gate, other_);
  EXPECT_TRUE(gives_out_again(block));
  gate.open();
  other_.synchronize();
}

TEST_F(RecordStream, WaitsForAllStreamsThatWereNamed) {
  const Stream third(device_);
  Gate gate, second_gate;
  close(gate, other_);
  close(second_gate, third);
  void* const block = allocate(bytes);
  allocator_.record_stream(block, other_);
  allocator_.record_stream(block, third);
  free(block);
  gate.open();
  other_.synchronize();
  EXPECT_FALSE(gives_out_again(block));
  second_gate.open();
  third.synchronize();
  EXPECT_TRUE(gives_out_again(block));
}

TEST_F(RecordStream, OfTheBlocksOwnStreamDoesNothing) {
  Gate gate(reprise::test::by_steps_too);
  close(gate, stream_);
  void* const block = allocate(bytes);
  allocator_.record_stream(block, stream_);
  free(block);
  EXPECT_TRUE(gives_out_again(block));
  gate.open();
  stream_.synchronize();
}

TEST_F(RecordStream, OfTheLegacyStreamByItsOtherHandleIsTheSameStream) {
  void* const block = allocate(bytes, device_.default_stream());
  allocator_.record_stream(block, StreamRef(device_, reinterpret_cast<StreamHandle>(0x1)));
  backend_.forget_calls();
  free(block);
  EXPECT_EQ(backend_.calls(Call::event_record), 0);
}

TEST_F(RecordStream, TwiceForTheSameStreamRecordsOneEvent) {
  void* const block = allocate(bytes);
  allocator_.record_stream(block, other_);
  allocator_.record_stream(block, other_);
  backend_.forget_calls();
  free(block);
  EXPECT_EQ(backend_.calls(Call::event_record), 1);
  other_.synchronize();
}

TEST_F(RecordStream, UsesItsEventsAgain) {
  for (int i = 0; i < 3; ++i) {
    void* const block = allocate(bytes);
    allocator_.record_stream(block, other_);
    free(block);
    other_.synchronize();
    allocator_.empty_cache();
  }
  EXPECT_EQ(backend_.calls(Call::event_create), 1);
}

TEST_F(RecordStream, OfAStreamOfAnotherDeviceWaitsForItToo) {
  const Device elsewhere(new_device());
  const Stream theirs(elsewhere);
  Gate gate;
  close(gate, theirs);
  void* const block = allocate(bytes);
  allocator_.record_stream(block, theirs);
  free(block);
  EXPECT_FALSE(gives_out_again(block));
  gate.open();
  theirs.synchronize();
  EXPECT_TRUE(gives_out_again(block));
}

TEST_F(RecordStream, OfABlockThatIsNotInUseIsRefused) {
  void* const block = allocate(bytes);
  free(block);
  const std::string text = text_of<UsageError>([&] { allocator_.record_stream(block, other_); });
  EXPECT_THAT(text, HasSubstr("call it before the block is freed"));
  EXPECT_THAT(text, ::testing::Not(HasSubstr("free each block once"))) << "advice for deallocate()";
  int on_host = 0;
  EXPECT_THROW(allocator_.record_stream(&on_host, other_), UsageError);
  EXPECT_TRUE(gives_out_again(block));
}

TEST_F(RecordStream, ABlockThatIsHeldBackCannotBeFreedAgain) {
  Gate gate;
  close(gate, other_);
  void* const block = allocate(bytes);
  allocator_.record_stream(block, other_);
  free(block);
  EXPECT_THROW(free(block), UsageError);
  EXPECT_EQ(all().allocations, 0u);
  gate.open();
  other_.synchronize();
}

TEST_F(RecordStream, TheBlockIsForgottenWithItsFree) {
  void* const block = allocate(bytes);
  allocator_.record_stream(block, other_);
  free(block);
  other_.synchronize();
  ASSERT_EQ(allocate(bytes), block);
  Gate gate(reprise::test::by_steps_too);
  close(gate, other_);
  free(block);
  EXPECT_TRUE(gives_out_again(block));
  gate.open();
  other_.synchronize();
}

TEST_F(RecordStream, EmptyCacheKeepsWhatIsHeldBack) {
  Gate gate;
  close(gate, other_);
  void* const block = allocate(bytes);
  allocator_.record_stream(block, other_);
  free(block);
  allocator_.empty_cache();
  EXPECT_EQ(all().reserved_bytes, bytes);
  gate.open();
  other_.synchronize();
  allocator_.empty_cache();
  EXPECT_EQ(all().reserved_bytes, 0u);
}

TEST_F(RecordStream, InACaptureTheBlockIsHeldUntilNoCaptureIsUnderway) {
  const OpenPool pool(allocator_);
  const PoolCapture capture(allocator_, pool.id(), stream_);
  void* const block = allocate(bytes);
  allocator_.record_stream(block, other_);
  backend_.forget_calls();
  free(block);
  EXPECT_FALSE(gives_out_again(block));
  EXPECT_EQ(backend_.calls(Call::event_record), 0);
  EXPECT_TRUE(capture.is_whole());
}

/// A block that a stream of another device uses, and captures of that stream by another thread.
class RecordStreamOfAnotherDevice : public RecordStream {
 protected:
  /// Runs `call`, which records an event on the stream. Another thread begins to capture right between the query
  /// whether the stream captures and the record. True if its capture is whole after the call.
  template <class F>
  bool leaves_a_capture_whole(const F& call) {
    std::promise<void> begun, called;
    std::thread capturing;
    bool whole = false;
    second_.after(Call::stream_is_capturing, [&] {
      capturing = std::thread([&] {
        const captures::Registration registered(used_, options_, {});
        const RawCapture capture(used_, CaptureMode::thread);
        begun.set_value();
        called.get_future().wait();
        whole = capture.is_whole();
      });
      begun.get_future().wait_for(std::chrono::milliseconds(50));
    });
    call();
    called.set_value();
    if (!capturing.joinable()) return false;  // nothing was queried
    capturing.join();
    return whole;
  }
  void* used_block() {
    void* const block = allocate(bytes);
    allocator_.record_stream(block, used_);
    return block;
  }

  const GraphOptions options_{.capture_error_mode = CaptureMode::thread};
  FaultyBackend& second_ = new_device();
  const Stream used_{Device(second_)};
};

TEST_F(RecordStreamOfAnotherDevice, ACaptureThatBeginsWithTheFreeGetsNoEvent) {
  void* const block = used_block();
  EXPECT_TRUE(leaves_a_capture_whole([&] { free(block); }));
}

TEST_F(RecordStreamOfAnotherDevice, ACaptureThatBeginsWithTheDeferredRecordGetsNoEvent) {
  void* const block = used_block();
  {
    const captures::Registration registered(used_, options_, {});
    const RawCapture capture(used_, CaptureMode::thread);
    second_.forget_calls();
    free(block);
    EXPECT_EQ(second_.calls(Call::event_record), 0);
  }
  EXPECT_TRUE(leaves_a_capture_whole([&] { free(allocate(512)); }));
  free(allocate(512));
  used_.synchronize();
  EXPECT_TRUE(gives_out_again(block));
}

TEST_F(RecordStream, AfterTheCaptureTheBlockIsFreeInItsPool) {
  OpenPool pool(allocator_);
  {
    const PoolCapture capture(allocator_, pool.id(), stream_);
    void* const block = allocate(bytes);
    allocator_.record_stream(block, other_);
    free(block);
  }
  free(allocate(512));  // records the event
  other_.synchronize();
  pool.close();
  EXPECT_EQ(allocator_.statistics(pool.id()).reserved_bytes, 0u);
}

TEST_F(RecordStream, BreaksNoCaptureThatOthersMakeOfTheRecordedStream) {
  void* const block = allocate(bytes);
  allocator_.record_stream(block, other_);
  {
    const RawCapture capture(other_);
    free(block);
    EXPECT_FALSE(gives_out_again(block));
    EXPECT_TRUE(capture.is_whole());
  }
  free(allocate(512));  // records the event
  other_.synchronize();
  EXPECT_TRUE(gives_out_again(block));
}

TEST_F(RecordStream, BreaksNoCaptureOfABlockingStreamWhenTheLegacyStreamWasRecorded) {
  const Stream blocking(device_, StreamOptions{.blocking = true});
  void* const block = allocate(bytes);
  allocator_.record_stream(block, device_.default_stream());
  {
    const RawCapture capture(blocking);
    free(block);
    EXPECT_FALSE(gives_out_again(block));
    EXPECT_TRUE(capture.is_whole());
  }
  free(allocate(512));  // records the event
  device_.default_stream().synchronize();
  EXPECT_TRUE(gives_out_again(block));
}

TEST_F(RecordStream, ABlockWhoseEventCannotBeRecordedIsReportedAndKeptUntilItCan) {
  for (const Call call : {Call::event_create, Call::event_record}) {
    const Warnings warnings;
    requests_ = 0;  // each request is a try
    void* const block = allocate(bytes);
    allocator_.record_stream(block, other_);
    for (const int passed : {0, 1, 2}) backend_.fail(call, ErrorCode::launch_failure, passed);
    free(block);  // tries twice
    EXPECT_FALSE(gives_out_again(block));
    ASSERT_EQ(warnings.texts().size(), 1u) << "each try is reported";
    EXPECT_THAT(warnings.texts()[0], HasSubstr(cuda_name(call)));
    EXPECT_TRUE(gives_out_again(block));
  }
}

TEST_F(RecordStream, ABlockWhoseEventCannotBeAskedIsReportedOnceAndAskedAgain) {
  const Warnings warnings;
  void* const block = allocate(bytes);
  allocator_.record_stream(block, other_);
  for (const int passed : {0, 1}) backend_.fail(Call::event_query, ErrorCode::launch_failure, passed);
  free(block);  // queries once
  EXPECT_FALSE(gives_out_again(block));
  ASSERT_EQ(warnings.texts().size(), 1u);
  EXPECT_THAT(warnings.texts()[0], HasSubstr("cuEventQuery"));
  other_.synchronize();
  EXPECT_TRUE(gives_out_again(block));
}

TEST_F(RecordStream, ABlockWhoseEventACaptureGotHoldOfIsKeptAndReportedOnce) {
  const Warnings warnings;
  Gate gate;
  close(gate, other_);
  void* const block = allocate(bytes);
  allocator_.record_stream(block, other_);
  free(block);
  backend_.fail(Call::event_query, ErrorCode::captured_event);
  EXPECT_FALSE(gives_out_again(block));
  ASSERT_EQ(warnings.texts().size(), 1u);
  EXPECT_THAT(warnings.texts()[0], HasSubstr("cuEventQuery"));
  gate.open();
  other_.synchronize();
  EXPECT_FALSE(gives_out_again(block));
  EXPECT_EQ(warnings.texts().size(), 1u);
}

/// CUDA does not define what a query of a destroyed stream does: the driver crashes.
class RecordOfDestroyedStream : public RecordStream {
 protected:
  void SetUp() override {
    if (device_.type() != DeviceType::host) GTEST_SKIP() << "undefined in CUDA";
  }
};

TEST_F(RecordOfDestroyedStream, HoldsTheBlockUntilTheCacheIsEmptied) {
  void* const block = allocate(bytes);
  free(record_on_destroyed_stream(block));
  EXPECT_FALSE(gives_out_again(block)) << "its work may still run";
  {
    const OpenPool pool(allocator_);
    const PoolCapture capture(allocator_, pool.id(), stream_);
    allocator_.empty_cache();
    EXPECT_TRUE(capture.is_whole()) << "the wait for the device would break it";
  }
  allocator_.empty_cache();
  EXPECT_EQ(all().reserved_bytes, 0u);
}

TEST_F(RecordOfDestroyedStream, IsNeverQueriedAgain) {
  void* const block = allocate(bytes);
  free(record_on_destroyed_stream(block));
  backend_.forget_calls();
  EXPECT_FALSE(gives_out_again(block));
  allocator_.empty_cache();
  EXPECT_EQ(all().reserved_bytes, 0u);
  EXPECT_EQ(backend_.calls(Call::stream_is_capturing), 0);
}

TEST_F(RecordOfDestroyedStream, AScopeOfACaptureQueriesNoStreamOfABlockThatWasFreedInTheOneBefore) {
  const OpenPool pool(allocator_);
  void* const block = allocate(bytes);
  record_on_destroyed_stream(block);
  backend_.forget_calls();
  {
    const PoolCapture capture(allocator_, pool.id(), stream_);
    free(block);
  }
  CachingAllocator::of(device_).impl().synchronize_if_no_capture();
  EXPECT_EQ(all().reserved_bytes, 0u);
  EXPECT_EQ(backend_.calls(Call::stream_is_capturing), 0);
}

TEST_F(RecordOfDestroyedStream, ABlockThatIsFreedDuringTheWaitForTheDeviceIsHeldUntilTheNextOne) {
  void *const block = allocate(bytes), *const late = allocate(bytes);
  free(record_on_destroyed_stream(block));
  backend_.after(Call::device_synchronize, [&] { free(record_on_destroyed_stream(late)); });
  allocator_.empty_cache();
  EXPECT_EQ(all().reserved_bytes, bytes) << "work of the stream may have been submitted after the wait began";
  allocator_.empty_cache();
  EXPECT_EQ(all().reserved_bytes, 0u);
}

TEST_F(RecordOfDestroyedStream, HoldsTheBlockUntilTheNextScopeOfACapture) {
  void* const block = allocate(bytes);
  free(record_on_destroyed_stream(block));
  const CUDAGraph graph = capture({.stream = stream_.ref(), .allow_empty = true}, [] {});
  EXPECT_EQ(all().reserved_bytes, 0u);
}

TEST_F(RecordStream, AStreamThatIsDestroyedBeforeTheFreeIsStillWaitedFor) {
  Gate gate;
  void* const block = allocate(bytes);
  {
    const Stream short_lived(device_);
    close(gate, short_lived);
    allocator_.record_stream(block, short_lived);
  }
  free(block);
  EXPECT_FALSE(gives_out_again(block));
  gate.open();
  device_.synchronize();
  EXPECT_TRUE(gives_out_again(block));
}

TEST_F(RecordStream, StreamsThatAreDestroyedOneAfterAnotherNeedOneEvent) {
  void* const block = allocate(bytes);
  for (int i = 0; i < 10; ++i) {
    const Stream short_lived(device_);
    allocator_.record_stream(block, short_lived);
    short_lived.synchronize();
  }
  EXPECT_EQ(backend_.calls(Call::event_create), 1);
  free(block);
}

// Blocks of the per-thread default stream, which is another one on each thread.
class BlocksOfThePerThreadStream : public MemoryTest {
 protected:
  const StreamRef mine_{device_, reinterpret_cast<StreamHandle>(std::uintptr_t{2})};
};

TEST_F(BlocksOfThePerThreadStream, AreNotReusedByAnotherThread) {
  std::byte* const block = allocate(bytes, mine_);
  free(block);
  std::byte* of_another = nullptr;
  std::thread([&] {
    of_another = allocate(bytes, mine_);
    free(of_another);
  }).join();
  EXPECT_NE(of_another, block);
  EXPECT_EQ(allocate(bytes, mine_), block);
  free(block);
}

TEST_F(BlocksOfThePerThreadStream, AreNotReusedByALaterThread) {
  const auto allocate_on_a_thread = [&] {
    std::byte* block = nullptr;
    std::thread([&] {
      block = allocate(bytes, mine_);
      free(block);
    }).join();
    return block;
  };
  EXPECT_NE(allocate_on_a_thread(), allocate_on_a_thread());
}

TEST_F(BlocksOfThePerThreadStream, AreRecordedOnItByTheThreadThatAllocatedThemAlone) {
  std::byte* const block = allocate(bytes, mine_);
  allocator_.record_stream(block, mine_);
  std::thread([&] {
    const std::string text = text_of<UsageError>([&] { allocator_.record_stream(block, mine_); });
    EXPECT_THAT(text, HasSubstr("record_stream() expected a stream whose work every thread can wait for; found the "
                                "per-thread default stream"));
  }).join();
  std::byte* const of_a_stream = allocate(bytes, stream_);
  EXPECT_THROW(allocator_.record_stream(of_a_stream, mine_), UsageError);
  free(of_a_stream);
  free(block);
  EXPECT_EQ(allocate(bytes, mine_), block) << "nothing was recorded";
  free(block);
}

}  // namespace
}  // namespace reprise::memory::test
