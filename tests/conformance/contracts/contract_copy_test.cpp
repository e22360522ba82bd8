// SPDX-License-Identifier: Apache-2.0
#include <array>
#include <numeric>

#include "tests/conformance/contracts/contract.h"

namespace reprise::backend::test {
namespace {

class CopyContract : public Contract {
 protected:
  // Small enough that the driver stages it at once, whatever the stream is doing.
  static constexpr std::size_t count = 64;
  using Values = std::array<int, count>;

  static Values numbers(int first) {
    Values values{};
    std::iota(values.begin(), values.end(), first);
    return values;
  }
};
REPRISE_ON_EVERY_DEVICE(CopyContract);

TEST_P(CopyContract, CopiesToTheDeviceOnTheDeviceAndBack) {
  const Values source = numbers(10);
  Values back{};
  int* first = new_memory<int>(count);
  int* second = new_memory<int>(count);
  EXPECT_OK(backend().copy(first, source.data(), sizeof source));
  EXPECT_OK(backend().copy(second, first, sizeof source));
  EXPECT_OK(backend().copy(back.data(), second, sizeof back));
  EXPECT_EQ(back, source);
}

TEST_P(CopyContract, CopiesInTheOrderOfAStream) {
  StreamHandle stream = new_stream();
  const Values source = numbers(20);
  Values back{};
  int* first = new_memory<int>(count);
  int* second = new_memory<int>(count);
  EXPECT_OK(backend().copy_async(first, source.data(), sizeof source, stream));
  EXPECT_OK(launch(stream, Store{}, first + 3, -1));
  EXPECT_OK(backend().copy_async(second, first, sizeof source, stream));
  EXPECT_OK(launch(stream, Store{}, first + 4, -2));
  EXPECT_OK(backend().copy_async(back.data(), second, sizeof back, stream));
  EXPECT_OK(backend().stream_synchronize(stream));
  Values expected = source;
  expected[3] = -1;
  EXPECT_EQ(back, expected);
}

TEST_P(CopyContract, CopiesPartsOfAllocations) {
  const Values source = numbers(0);
  int* device = new_memory<int>(count);
  EXPECT_OK(backend().copy(device + 8, source.data() + 1, 4 * sizeof(int)));
  EXPECT_EQ(read(device + 7, 6), (std::vector<int>{0, 1, 2, 3, 4, 0}));
}

TEST_P(CopyContract, LetsTheCallerChangePageableMemoryAtOnce) {
  StreamHandle stream = new_stream();
  Gate& gate = new_gate(by_steps_too);
  int* device = new_memory<int>(count);
  Values source = numbers(30);
  hold(stream, gate);
  EXPECT_OK(backend().copy_async(device, source.data(), sizeof source, stream));
  source.fill(-1);
  gate.open();
  EXPECT_OK(backend().stream_synchronize(stream));
  EXPECT_EQ(read(device), 30);
  EXPECT_EQ(read(device + count - 1), 93);
}

TEST_P(CopyContract, ReadsPinnedMemoryWhenTheStreamIsThere) {
  StreamHandle stream = new_stream();
  Gate& gate = new_gate(by_steps_too);
  int* device = new_memory<int>();
  int* pinned = new_pinned<int>();
  *pinned = 1;
  hold(stream, gate);
  EXPECT_OK(backend().copy_async(device, pinned, sizeof(int), stream));
  *pinned = 2;
  gate.open();
  EXPECT_OK(backend().stream_synchronize(stream));
  EXPECT_EQ(read(device), 2);
}

TEST_P(CopyContract, CopiesToPinnedMemoryWithoutWaiting) {
  StreamHandle stream = new_stream();
  Gate& gate = new_gate(by_steps_too);
  int* device = new_memory<int>();
  int* pinned = new_pinned<int>();
  hold(stream, gate);
  EXPECT_OK(launch(stream, Store{}, device, 3));
  EXPECT_OK(backend().copy_async(pinned, device, sizeof(int), stream));
  EXPECT_FALSE(gate.is_open());
  gate.open();
  EXPECT_OK(backend().stream_synchronize(stream));
  EXPECT_EQ(*pinned, 3);
}

TEST_P(CopyContract, SynchronousCopiesComeAfterTheWorkOfBlockingStreams) {
  StreamHandle stream = new_stream(StreamFlags::blocking);
  int* device = new_memory<int>();
  for (int i = 0; i < 100; ++i) EXPECT_OK(launch(stream, Add{}, device, 1));
  EXPECT_EQ(read(device), 100);
}

TEST_P(CopyContract, SetsElementsOfOneTwoAndFourBytes) {
  unsigned char* bytes = new_memory<unsigned char>(8);
  std::uint16_t* halves = new_memory<std::uint16_t>(8);
  std::uint32_t* words = new_memory<std::uint32_t>(8);
  EXPECT_OK(backend().set({bytes + 1, 0x11223344, 1, 3}));
  EXPECT_OK(backend().set({halves + 1, 0x11223344, 2, 3}));
  EXPECT_OK(backend().set({words + 1, 0x11223344, 4, 3}));
  EXPECT_EQ(read(bytes, 5), (std::vector<unsigned char>{0, 0x44, 0x44, 0x44, 0}));
  EXPECT_EQ(read(halves, 5), (std::vector<std::uint16_t>{0, 0x3344, 0x3344, 0x3344, 0}));
  EXPECT_EQ(read(words, 5), (std::vector<std::uint32_t>{0, 0x11223344, 0x11223344, 0x11223344, 0}));
}

TEST_P(CopyContract, SetsInTheOrderOfAStream) {
  StreamHandle stream = new_stream();
  int* device = new_memory<int>(2);
  EXPECT_OK(launch(stream, Store{}, device, 1));
  EXPECT_OK(backend().set_async({device, 9, 4, 2}, stream));
  EXPECT_OK(launch(stream, Add{}, device + 1, 1));
  EXPECT_OK(backend().stream_synchronize(stream));
  EXPECT_EQ(read(device, 2), (std::vector<int>{9, 10}));
}

TEST_P(CopyContract, RefusesToSetMisalignedMemory) {
  unsigned char* device = new_memory<unsigned char>(64);
  EXPECT_RESULT(ErrorCode::invalid_value, backend().set({device + 1, 0, 4, 1}));
  EXPECT_RESULT(ErrorCode::invalid_value, backend().set({device + 1, 0, 2, 1}));
  EXPECT_RESULT(ErrorCode::invalid_value, backend().set_async({device + 2, 0, 4, 1}, new_stream()));
  EXPECT_OK(backend().set({device + 2, 0, 2, 1}));
}

TEST_P(CopyContract, RefusesElementsOfOtherSizes) {
  unsigned char* device = new_memory<unsigned char>(64);
  EXPECT_RESULT(ErrorCode::invalid_value, backend().set({device, 0, 3, 1}));
  EXPECT_RESULT(ErrorCode::invalid_value, backend().set({device, 0, 8, 1}));
}

TEST_P(CopyContract, RefusesToSetWhatIsNoDeviceMemory) {
  int on_the_stack = 5;
  EXPECT_RESULT(ErrorCode::invalid_value, backend().set({&on_the_stack, 0, 4, 1}));
  EXPECT_RESULT(ErrorCode::invalid_value, backend().set({nullptr, 0, 4, 1}));
  EXPECT_EQ(on_the_stack, 5);
}

TEST_P(CopyContract, RefusesToGoPastTheEndOfAnAllocation) {
  constexpr std::size_t bytes = std::size_t{4} << 20;  // the driver looks at its own blocks, which are coarse
  int* small = new_memory<int>(16);
  char* large = new_memory<char>(2 * bytes);
  EXPECT_RESULT(ErrorCode::invalid_value, backend().copy(small, large, bytes));
  EXPECT_RESULT(ErrorCode::invalid_value, backend().set({small, 1, 1, bytes}));
  EXPECT_EQ(read(small), 0) << "nothing was written";
}

TEST_P(CopyContract, RefusesNullPointers) {
  int* device = new_memory<int>();
  EXPECT_RESULT(ErrorCode::invalid_value, backend().copy(nullptr, device, 4));
  EXPECT_RESULT(ErrorCode::invalid_value, backend().copy_async(device, nullptr, 4, new_stream()));
}

TEST_P(CopyContract, CopiesAndSetsNothingSuccessfully) {
  int* device = new_memory<int>();
  int value = 3;
  EXPECT_OK(backend().copy(device, &value, 0));
  EXPECT_OK(backend().set({device, 1, 1, 0}));
  EXPECT_OK(backend().copy_async(device, &value, 0, new_stream()));
  EXPECT_EQ(read(device), 0);
}

}  // namespace
}  // namespace reprise::backend::test
