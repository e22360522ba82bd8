// SPDX-License-Identifier: Apache-2.0
#include <cstdint>
#include <set>

#include "tests/conformance/contracts/contract.h"

namespace reprise::backend::test {
namespace {

class MemoryContract : public Contract {};
REPRISE_ON_EVERY_DEVICE(MemoryContract);

TEST_P(MemoryContract, AllocatesAlignedMemoryThatTheDeviceKnows) {
  void* pointer = nullptr;
  ASSERT_OK(backend().memory_allocate(&pointer, 1000));
  EXPECT_EQ(reinterpret_cast<std::uintptr_t>(pointer) % 256, 0U);
  PointerInfo info;
  EXPECT_OK(backend().pointer_info(static_cast<std::byte*>(pointer) + 999, &info));
  EXPECT_EQ(info.kind, MemoryKind::device);
  EXPECT_EQ(info.device_index, backend().index());
  EXPECT_EQ(info.base, pointer);
  EXPECT_EQ(info.bytes, 1000U);
  EXPECT_OK(backend().memory_free(pointer));
}

TEST_P(MemoryContract, GivesDifferentMemoryToEachAllocation) {
  int* first = new_memory<int>(64);
  int* second = new_memory<int>(64);
  EXPECT_TRUE(first + 64 <= second || second + 64 <= first);
}

TEST_P(MemoryContract, RefusesToAllocateNothing) {
  void* pointer = nullptr;
  EXPECT_RESULT(ErrorCode::invalid_value, backend().memory_allocate(&pointer, 0));
  EXPECT_EQ(pointer, nullptr);
}

TEST_P(MemoryContract, IsOutOfMemoryForMoreThanThereIsAndGivesSmallerMemoryAfterwards) {
  MemoryInfo info;
  ASSERT_OK(backend().memory_info(&info));
  void* pointer = nullptr;
  EXPECT_RESULT(ErrorCode::out_of_memory, backend().memory_allocate(&pointer, info.total + 1));
  EXPECT_EQ(pointer, nullptr);
  ASSERT_OK(backend().memory_allocate(&pointer, 1024));
  EXPECT_OK(backend().memory_free(pointer));
}

TEST_P(MemoryContract, CountsWhatIsFree) {
  constexpr std::size_t bytes = std::size_t{64} << 20;
  MemoryInfo before, meanwhile, after;
  ASSERT_OK(backend().memory_info(&before));
  void* pointer = nullptr;
  ASSERT_OK(backend().memory_allocate(&pointer, bytes));
  EXPECT_OK(backend().memory_info(&meanwhile));
  EXPECT_OK(backend().memory_free(pointer));
  EXPECT_OK(backend().memory_info(&after));
  EXPECT_LE(meanwhile.free + bytes, before.free);
  EXPECT_EQ(after.free, before.free);
  EXPECT_EQ(after.total, before.total);
}

TEST_P(MemoryContract, FreesANullPointerByDoingNothing) {
  EXPECT_OK(backend().memory_free(nullptr));
}

TEST_P(MemoryContract, RefusesToFreeWhatItDidNotGive) {
  int* memory = new_memory<int>(512);
  int on_the_stack = 0;
  EXPECT_RESULT(ErrorCode::invalid_value, backend().memory_free(memory + 256));
  EXPECT_RESULT(ErrorCode::invalid_value, backend().memory_free(&on_the_stack));
  EXPECT_EQ(read(memory), 0) << "the block is still there";
}

TEST_P(MemoryContract, RefusesToFreeTwice) {
  void* pointer = nullptr;
  ASSERT_OK(backend().memory_allocate(&pointer, 64));
  EXPECT_OK(backend().memory_free(pointer));
  EXPECT_RESULT(ErrorCode::invalid_value, backend().memory_free(pointer));
}

TEST_P(MemoryContract, WaitsForWorkBeforeItFrees) {
  StreamHandle stream = new_stream();
  Gate& gate = new_gate(by_steps_too);
  int* result = new_memory<int>();
  void* pointer = nullptr;
  // Pages of its own: a small block shares them, and CUDA takes it back without a wait.
  ASSERT_OK(backend().memory_allocate(&pointer, std::size_t{64} << 20));
  function<Store>();  // loading it would wait for the gate
  hold(stream, gate);
  EXPECT_OK(launch(stream, Store{}, static_cast<int*>(pointer), 5));
  EXPECT_OK(backend().copy_async(result, pointer, sizeof(int), stream));
  std::thread opener([&] {
    gate.wait_until_reached();
    gate.open();
  });
  EXPECT_OK(backend().memory_free(pointer));
  EXPECT_TRUE(gate.is_open());
  EXPECT_OK(backend().stream_query(stream)) << "the free waited for all work of the device";
  opener.join();
  EXPECT_EQ(read(result), 5);
}

TEST_P(MemoryContract, AllocatesAndFreesInTheOrderOfAStream) {
  StreamHandle stream = new_stream();
  int* result = new_memory<int>();
  for (int i = 1; i <= 10; ++i) {
    void* pointer = nullptr;
    ASSERT_OK(backend().memory_allocate_async(&pointer, 4096, stream));
    EXPECT_OK(launch(stream, Store{}, static_cast<int*>(pointer), i));
    EXPECT_OK(backend().copy_async(result, pointer, sizeof(int), stream));
    EXPECT_OK(backend().memory_free_async(pointer, stream));
  }
  EXPECT_OK(backend().stream_synchronize(stream));
  EXPECT_EQ(read(result), 10);
}

TEST_P(MemoryContract, FreesAsynchronouslyWithoutWaiting) {
  StreamHandle stream = new_stream();
  Gate& gate = new_gate(by_steps_too);
  int* result = new_memory<int>();
  void* pointer = nullptr;
  ASSERT_OK(backend().memory_allocate_async(&pointer, sizeof(int), stream));
  hold(stream, gate);
  EXPECT_OK(launch(stream, Store{}, static_cast<int*>(pointer), 6));
  EXPECT_OK(backend().copy_async(result, pointer, sizeof(int), stream));
  EXPECT_OK(backend().memory_free_async(pointer, stream));
  EXPECT_FALSE(gate.is_open());
  gate.open();
  EXPECT_OK(backend().stream_synchronize(stream));
  EXPECT_EQ(read(result), 6);
}

TEST_P(MemoryContract, FreesStreamOrderedMemorySynchronouslyToo) {
  StreamHandle stream = new_stream();
  void* pointer = nullptr;
  ASSERT_OK(backend().memory_allocate_async(&pointer, 64, stream));
  EXPECT_OK(backend().stream_synchronize(stream));
  EXPECT_OK(backend().memory_free(pointer));
}

TEST_P(MemoryContract, RefusesToFreeAsynchronouslyWhatItDidNotGive) {
  StreamHandle stream = new_stream();
  int on_the_stack = 0;
  EXPECT_RESULT(ErrorCode::invalid_value, backend().memory_free_async(&on_the_stack, stream));
  EXPECT_OK(backend().memory_free_async(nullptr, stream));
  EXPECT_OK(backend().stream_synchronize(stream));
}

TEST_P(MemoryContract, TrimsThePool) {
  EXPECT_OK(backend().memory_pool_trim(0));
}

TEST_P(MemoryContract, AllocatesPinnedMemoryThatTheHostCanUse) {
  void* pointer = nullptr;
  ASSERT_OK(backend().pinned_allocate(&pointer, 256));
  static_cast<char*>(pointer)[255] = 'x';
  PointerInfo info;
  EXPECT_OK(backend().pointer_info(static_cast<char*>(pointer) + 255, &info));
  EXPECT_EQ(info.kind, MemoryKind::pinned);
  EXPECT_EQ(info.base, pointer);
  EXPECT_EQ(info.bytes, 256U);
  EXPECT_OK(backend().pinned_free(pointer));
}

TEST_P(MemoryContract, RefusesToFreePinnedMemoryThatItDidNotGive) {
  int on_the_stack = 0;
  EXPECT_RESULT(ErrorCode::invalid_value, backend().pinned_free(&on_the_stack));
  EXPECT_OK(backend().pinned_free(nullptr));
}

TEST_P(MemoryContract, NumbersEachAllocationAnewAlsoAtTheSameAddress) {
  std::set<std::uint64_t> ids;
  for (int i = 0; i < 3; ++i) {
    void *device = nullptr, *pinned = nullptr;
    ASSERT_OK(backend().memory_allocate(&device, 4096));
    ASSERT_OK(backend().pinned_allocate(&pinned, 4096));
    for (void* memory : {device, pinned}) {
      PointerInfo begin, inside;
      EXPECT_OK(backend().pointer_info(memory, &begin));
      EXPECT_OK(backend().pointer_info(static_cast<std::byte*>(memory) + 999, &inside));
      EXPECT_EQ(begin.id, inside.id);
      ids.insert(begin.id);
    }
    EXPECT_OK(backend().memory_free(device));
    EXPECT_OK(backend().pinned_free(pinned));
  }
  EXPECT_EQ(ids.size(), 6U);
  EXPECT_EQ(ids.count(0), 0U);
}

TEST_P(MemoryContract, KnowsNothingOfOrdinaryHostMemory) {
  int on_the_stack = 0;
  PointerInfo info;
  EXPECT_OK(backend().pointer_info(&on_the_stack, &info));
  EXPECT_EQ(info.kind, MemoryKind::unregistered);
  EXPECT_EQ(info.device_index, -1);
}

TEST_P(MemoryContract, KnowsNothingOfMemoryThatWasFreed) {
  void* pointer = nullptr;
  ASSERT_OK(backend().memory_allocate(&pointer, 64));
  EXPECT_OK(backend().memory_free(pointer));
  PointerInfo info;
  EXPECT_OK(backend().pointer_info(pointer, &info));
  EXPECT_EQ(info.kind, MemoryKind::unregistered);
}

}  // namespace
}  // namespace reprise::backend::test
