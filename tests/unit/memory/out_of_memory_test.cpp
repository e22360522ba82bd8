// SPDX-License-Identifier: Apache-2.0
#include "memory/lifetime/release_queue.h"
#include "tests/unit/memory/memory_fixture.h"

namespace reprise::memory::test {
namespace {

class OutOfMemory : public MemoryTest {
 protected:
  /// All that is left of the device's memory, but for the last pages, which a GPU does not give out in one piece.
  std::size_t nearly_all() const {
    const std::size_t spared = device_.type() == DeviceType::host ? 0 : 8 * mib;
    return (device_.memory_info().free - spared) / (4 * mib) * (4 * mib);
  }
};

TEST_F(OutOfMemory, IsThrownForMoreThanTheDeviceHas) {
  const MemoryInfo info = device_.memory_info();
  try {
    allocate(info.total + 1);
    FAIL() << "no exception";
  } catch (const OutOfMemoryError& error) {
    EXPECT_EQ(error.statistics().requested, info.total + 1);
    EXPECT_EQ(error.statistics().device_total, info.total);
    EXPECT_EQ(error.statistics().device_free, info.free);
    EXPECT_EQ(error.statistics().reserved, 0u);
    EXPECT_EQ(error.statistics().allocated, 0u);
    EXPECT_EQ(error.statistics().private_pools, 0u);
  }
}

TEST_F(OutOfMemory, IsThrownForMoreThanCanBeAddressed) {
  EXPECT_THROW(allocate(SIZE_MAX), OutOfMemoryError);
  EXPECT_THROW(allocate(SIZE_MAX - 4096), OutOfMemoryError);
}

TEST_F(OutOfMemory, LeavesTheAllocatorUsable) {
  void* const block = allocate(1000);
  EXPECT_THROW(allocate(device_.memory_info().total), OutOfMemoryError);
  EXPECT_EQ(all().allocated_bytes, 1024u);
  void* const another = allocate(1000);
  free(block);
  free(another);
}

TEST_F(OutOfMemory, SaysWhoHoldsWhatAndWhatToDo) {
  const OpenPool pool(allocator_);
  void* in_graph = nullptr;
  {
    const PoolCapture capture(allocator_, pool.id(), stream_);
    in_graph = allocate(30 * mib);
  }
  void* const eager = allocate(12 * mib);
  const std::string text = text_of<OutOfMemoryError>([&] { allocate(device_.memory_info().total); });
  EXPECT_THAT(text, HasSubstr("out of memory on " + device_.str()));
  EXPECT_THAT(text, HasSubstr("default pool: 12.0 MiB, 12.0 MiB of it in use"));
  EXPECT_THAT(text, HasSubstr("private pool " + pool_id_text(pool.id()) + ": 30.0 MiB, 30.0 MiB of it in use"));
  EXPECT_THAT(text, HasSubstr("Free buffers"));
  free(in_graph);
  free(eager);
}

TEST_F(OutOfMemory, CountsThePrivatePools) {
  const OpenPool pool(allocator_);
  {
    const PoolCapture capture(allocator_, pool.id(), stream_);
    free(allocate(30 * mib));
  }
  try {
    allocate(device_.memory_info().total);
    FAIL() << "no exception";
  } catch (const OutOfMemoryError& error) {
    EXPECT_EQ(error.statistics().private_pools, 30 * mib);
    EXPECT_EQ(error.statistics().reserved, 30 * mib);
  }
}

TEST_F(OutOfMemory, CachedMemoryIsReleasedFirst) {
  const std::size_t most = nearly_all();
  free(allocate(most));
  EXPECT_EQ(all().reserved_bytes, most);
  void* const block = allocate(most / 2 + 2 * mib, other_);
  EXPECT_EQ(all().segments, 1u);
  free(block);
}

TEST_F(OutOfMemory, MemoryThatIsInUseIsNotReleased) {
  const std::size_t most = nearly_all();
  void* const block = allocate(most);
  EXPECT_THROW(allocate(12 * mib), OutOfMemoryError);
  EXPECT_EQ(all().allocated_bytes, most);
  free(block);
  free(allocate(12 * mib));
}

TEST_F(OutOfMemory, APoolThatAGraphHoldsIsNotReleased) {
  const std::size_t most = nearly_all();
  OpenPool pool(allocator_);
  {
    const PoolCapture capture(allocator_, pool.id(), stream_);
    free(allocate(most));
  }
  EXPECT_THROW(allocate(12 * mib), OutOfMemoryError);
  pool.close();
  free(allocate(12 * mib));
}

TEST_F(OutOfMemory, APoolWhoseLastBlockOutlivedItsGraphIsReleased) {
  const std::size_t most = nearly_all();
  OpenPool pool(allocator_);
  void* block = nullptr;
  {
    const PoolCapture capture(allocator_, pool.id(), stream_);
    block = allocate(most);
  }
  pool.close();
  EXPECT_THROW(allocate(12 * mib), OutOfMemoryError);
  free(block);
  free(allocate(12 * mib));
}

TEST_F(OutOfMemory, WhatDestroyedGraphsLeftInTheReleaseQueueIsReleasedFirst) {
  const std::size_t most = nearly_all();
  auto pool = std::make_shared<OpenPool>(allocator_);
  {
    const PoolCapture capture(allocator_, pool->id(), stream_);
    free(allocate(most));
  }
  auto resources = std::make_unique<memory::ReleaseQueue::Resources>();
  resources->push_back(std::move(pool));
  memory::ReleaseQueue::push(std::move(resources));
  EXPECT_NO_THROW(free(allocate(12 * mib)));
}

TEST_F(OutOfMemory, WaitsForBlocksThatAreHeldBackForOtherStreams) {
  const std::size_t most = nearly_all();
  void* const block = allocate(most);
  allocator_.record_stream(block, other_);
  for (int i = 0; i < 100; ++i) fill_async(block, 1, 1 * mib, other_);
  free(block);
  void* const next = allocate(12 * mib);
  EXPECT_TRUE(other_.query());
  free(next);
}

TEST_F(OutOfMemory, InACaptureIsOutOfMemoryAndTheCaptureStaysAsItWas) {
  const OpenPool pool(allocator_);
  for (const auto mode : {CaptureMode::global, CaptureMode::thread, CaptureMode::relaxed}) {
    const PoolCapture capture(allocator_, pool.id(), stream_, mode);
    EXPECT_THAT(text_of<OutOfMemoryError>([&] { allocate(device_.memory_info().total + 1); }),
                HasSubstr("in a capture"));
    EXPECT_TRUE(capture.is_whole());
    free(allocate(1000));
  }
}

TEST_F(OutOfMemory, IsRequestedOnceMoreAfterTheCacheWasReleased) {
  backend_.fail(Call::memory_allocate, ErrorCode::out_of_memory);
  void* const block = allocate(1000);
  EXPECT_NE(block, nullptr);
  EXPECT_EQ(backend_.calls(Call::memory_allocate), 2);
  free(block);
}

TEST_F(OutOfMemory, AnotherErrorOfTheDriverIsABackendError) {
  backend_.fail(Call::memory_allocate, ErrorCode::launch_failure);
  try {
    allocate(1000);
    FAIL() << "no exception";
  } catch (const BackendError& error) {
    EXPECT_EQ(error.code(), ErrorCode::launch_failure);
    EXPECT_EQ(error.call(), "cuMemAlloc");
  }
  EXPECT_EQ(all().reserved_bytes, 0u);
  free(allocate(1000));
}

}  // namespace
}  // namespace reprise::memory::test
