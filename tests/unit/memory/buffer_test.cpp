// SPDX-License-Identifier: Apache-2.0
#include <numeric>

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
    buffer.copy_to(values, stream_);
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
  EXPECT_NO_THROW(buffer.copy_from({}, stream_));
  EXPECT_NO_THROW(buffer.copy_to({}, stream_));
  EXPECT_NO_THROW(buffer.fill_bytes(0, stream_));
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
  buffer.fill_bytes(0xFF, stream_);
  EXPECT_EQ(read(buffer), std::vector<int>(10, -1));
}

TEST_F(BufferTest, CopiesToAndFromAHostArrayOfAnotherSizeAreRefused) {
  std::vector<int> values = numbers(10);
  Buffer<int> buffer(std::span<const int>(values), stream_);
  std::vector<int> fewer(9);
  EXPECT_THAT(text_of<UsageError>([&] { buffer.copy_from(fewer, stream_); }), HasSubstr("of 10 values"));
  EXPECT_THAT(text_of<UsageError>([&] { buffer.copy_to(fewer, stream_); }), HasSubstr("found 9"));
  EXPECT_EQ(read(buffer), values);
}

TEST_F(BufferTest, OfMoreBytesThanCanBeCountedIsRefused) {
  EXPECT_THROW(Buffer<int>(SIZE_MAX / 2, stream_), UsageError);
}

TEST_F(BufferTest, OfMoreThanTheDeviceHasIsOutOfMemory) {
  EXPECT_THROW(Buffer<char>(device_.memory_info().total + 1, stream_), OutOfMemoryError);
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
  buffer.copy_to(back);
  stream_.synchronize();
  EXPECT_EQ(back, values);
}

TEST_F(BufferTest, ACopyToMemoryThatIsNotThereIsABackendError) {
  std::vector<char> values(512);
  try {
    copy_async(nullptr, values.data(), 512, stream_);
    FAIL() << "no exception";
  } catch (const BackendError& error) {
    EXPECT_EQ(error.code(), Result::invalid_value);
  }
  EXPECT_THROW(fill_async(nullptr, 0, 512, stream_), BackendError);
  const Buffer<char> buffer(512, stream_);
  EXPECT_NO_THROW(copy_async(buffer.data(), values.data(), 512, stream_));
  stream_.synchronize();
}

}  // namespace
}  // namespace reprise::memory::test
