// SPDX-License-Identifier: Apache-2.0
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstring>
#include <numeric>
#include <random>
#include <vector>

#include "backend/own_kernels.h"
#include "kernels/batch_kernels.h"
#include "reprise/reprise.h"
#include "tests/support/faulty_backend.h"
#include "tests/unit/graph/graph_fixture.h"

// Batches of copies and fills, on the default device.

namespace reprise::memory::test {
namespace {

using graphs::test::contains;
using graphs::test::text_of;
using Bytes = std::vector<unsigned char>;

Bytes random_bytes(std::size_t count, unsigned seed) {
  std::mt19937 random(seed);
  Bytes bytes(count);
  for (auto& byte : bytes) byte = static_cast<unsigned char>(random());
  return bytes;
}

class Batch : public ::testing::Test {
 protected:
  static Bytes read(const Buffer<unsigned char>& buffer) {
    Bytes bytes(buffer.size());
    buffer.read_async(bytes);
    current_stream().synchronize();
    return bytes;
  }
  static Buffer<unsigned char> zeros(std::size_t bytes) {
    Buffer<unsigned char> buffer(bytes);
    buffer.fill_bytes_async(0);
    return buffer;
  }

  Stream stream_;
  StreamGuard guard_{stream_};
};

TEST_F(Batch, CopiesEveryOperation) {
  const Bytes values = random_bytes(100'000, 1);
  const Buffer<unsigned char> from{std::span<const unsigned char>(values)};
  Buffer<unsigned char> to = zeros(values.size());
  const std::size_t cuts[] = {0, 16, 1024, 1040, 50'000, 50'016, 100'000};
  std::vector<CopyOp> batch;
  for (std::size_t i = 0; i + 1 < std::size(cuts); ++i)
    batch.push_back({to.data() + cuts[i], from.data() + cuts[i], cuts[i + 1] - cuts[i]});
  copy_batch_async(batch);
  EXPECT_EQ(read(to), values);
}

TEST_F(Batch, CopiesAtAnyAlignmentAndNothingBeside) {
  const Bytes values = random_bytes(4096, 2);
  const Buffer<unsigned char> from{std::span<const unsigned char>(values)};
  for (const std::size_t source : {0U, 1U, 4U, 8U, 15U})
    for (const std::size_t destination : {0U, 1U, 4U, 7U, 12U})
      for (const std::size_t bytes : {1U, 3U, 16U, 17U, 255U, 1000U}) {
        Buffer<unsigned char> to = zeros(2048);
        const CopyOp op{to.data() + destination, from.data() + source, bytes};
        copy_batch_async({&op, 1});
        Bytes expected(2048, 0);
        std::memcpy(expected.data() + destination, values.data() + source, bytes);
        ASSERT_EQ(read(to), expected) << source << " to " << destination << ", " << bytes << " bytes";
      }
}

TEST_F(Batch, OneOperationMayBeOfManyChunks) {
  const Bytes values = random_bytes(5 * batch_chunk_bytes + 13, 3);
  const Buffer<unsigned char> from{std::span<const unsigned char>(values)};
  Buffer<unsigned char> to = zeros(values.size());
  const CopyOp op{to.data(), from.data(), values.size()};
  copy_batch_async({&op, 1});
  EXPECT_EQ(read(to), values);
}

TEST_F(Batch, MoreOperationsThanAKernelTakesAreSeveralNodes) {
  constexpr std::size_t count = 2 * batch_ops_per_kernel + 5;
  const Bytes values = random_bytes(count * 3, 4);
  const Buffer<unsigned char> from{std::span<const unsigned char>(values)};
  Buffer<unsigned char> to = zeros(values.size());
  std::vector<CopyOp> batch;
  for (std::size_t i = 0; i < count; ++i) batch.push_back({to.data() + 3 * i, from.data() + 3 * i, 3});
  CUDAGraph graph;
  capture(graph, [&] { copy_batch_async(batch); });
  EXPECT_EQ(graph.node_count(), 3U);
  EXPECT_EQ(read(to), Bytes(values.size(), 0)) << "a capture executes nothing";
  graph.replay();
  EXPECT_EQ(read(to), values);
}

TEST_F(Batch, AsManyOperationsAsAKernelTakesAreOneNode) {
  const Buffer<unsigned char> from(2 * batch_ops_per_kernel), to(2 * batch_ops_per_kernel);
  std::vector<CopyOp> batch;
  for (std::size_t i = 0; i < from.size(); ++i) batch.push_back({to.data() + i, from.data() + i, 1});
  CUDAGraph graph;
  capture(graph, [&] { copy_batch_async(batch); });
  EXPECT_EQ(graph.node_count(), 2U);
}

TEST_F(Batch, ACaptureMakesOneNodeThatEachReplayRunsAgain) {
  Bytes values = random_bytes(3000, 5);
  Buffer<unsigned char> from{std::span<const unsigned char>(values)};
  Buffer<unsigned char> to = zeros(values.size());
  const CopyOp batch[] = {{to.data(), from.data(), 1000}, {to.data() + 1000, from.data() + 1000, 2000}};
  CUDAGraph graph;
  capture(graph, [&] { copy_batch_async(batch); });
  EXPECT_EQ(graph.node_count(), 1U);
  for (unsigned seed = 6; seed < 8; ++seed) {
    values = random_bytes(3000, seed);
    from.write_async(values);
    graph.replay();
    EXPECT_EQ(read(to), values);
  }
}

TEST_F(Batch, OperationsWithoutBytesMayHaveNullAddresses) {
  copy_batch_async({});
  fill_batch_async({});
  const CopyOp copy{};
  copy_batch_async({&copy, 1});
  CUDAGraph graph;
  GraphOptions options;
  options.allow_empty = true;
  capture(graph, options, [&] { copy_batch_async({&copy, 1}); });
  EXPECT_EQ(graph.node_count(), 0U);
}

template <class T>
class BatchOfFills : public Batch {};
using Patterns = ::testing::Types<std::uint8_t, std::uint16_t, float, double>;
TYPED_TEST_SUITE(BatchOfFills, Patterns);

TYPED_TEST(BatchOfFills, WriteThePatternAndNothingBeside) {
  const auto value = static_cast<TypeParam>(101);
  for (const std::size_t first : {0U, 1U, 3U})
    for (const std::size_t count : {1U, 2U, 7U, 100U, 5000U}) {
      Buffer<TypeParam> buffer(6000);
      buffer.fill_bytes_async(0);
      const FillOp op = make_fill(buffer.data() + first, value, count);
      fill_batch_async({&op, 1});
      std::vector<TypeParam> expected(6000), got(6000);
      std::fill_n(expected.begin() + static_cast<std::ptrdiff_t>(first), count, value);
      buffer.read_async(got);
      current_stream().synchronize();
      ASSERT_EQ(got, expected) << first << ", " << count;
    }
}

TEST_F(Batch, FillsEveryOperationWithItsPattern) {
  Buffer<unsigned char> buffer = zeros(100'000);
  auto* const bytes = buffer.data();
  const FillOp batch[] = {make_fill(bytes, std::uint8_t{7}, 33),
                          make_fill(reinterpret_cast<std::uint32_t*>(bytes + 64), 0x01020304U, 20'000),
                          make_fill(reinterpret_cast<std::uint16_t*>(bytes + 90'000), std::uint16_t{0xABCD}, 3)};
  fill_batch_async(batch);
  const Bytes got = read(buffer);
  EXPECT_EQ(got[32], 7);
  EXPECT_EQ(got[33], 0);
  EXPECT_EQ(got[64], 4);
  EXPECT_EQ(got[64 + 79'999], 1);
  EXPECT_EQ(got[64 + 80'000], 0);
  EXPECT_EQ(got[90'005], 0xAB);
  EXPECT_EQ(got[90'006], 0);
}

TEST_F(Batch, OnlyTheLowBytesOfAPatternCount) {
  Buffer<unsigned char> buffer = zeros(8);
  const FillOp op{buffer.data(), 0xFFFFFFFFFFFFFF05U, 1, 8};
  fill_batch_async({&op, 1});
  EXPECT_EQ(read(buffer), Bytes(8, 5));
}

TEST(BatchWithoutKernels, IsRefusedOnCudaWithWhatToDo) {
  if (backend::own_kernels_unavailable().empty()) GTEST_SKIP() << "nvcc or NVRTC compiled the library's own kernels";
  // Devices live until the process ends.
  static auto& like_cuda = *new backend::test::FaultyBackend(Device::parse("host").backend(), DeviceType::cuda);
  const Stream stream{Device(like_cuda)};
  int value = 0;
  const FillOp op = make_fill(&value, 1, 1);
  EXPECT_TRUE(contains(text_of<UsageError>([&] {
                         fill_batch_async({&op, 1}, stream);
                       }),
                       "build it again with nvcc in PATH, or submit each operation with copy_async() or fill_async()"));
  EXPECT_EQ(value, 0);
}

TEST_F(Batch, PinnedMemoryIsTaken) {
  backend::Backend& backend = default_device().backend();
  void* pinned = nullptr;
  ASSERT_EQ(backend.pinned_allocate(&pinned, 1000), ErrorCode::success);
  const Bytes values = random_bytes(1000, 9);
  std::memcpy(pinned, values.data(), values.size());
  Buffer<unsigned char> buffer = zeros(1000);
  const CopyOp op{buffer.data(), pinned, 1000};
  copy_batch_async({&op, 1});
  EXPECT_EQ(read(buffer), values);
  EXPECT_EQ(backend.pinned_free(pinned), ErrorCode::success);
}

TEST_F(Batch, WhatGoesPastItsBlockIsRefusedAndNothingIsDone) {
  constexpr std::size_t size = 1024;
  Buffer<unsigned char> source = zeros(size), neighbour = zeros(size), destination = zeros(size);
  source.fill_bytes_async(7);
  const CopyOp past{destination.data(), source.data(), size << 10};
  EXPECT_TRUE(contains(text_of<UsageError>([&] {
                         copy_batch_async({&past, 1});
                       }),
                       "up to the end of the block of 1024 bytes at"));
  const CopyOp fits{destination.data(), source.data(), size};
  copy_batch_async({&fits, 1});
  const FillOp fill{destination.data(), 1, 1, size + 1};
  EXPECT_TRUE(contains(text_of<UsageError>([&] {
                         fill_batch_async({&fill, 1});
                       }),
                       "the destination of operation 0 has 1025 bytes"));
  EXPECT_EQ(read(destination), Bytes(size, 7));
  EXPECT_EQ(read(neighbour), Bytes(size, 0));
}

TEST_F(Batch, InACaptureAlsoWhatBeginsWithinABlockIsRefused) {
  Buffer<unsigned char> source = zeros(1024), destination = zeros(1024);
  CUDAGraph graph;
  capture(graph, [&] {
    const CopyOp past{destination.data() + 1000, source.data(), 25};
    EXPECT_TRUE(contains(text_of<UsageError>([&] {
                           copy_batch_async({&past, 1});
                         }),
                         "expected at most 24 bytes up to the end of the block of 1024 bytes"));
    EXPECT_THROW(copy_async(destination.data() + 1000, source.data(), 25), BackendError);
    EXPECT_THROW(copy_async(destination.data(), source.data() + 1000, 25), BackendError);
    EXPECT_THROW(fill_async(destination.data() + 1000, 1, 25), BackendError);
    const CopyOp fits{destination.data() + 1000, source.data(), 24};
    copy_batch_async({&fits, 1});
  });
  graph.replay();
  EXPECT_EQ(read(destination), Bytes(1024, 0));
}

TEST_F(Batch, PlainCopiesAndFillsPastTheirBlockAreRefused) {
  Buffer<unsigned char> source = zeros(1024), neighbour = zeros(1024), destination = zeros(1024);
  EXPECT_TRUE(contains(text_of<BackendError>([&] { copy_async(destination.data(), source.data(), 2000); }),
                       "is byte 0 of a block of 1024 bytes of the caching allocator, and 2000 bytes go past its end"));
  EXPECT_THROW(fill_async(destination.data(), 1, 2000), BackendError);
  EXPECT_EQ(read(destination), Bytes(1024, 0));
  EXPECT_EQ(read(neighbour), Bytes(1024, 0));
}

}  // namespace
}  // namespace reprise::memory::test
