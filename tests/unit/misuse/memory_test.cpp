// SPDX-License-Identifier: Apache-2.0
#include <array>
#include <cstdint>
#include <span>
#include <utility>
#include <vector>

#include "reprise/reprise.h"
#include "tests/support/refused.h"

// Wrong arguments of memory.h. On the host device, whose texts say more, and which survives wild addresses.

namespace reprise::test {
namespace {

class MisusedMemory : public ::testing::Test {
 protected:
  ~MisusedMemory() override {
    x_.write(std::vector<int>(10, 5));
    EXPECT_EQ(x_.read(), std::vector<int>(10, 5)) << "it can be used after all refusals";
  }

  const Device host_ = Device::parse("host");
  const DeviceGuard guard_{host_};
  const Stream stream_;
  const StreamGuard stream_guard_{stream_};
  Buffer<int> x_{10};
};

constexpr std::size_t huge = SIZE_MAX - 3;
int* const nowhere = nullptr;

TEST_F(MisusedMemory, BuffersOfImpossibleSizesAreRefused) {
  expect_refused({
      {[] { Buffer<int>{huge}; }, "expected a buffer of fewer than 2^64 bytes; found 18446744073709551612 values of 4"},
      {[] { HostBuffer<int>{huge}; }, "expected a buffer of fewer than 2^64 bytes"},
  });
  expect_refused<OutOfMemoryError>({{[] { Buffer<char>{huge}; }, "out of memory"}});
  expect_refused<BackendError>({{[] { HostBuffer<char>{huge}; }, "HostBuffer: cuMemHostAlloc returned 2"}});
}

TEST_F(MisusedMemory, ArraysOfAnotherSizeAreRefused) {
  std::vector<int> nine(9);
  expect_refused({
      {[&] { x_.write(nine); }, "expected a host array of 10 values, as many as the buffer has; found 9"},
      {[&] { x_.read(nine); }, "found 9"},
      {[&] { x_.write_async({}); }, "found 0"},
      {[&] { x_.read_async({}); }, "found 0"},
  });
}

TEST_F(MisusedMemory, AMovedFromBufferIsEmptyAndOnNoDevice) {
  Buffer<int> moved = std::move(x_);
  std::vector<int> ten(10);
  expect_refused({
      {[&] { static_cast<void>(x_.device()); }, "found one that was default-constructed or moved from"},  // NOLINT
      {[&] { x_.write(ten); }, "found 10"},
      {[&] { x_.read(ten); }, "found 10"},
      {[&] { x_.write_async(ten); }, "found 10"},
      {[&] { x_.read_async(ten); }, "found 10"},
  });
  EXPECT_TRUE(x_.read().empty());
  x_.write_async({});
  x_.read_async({});
  x_.fill_bytes_async(0);
  x_.record_stream(stream_);
  x_.reset();
  x_ = std::move(moved);
}

TEST_F(MisusedMemory, ErrorsOfCopiesNameTheCallOfTheUserAndTheUsersBlock) {
  const std::vector<char> bytes(std::size_t{3} << 20);
  const auto too_much = [&](std::size_t count) { copy_async(x_.data(), bytes.data(), count); };
  expect_refused<BackendError>({
      {[&] { too_much(bytes.size()); }, "copy_async: cuMemcpyAsync returned 1"},
      {[&] { too_much(bytes.size()); }, "is byte 0 of a block of 40 bytes of the caching allocator"},
      {[&] { too_much(41); },
       "is byte 0 of a block of 40 bytes of the caching allocator, and 41 bytes go past its end"},
      {[&] { fill_async(x_.data() + 1, 0, bytes.size()); }, "is byte 4 of a block of 40 bytes"},
      {[&] { fill_async(x_.data(), 0, huge); }, "fill_async: cuMemsetD8Async returned 1"},
      {[&] { copy_async(nowhere, bytes.data(), 1); }, "the destination is null"},
      {[&] { copy_async(x_.data(), nowhere, 1); }, "the source is null"},
      {[&] { fill_async(nowhere, 0, 1); }, "the destination is null"},
      {[&] { fill_async(const_cast<char*>(bytes.data()), 0, 1); }, "neither device memory nor pinned memory"},
      {[&] { copy_async(const_cast<char*>(bytes.data()), bytes.data(), huge); }, "which end past the last address"},
  });
  copy_async(nowhere, nowhere, 0);
  fill_async(nowhere, 0, 0);
}

TEST_F(MisusedMemory, ErrorsOfBuffersNameTheirMembers) {
  HostSimulator simulator;
  const Stream foreign(simulator.device());
  std::vector<int> ten(10);
  expect_refused<BackendError>({
      {[&] { x_.write(ten, foreign); }, "Buffer::write: cuMemcpyAsync returned 1"},
      {[&] { x_.write_async(ten, foreign); }, "Buffer::write_async: "},
      {[&] { x_.read(ten, foreign); }, "Buffer::read: "},
      {[&] { x_.read_async(ten, foreign); }, "Buffer::read_async: "},
      {[&] { x_.fill_bytes_async(1, foreign); }, "Buffer::fill_bytes_async: cuMemsetD8Async returned 1"},
      {[&] { fill_async(x_.data(), 1, 4, foreign); }, "fill_async: cuMemsetD8Async returned 1"},
      {[&] { x_.write(ten, foreign); }, "lies in the memory of host:0, which operations of host-simulator:"},
  });
}

TEST_F(MisusedMemory, InACaptureCopiesAreNodesAndThoseThatWaitBreakIt) {
  std::vector<int> ten(10);
  CUDAGraph graph;
  capture(graph, [&] {
    x_.write_async(ten);
    x_.fill_bytes_async(0);
    x_.read_async(ten);
    copy_async(x_.data(), x_.data() + 5, 4);
    fill_async(x_.data(), 0, 4);
  });
  EXPECT_EQ(graph.node_count(), 5U);
  for (const bool writes : {false, true}) {
    CUDAGraph broken;
    broken.capture_begin();
    const auto wait = [&] { writes ? x_.write(ten) : x_.read(ten); };
    EXPECT_THAT(text_of<BackendError>(wait), ::testing::HasSubstr("cuStreamSynchronize returned 900"));
    EXPECT_THROW(broken.capture_end(), CaptureError);
  }
}

TEST_F(MisusedMemory, TheAllocatorRefusesWhatItDidNotReturn) {
  HostSimulator simulator;
  const Stream foreign(simulator.device());
  CachingAllocator& allocator = CachingAllocator::of(host_);
  void* const freed = allocator.allocate(100);
  void* const kept = allocator.allocate(100);
  allocator.deallocate(freed);
  int local = 0;
  expect_refused({
      {[&] { allocator.deallocate(freed); }, "deallocate() expected an address of the allocator of host:0"},
      {[&] { allocator.deallocate(&local); }, "which it never returned"},
      {[&] { allocator.deallocate(static_cast<char*>(kept) + 1); }, "which it never returned"},
      {[&] { allocator.record_stream(&local, stream_); }, "record_stream() expected an address"},
      {[&] { allocator.record_stream(nowhere, stream_); }, "record_stream() expected an address"},
      {[&] { allocator.record_stream(kept, foreign); }, "expected a stream of the same device runtime"},
      {[&] { allocator.allocate(100, foreign); }, "expected a stream of host:0"},
  });
  expect_refused<OutOfMemoryError>({{[&] { allocator.allocate(huge); }, "were requested"}});
  EXPECT_EQ(allocator.allocate(0), nullptr);
  EXPECT_EQ(allocator.statistics(MempoolId{77, 77}).allocations, 0U);
  allocator.deallocate(nullptr);
  allocator.deallocate(kept);
}

}  // namespace
}  // namespace reprise::test
