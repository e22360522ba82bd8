// SPDX-License-Identifier: Apache-2.0
#include <numeric>

#include "reprise/capture.h"
#include "tests/unit/memory/memory_fixture.h"

namespace reprise::memory::test {
namespace {

class BufferTest : public MemoryTest {
 protected:
  std::vector<int> numbers(std::size_t n) {
    std::vector<int> values(n);
    std::iota(values.begin(), values.end(), 1);
    return values;
  }
  std::vector<int> read(const Buffer<int>& buffer) {
    std::vector<int> values(buffer.size());
    buffer.read_async(values, stream_);
    stream_.synchronize();
    return values;
  }
};

TEST_F(BufferTest, HoldsAsManyValuesAsWereAskedFor) {
  const Buffer<int> buffer(1000, stream_);
  EXPECT_NE(buffer.data(), nullptr);
  EXPECT_EQ(buffer.size(), 1000u);
  EXPECT_EQ(buffer.size_bytes(), 4000u);
  EXPECT_FALSE(buffer.empty());
  EXPECT_EQ(all().allocated_bytes, 4096u);
}

TEST_F(BufferTest, GivesItsMemoryBackAtItsEnd) {
  { const Buffer<int> buffer(1000, stream_); }
  EXPECT_EQ(all().allocations, 0u);
}

TEST_F(BufferTest, IsEmptyByDefault) {
  const Buffer<int> buffer;
  EXPECT_EQ(buffer.data(), nullptr);
  EXPECT_TRUE(buffer.empty());
}

TEST_F(BufferTest, OfNoValuesIsEmptyAndCanBeCopied) {
  Buffer<int> buffer(0, stream_);
  EXPECT_EQ(buffer.data(), nullptr);
  EXPECT_NO_THROW(buffer.write_async({}, stream_));
  EXPECT_NO_THROW(buffer.read_async({}, stream_));
  EXPECT_NO_THROW(buffer.fill_bytes_async(0, stream_));
  EXPECT_NO_THROW(buffer.record_stream(other_));
  EXPECT_EQ(all().allocations, 0u);
}

TEST_F(BufferTest, GivesBackTheValuesThatItWasGiven) {
  const std::vector<int> values = numbers(1000);
  const Buffer<int> buffer(std::span<const int>(values), stream_);
  EXPECT_EQ(read(buffer), values);
}

TEST_F(BufferTest, CanBeFilled) {
  Buffer<int> buffer(10, stream_);
  buffer.fill_bytes_async(0xFF, stream_);
  EXPECT_EQ(read(buffer), std::vector<int>(10, -1));
}

TEST_F(BufferTest, MovesItsMemory) {
  const std::vector<int> values = numbers(10);
  Buffer<int> from(std::span<const int>(values), stream_);
  const int* const address = from.data();
  Buffer<int> to(std::move(from));
  EXPECT_EQ(to.data(), address);
  EXPECT_TRUE(from.empty());
  EXPECT_EQ(from.data(), nullptr);
  EXPECT_EQ(read(to), values);
  EXPECT_EQ(all().allocations, 1u);
}

TEST_F(BufferTest, MoveAssignmentGivesTheOldMemoryBack) {
  Buffer<int> from(10, stream_);
  Buffer<int> to(10, stream_);
  const int* const address = from.data();
  to = std::move(from);
  EXPECT_EQ(to.data(), address);
  EXPECT_EQ(all().allocations, 1u);
  Buffer<int>& itself = to;
  to = std::move(itself);
  EXPECT_EQ(to.data(), address);
}

TEST_F(BufferTest, ResetGivesItsMemoryBackAndLeavesItUsable) {
  Buffer<int> buffer(10, stream_);
  buffer.reset();
  EXPECT_TRUE(buffer.empty());
  EXPECT_EQ(all().allocations, 0u);
  buffer.reset();
  buffer = Buffer<int>(20, stream_);
  EXPECT_EQ(buffer.size(), 20u);
}

TEST_F(BufferTest, CanBeUsedByAnotherStreamThatIsRecorded) {
  Gate gate;
  close(gate, other_);
  const int* address = nullptr;
  {
    Buffer<int> buffer(10, stream_);
    buffer.record_stream(other_);
    address = buffer.data();
  }
  const Buffer<int> next(10, stream_);
  EXPECT_NE(next.data(), address);
  gate.open();
  other_.synchronize();
}

TEST_F(BufferTest, ItsEndReportsWhatItCannotThrow) {
  const Warnings warnings;
  Buffer<int> buffer(10, stream_);
  free(buffer.data());
  buffer.reset();
  ASSERT_EQ(warnings.texts().size(), 1u);
  EXPECT_THAT(warnings.texts()[0], HasSubstr("freed already"));
}

TEST_F(BufferTest, OnTheCurrentStreamNeedsNoStream) {
  const StreamGuard guard(stream_);
  const std::vector<int> values = numbers(10);
  const Buffer<int> buffer{std::span<const int>(values)};
  EXPECT_EQ(all().allocations, 1u);
  std::vector<int> back(10);
  buffer.read_async(back);
  stream_.synchronize();
  EXPECT_EQ(back, values);
}

TEST_F(BufferTest, ACopyToMemoryThatIsNotThereIsABackendError) {
  std::vector<char> values(512);
  try {
    copy_async(nullptr, values.data(), 512, stream_);
    FAIL() << "no exception";
  } catch (const BackendError& error) {
    EXPECT_EQ(error.code(), ErrorCode::invalid_value);
  }
  EXPECT_THROW(fill_async(nullptr, 0, 512, stream_), BackendError);
  const Buffer<char> buffer(512, stream_);
  EXPECT_NO_THROW(copy_async(buffer.data(), values.data(), 512, stream_));
  stream_.synchronize();
}

// --- read() and write() -------------------------------------------------------------------------------------------

TEST_F(BufferTest, ReadReturnsTheValuesAfterTheWorkOfTheStream) {
  Buffer<int> buffer(3, stream_);
  buffer.fill_bytes_async(0, stream_);
  EXPECT_EQ(buffer.read(stream_), std::vector<int>(3, 0));
  buffer.write(numbers(3), stream_);
  EXPECT_TRUE(stream_.query()) << "write() waits";
  std::vector<int> values(3);
  buffer.read(values, stream_);
  EXPECT_EQ(values, numbers(3));
}

// --- HostBuffer ---------------------------------------------------------------------------------------------------

TEST_F(BufferTest, AHostBufferHoldsZerosAndCanBeWritten) {
  HostBuffer<int> host(4);
  EXPECT_EQ(std::vector<int>(host.begin(), host.end()), std::vector<int>(4, 0));
  EXPECT_EQ(host.size_bytes(), 16U);
  host[2] = 7;
  EXPECT_EQ(host.data()[2], 7);
}

TEST_F(BufferTest, ACapturedCopyReadsAHostBufferInEachReplay) {
  HostBuffer<int> from(std::vector<int>{1, 2, 3}), to(3);
  Buffer<int> buffer(3, stream_);
  CUDAGraph graph = capture(stream_, [&](StreamRef s) {
    buffer.write_async(from, s);
    buffer.read_async(to, s);
  });
  graph.replay(stream_);
  stream_.synchronize();
  EXPECT_EQ(to[1], 2);
  from[1] = 20;
  graph.replay(stream_);
  stream_.synchronize();
  EXPECT_EQ(to[1], 20);
}

TEST_F(BufferTest, AHostBufferCanBeMadeAndFreedInACapture) {
  Buffer<int> buffer(3, stream_);
  CUDAGraph graph = capture(stream_, [&](StreamRef s) {
    buffer.fill_bytes_async(1, s);
    const HostBuffer<int> host(1000);
  });
  EXPECT_EQ(graph.node_count(), 1U);
}

TEST_F(BufferTest, AMovedFromHostBufferIsEmpty) {
  HostBuffer<int> from(4);
  const int* const data = from.data();
  HostBuffer<int> to(std::move(from));
  EXPECT_EQ(to.data(), data);
  EXPECT_TRUE(from.empty());  // NOLINT(bugprone-use-after-move): that is what it looks at
  EXPECT_EQ(from.data(), nullptr);
  to = HostBuffer<int>();
  EXPECT_TRUE(to.empty());
  EXPECT_THROW(HostBuffer<int>(SIZE_MAX / 2), UsageError);
}

}  // namespace
}  // namespace reprise::memory::test
