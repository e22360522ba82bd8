// SPDX-License-Identifier: Apache-2.0
#include <array>
#include <cstdint>
#include <vector>

#include "reprise/reprise.h"
#include "tests/support/refused.h"

// Wrong arguments of batch.h, on the host device.

namespace reprise::test {
namespace {

class MisusedBatch : public ::testing::Test {
 protected:
  ~MisusedBatch() override { EXPECT_EQ(to_.read(), std::vector<int>(10, 7)) << "no operation of a refused batch ran"; }

  void copy(void* destination, const void* source, std::size_t bytes) {
    copy_batch_async(std::array{CopyOp{to_.data(), from_.data(), 4}, CopyOp{destination, source, bytes}});
  }
  void fill(void* destination, std::size_t bytes, unsigned pattern_bytes = 1) {
    fill_batch_async(std::array{FillOp{to_.data(), 0, 4, 4}, FillOp{destination, 0, pattern_bytes, bytes}});
  }

  const DeviceGuard guard_{Device::parse("host")};
  const Stream stream_;
  const StreamGuard stream_guard_{stream_};
  Buffer<int> to_{std::vector<int>(10, 7)};
  Buffer<int> from_{std::vector<int>(10, 8)};
  std::vector<int> pageable_ = std::vector<int>(10);
  int* const end_ = to_.data() + (std::size_t{1} << 19) - 10;  // ten values before the end of the segment of 2 MiB
};

constexpr std::size_t limit = std::size_t{0x7FFFFFFF} << 14;

TEST_F(MisusedBatch, AddressesThatKernelsCannotUseAreRefused) {
  expect_refused({
      {[&] { copy(nullptr, from_.data(), 4); }, "the destination of operation 1 is null"},
      {[&] { copy(to_.data(), nullptr, 4); }, "the source of operation 1 is null"},
      {[&] { copy(pageable_.data(), from_.data(), 4); }, "the destination of operation 1 is pageable memory"},
      {[&] { copy(to_.data(), pageable_.data(), 4); }, "the source of operation 1 is pageable memory"},
      {[&] { fill(nullptr, 4); }, "the destination of operation 1 is null"},
      {[&] { fill(pageable_.data(), 4); }, "the destination of operation 1 is pageable memory"},
  });
}

TEST_F(MisusedBatch, SizesThatWrapOrThatNoGridCanHaveAreRefused) {
  expect_refused({
      {[&] { copy(to_.data(), from_.data(), SIZE_MAX); }, "copy_batch_async expected at most 35184372072448 bytes"},
      {[&] { copy(to_.data(), from_.data(), SIZE_MAX - 7); }, "operation 1 has 18446744073709551608 bytes"},
      {[&] { copy(to_.data(), from_.data(), std::size_t{1} << 50); }, "has 1125899906842624 bytes"},
      {[&] { copy(to_.data(), from_.data(), limit + 1); }, "which a grid can have"},
      {[&] { fill(to_.data(), SIZE_MAX); }, "fill_batch_async expected at most 35184372072448 bytes"},
      {[&] { fill(to_.data(), std::size_t{1} << 50); }, "has 1125899906842624 bytes"},
      {[&] { make_fill(to_.data(), 1, SIZE_MAX); }, "make_fill expected at most"},
      {[&] { make_fill(to_.data(), 1, SIZE_MAX); },
       "values of 4 bytes each, which end at the last address; found 184467"},
      {[&] { make_fill(to_.data(), 1, SIZE_MAX / 4); }, "make_fill expected at most"},
  });
}

TEST_F(MisusedBatch, OperationsPastTheirMemoryAreRefused) {
  expect_refused({
      {[&] { copy(to_.data(), from_.data(), limit); }, "bytes up to the end of the block of 40 bytes at 0x"},
      {[&] { copy(to_.data(), from_.data(), 44); }, "the destination of operation 1 has 44 bytes"},
      {[&] { copy(end_, from_.data(), std::size_t{2} << 20); }, "the destination of operation 1 has 2097152 bytes"},
      {[&] { copy(end_ - 10, end_, 60); }, "the source of operation 1 has 60 bytes"},
      {[&] { fill(end_, std::size_t{2} << 20); }, "fill_batch_async expected at most"},
  });
}

TEST_F(MisusedBatch, MemoryOfAnotherRuntimeIsRefused) {
  const HostSimulator simulator;
  const Buffer<int> foreign(10, simulator.device().default_stream());
  expect_refused({
      {[&] { copy(foreign.data(), from_.data(), 4); }, "the destination of operation 1 is"},
      {[&] { copy(to_.data(), foreign.data(), 4); }, "the source of operation 1 is"},
      {[&] { fill(foreign.data(), 4); }, "the destination of operation 1 is"},
  });
}

TEST_F(MisusedBatch, PatternsOfOtherSizesAreRefused) {
  expect_refused({
      {[&] { fill(to_.data(), 12, 3); }, "needs patterns of 1, 2, 4 or 8 bytes"},
      {[&] { fill(to_.data(), 16, 0); }, "needs patterns of 1, 2, 4 or 8 bytes"},
      {[&] { fill(to_.data(), 6, 4); }, "multiples"},
      {[&] { fill(reinterpret_cast<char*>(to_.data()) + 1, 4, 4); }, "multiples"},
  });
}

TEST_F(MisusedBatch, NothingIsDoneForNoOperationsAndOperationsOfNoBytes) {
  copy_batch_async({});
  fill_batch_async({});
  copy_batch_async(std::array{CopyOp{nullptr, nullptr, 0}});
  fill_batch_async(std::array{FillOp{nullptr, 0, 1, 0}});
}

}  // namespace
}  // namespace reprise::test
