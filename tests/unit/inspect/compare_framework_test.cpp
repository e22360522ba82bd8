// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <array>
#include <cstdint>
#include <initializer_list>
#include <memory>
#include <vector>

#include "backend/framework.h"
#include "captures/registry.h"
#include "memory/watches/allocation_log.h"
#include "tests/support/scoped_framework.h"
#include "tests/unit/inspect/compare_fixture.h"

// compare() of graphs whose captures allocate memory of a framework.

namespace reprise::inspect::test {
namespace {

using graphs::test::contains;
using graphs::test::text_of;
using ::testing::SizeIs;

constexpr std::size_t n = 128;
constexpr std::size_t block_bytes = n * sizeof(int);
constexpr std::size_t blocks_of_segment = 8;

/// The allocator of a framework: segments of eight blocks, of a pool for each capture, and of one for everything else.
class OtherAllocator {
 public:
  using Block = backend::Framework::Block;

  OtherAllocator() {
    for (void*& segment : segments_)
      backend::Checked(runtime_).memory_allocate(&segment, blocks_of_segment * block_bytes);
  }
  ~OtherAllocator() {
    for (void* const segment : segments_) (void)runtime_.memory_free(segment);
  }

  /// The first block that is free, in the pool of the capture that the current stream is in.
  std::shared_ptr<int> make() {
    const auto capture = captures::find_own(current_stream());
    const MempoolId pool = capture != nullptr ? capture->pool() : MempoolId{};
    auto found = std::ranges::find_if(blocks, [&](const Block& each) { return !each.in_use && each.pool == pool; });
    if (found == blocks.end()) found = add_segment(pool);
    found->in_use = true;
    auto* const memory = reinterpret_cast<int*>(found->address);
    if (logs) memory::AllocationLog::note(pool, memory, block_bytes);
    return {memory, [this, address = found->address](int*) {
              std::ranges::find(blocks, address, &Block::address)->in_use = false;
            }};
  }

  std::vector<Block> blocks;
  bool logs = false;  // allocations in captures

 private:
  std::vector<Block>::iterator add_segment(MempoolId pool) {
    const auto segment = reinterpret_cast<std::uintptr_t>(segments_.at(used_++));
    for (std::size_t i = 0; i < blocks_of_segment; ++i)
      blocks.push_back({segment + i * block_bytes, block_bytes, segment, pool, false});
    return blocks.end() - blocks_of_segment;
  }

  backend::Backend& runtime_ = default_device().backend();
  std::array<void*, 6> segments_ = {};
  std::size_t used_ = 0;
};

class Theirs final : public backend::Framework {
 public:
  explicit Theirs(const OtherAllocator& allocator) : allocator_(allocator) {}
  std::string_view name() const noexcept override { return "theirs"; }
  std::vector<Block> blocks(const Device& device) const override {
    EXPECT_EQ(device, default_device());
    if (refuses) throw UsageError("the allocator of theirs does not say");
    std::vector<Block> blocks = allocator_.blocks;
    std::ranges::sort(blocks, {}, &Block::address);
    return blocks;
  }

  bool refuses = false;

 private:
  const OtherAllocator& allocator_;
};

class CompareOfAFramework : public CompareTest {
 protected:
  using Memory = std::shared_ptr<int>;

  Memory make(int value) {
    Memory made = other_.make();
    set(made, value);
    return made;
  }
  static void set(const Memory& memory, int value) { fill_async(memory.get(), value, block_bytes); }
  static std::vector<int> values(const Memory& memory) {
    std::vector<int> found(n);
    copy_async(found.data(), memory.get(), block_bytes);
    current_stream().synchronize();
    return found;
  }
  static void add_to(const Memory& memory, int amount = 1) { launch(n, Add{}, memory.get(), amount, n); }
  static void multiply(const Memory& from, int factor, const Memory& to) {
    launch(n, Multiply{}, from.get(), factor, to.get(), n);
  }
  /// After it all memory is compared.
  static void unknown_writes() {
    launch_host([] {});
  }

  OtherAllocator other_;
  Theirs theirs_{other_};
  const reprise::test::ScopedFramework scope_{theirs_};
};

TEST_F(CompareOfAFramework, FindsNothingBetweenAGraphAndItsBody) {
  const Memory input = make(1);
  Memory result;
  const auto body = [&] {
    const Memory one = other_.make(), two = other_.make();
    set(one, 0);
    multiply(input, 3, two);
    copy_async(one.get(), two.get(), block_bytes);
    unknown_writes();
    result = other_.make();
    multiply(one, 2, result);
  };
  graph_ = capture(body);
  const int* const of_first = result.get();
  const Comparison found = compare_now(body);
  EXPECT_TRUE(found.same()) << found.str();
  EXPECT_THAT(found.parameters, IsEmpty());
  EXPECT_THAT(found.notes, IsEmpty());
  EXPECT_EQ(found.nodes, 5U);
  EXPECT_NE(result.get(), of_first);
}

TEST_F(CompareOfAFramework, NamesWhatDiffersByItsAddressInBothPools) {
  int amount = 1;
  const int* written = nullptr;
  const auto body = [&] {
    const Memory before = make(0), memory = make(0);
    written = memory.get();
    add_to(memory, amount);
  };
  graph_ = capture(body);
  const int* const of_first = written;
  amount = 2;
  const Comparison found = compare_now(body);
  ASSERT_TRUE(found.difference) << found.str();
  EXPECT_EQ(found.difference->kind, FirstDifferenceKind::result);
  EXPECT_EQ(found.difference->first->index, 2U);
  EXPECT_EQ(found.difference->address, of_first);
  EXPECT_EQ(found.difference->second_address, written);
  ASSERT_THAT(found.parameters, SizeIs(1)) << found.str();
  EXPECT_EQ(found.parameters[0].field, "argument 1");
}

TEST_F(CompareOfAFramework, AllOfThePoolIsComparedAfterANodeWhoseWritesAreNotKnown) {
  if (default_device().type() != DeviceType::host) GTEST_SKIP() << "the host function writes device memory";
  int* written = nullptr;
  int value = 1;
  const auto body = [&] {
    const Memory before = make(0), memory = make(0);
    written = memory.get();
    launch_host([to = written, value] { to[3] = value; });
  };
  graph_ = capture(body);
  EXPECT_TRUE(compare_now(body).same());
  graph_ = capture(body);
  const int* const of_first = written;
  value = 2;
  const Comparison found = compare_now(body);
  ASSERT_TRUE(found.difference) << found.str();
  EXPECT_EQ(found.difference->kind, FirstDifferenceKind::result);
  EXPECT_EQ(found.difference->first->index, 2U);
  EXPECT_EQ(found.difference->address, of_first + 3);
  EXPECT_EQ(found.difference->second_address, written + 3);
}

TEST_F(CompareOfAFramework, BeginsWithTheMemoryThatTheLastReplayLeftAndRestoresIt) {
  Memory state;
  const auto body = [&] {
    state = other_.make();
    add_to(state);
    copy_async(x_.data(), state.get(), 16);
    unknown_writes();
  };
  graph_ = capture(body);
  const Memory of_first = state;
  set(of_first, 3);
  const std::vector<int> before = values(of_first);
  const Comparison found = compare_now(body);
  EXPECT_TRUE(found.same()) << found.str();
  EXPECT_EQ(values(of_first), before);
}

TEST_F(CompareOfAFramework, InputsAreBlocks) {
  const Memory before = make(0), input = make(0), after = make(0);
  const auto body = [&] {
    add_to(input);
    unknown_writes();
  };
  graph_ = capture(body);
  const Comparison found = compare_now(body);
  EXPECT_TRUE(found.same()) << found.str();
  EXPECT_EQ(found.saved_bytes, block_bytes);
}

TEST_F(CompareOfAFramework, NamesTheNodeThatUsesABlockThatWasFreed) {
  Memory input = make(0);
  const Memory result = make(0), next = make(0);
  const auto body = [&] { multiply(input, 2, result); };
  graph_ = capture(body);
  const int* const stale = input.get();
  input = next;
  const Comparison found = compare_now(body);
  ASSERT_TRUE(found.difference) << found.str();
  EXPECT_EQ(found.difference->kind, FirstDifferenceKind::stale_pointer);
  EXPECT_EQ(found.difference->address, stale);
  EXPECT_EQ(found.difference->second_address, next.get());
}

// A pool that other graphs have filled before: memory of the captures lies in it in different ways.
class CompareInASharedPool : public CompareOfAFramework {
 protected:
  /// Fills the first blocks of the pool, each byte with its number, and frees some of them.
  void fill(std::size_t count, std::initializer_list<std::size_t> freed) {
    filling_ = capture({.pool = pool_}, [&] {
      for (std::size_t i = 0; i < count; ++i) kept_.push_back(make(static_cast<int>(i)));
    });
    filling_.replay();
    current_stream().synchronize();
    for (const std::size_t each : freed) kept_[each].reset();
  }

  /// Has three allocations at once.
  void step() {
    const Memory one = make(1), two = make(0), three = make(0);
    multiply(one, 2, two);
    add_to(two, amount_);
    copy_async(three.get(), two.get(), block_bytes);
    unknown_writes();
    copy_async(x_.data(), three.get(), 16);
  }

  const MempoolId pool_ = graph_pool_handle();
  int amount_ = 1;
  CUDAGraph filling_;
  std::vector<Memory> kept_;
};

TEST_F(CompareInASharedPool, MemoryWithoutAPartnerIsNotComparedAndTheResultNotesIt) {
  fill(3, {0, 2});
  graph_ = capture({.pool = pool_}, [&] { step(); });
  const Comparison same = compare_now([&] { step(); });
  EXPECT_TRUE(same.same()) << same.str();
  EXPECT_THAT(same.parameters, IsEmpty());
  EXPECT_THAT(same.notes, ElementsAre(HasSubstr("1 segments of the memory of theirs were not compared")));
  amount_ = 2;
  const Comparison other = compare_now([&] { step(); });
  ASSERT_TRUE(other.difference) << other.str();
  EXPECT_EQ(other.difference->address, x_.data()) << "what is in other memory is compared";
  EXPECT_EQ(values(kept_[1]), std::vector<int>(n, 0x01010101));
}

TEST_F(CompareInASharedPool, AnUpdateTakesTheMemoryOfTheOtherGraph) {
  fill(3, {0, 2});
  graph_ = capture([&] { step(); });
  CUDAGraph other = capture({.pool = pool_}, [&] { step(); });
  graph_.update(other);
  const Comparison found = compare_now([&] { step(); });
  EXPECT_TRUE(found.same()) << found.str();
  EXPECT_THAT(found.notes, ElementsAre(HasSubstr("1 segments of the memory of theirs were not compared")));
}

TEST_F(CompareInASharedPool, PointersToMemoryWithoutAPartnerAreNoDifference) {
  fill(3, {0, 2});
  Buffer<int*> table(4);
  table.fill_bytes_async(0);
  const auto body = [&] {
    const Memory one = make(1), two = make(0);
    launch(1, Store{}, table.data() + 1, two.get());
    unknown_writes();
  };
  graph_ = capture({.pool = pool_}, body);
  const Comparison found = compare_now(body);
  EXPECT_TRUE(found.same()) << found.str();
  EXPECT_THAT(found.notes, SizeIs(1));
}

TEST_F(CompareInASharedPool, SegmentsThatHaveTheSamePartnerHaveNone) {
  fill(7, {});
  const auto body = [&] {
    const Memory one = make(1), two = make(0);
    multiply(one, 2, two);
    copy_async(x_.data(), two.get(), 16);
  };
  graph_ = capture({.pool = pool_}, body);
  const Comparison found = compare_now(body);
  EXPECT_TRUE(found.same()) << found.str();
  EXPECT_THAT(found.notes, ElementsAre(HasSubstr("2 segments of the memory of theirs were not compared")));
}

TEST_F(CompareInASharedPool, MemoryThatLiesInTheSameWayIsCompared) {
  fill(2, {});
  int amount = 1;
  const auto body = [&] {
    const Memory one = make(1), two = make(0);
    multiply(one, 2, two);
    add_to(two, amount);
  };
  graph_ = capture({.pool = pool_}, body);
  EXPECT_TRUE(compare_now(body).same());
  amount = 2;
  const Comparison other = compare_now(body);
  ASSERT_TRUE(other.difference) << other.str();
  EXPECT_EQ(other.difference->first->index, 3U);
  EXPECT_THAT(other.notes, IsEmpty());
}

TEST_F(CompareInASharedPool, ABlockThatBothGraphsUseIsAnInput) {
  fill(3, {0, 2});
  const auto body = [&] {
    const Memory scratch = make(0);
    multiply(kept_[1], 2, scratch);
    add_to(kept_[1]);
    unknown_writes();
  };
  graph_ = capture({.pool = pool_}, body);
  const Comparison found = compare_now(body);
  EXPECT_TRUE(found.same()) << found.str();
  EXPECT_THAT(found.notes, IsEmpty());
  EXPECT_EQ(values(kept_[1]), std::vector<int>(n, 0x01010101));
}

TEST_F(CompareOfAFramework, PointersInMemoryAreTheSameWhereTheyLeadToTheSamePlace) {
  std::size_t offset = 0;
  const auto body = [&] {
    const Memory target = make(0), table = make(0);
    launch(1, Store{}, reinterpret_cast<int**>(table.get()) + 1, target.get() + offset);
  };
  graph_ = capture(body);
  const Comparison same = compare_now(body);
  EXPECT_TRUE(same.same()) << same.str();
  offset = 1;
  const Comparison other = compare_now(body);
  ASSERT_TRUE(other.difference) << other.str();
  EXPECT_EQ(other.difference->first->index, 2U);
  EXPECT_THAT(other.notes, IsEmpty());
}

TEST_F(CompareOfAFramework, NamesTheNodeThatWritesElsewhereInThePool) {
  std::size_t offset = 0;
  const auto body = [&] {
    const Memory memory = make(0);
    fill_async(memory.get() + offset, 1, 16);
  };
  graph_ = capture(body);
  offset = 4;
  const Comparison found = compare_now(body);
  ASSERT_TRUE(found.difference) << found.str();
  EXPECT_EQ(found.difference->kind, FirstDifferenceKind::destination);
  EXPECT_EQ(found.difference->first->index, 1U);
  EXPECT_THAT(found.parameters, SizeIs(1));
}

TEST_F(CompareOfAFramework, ItDoesNotMatterWhichCaptureLoggedItsAllocations) {
  const auto body = [&] {
    const Buffer<int> first(n);  // opens the log
    const Memory memory = make(0);
    Buffer<int> second(n);
    add(second);
    add_to(memory);
    unknown_writes();
  };
  for (const bool logs_of_first : {true, false}) {
    other_.logs = logs_of_first;
    graph_ = capture(body);
    other_.logs = !logs_of_first;
    const Comparison found = compare_now(body);
    EXPECT_TRUE(found.same()) << found.str();
    EXPECT_THAT(found.parameters, IsEmpty());
  }
}

TEST_F(CompareOfAFramework, MemoryOfAChildGraphIsTheSameInBoth) {
  Memory of_child;
  const CUDAGraph child = capture([&] {
    of_child = make(0);
    add_to(of_child);
  });
  const auto body = [&] {
    const Memory memory = make(0);
    add_child(child);
    multiply(of_child, 2, memory);
    unknown_writes();
  };
  graph_ = capture(body);
  const Comparison found = compare_now(body);
  EXPECT_TRUE(found.same()) << found.str();
  EXPECT_THAT(found.parameters, IsEmpty());
  EXPECT_THAT(found.notes, IsEmpty());
}

TEST_F(CompareOfAFramework, IsRefusedWhereItsAllocatorDoesNotReportItsBlocks) {
  const auto body = [&] { add(x_); };
  graph_ = capture(body);
  theirs_.refuses = true;
  EXPECT_TRUE(contains(text_of<UsageError>([&] { compare_now(body); }), "does not say"));
  theirs_.refuses = false;
  EXPECT_TRUE(compare_now(body).same());
}

TEST_F(CompareInASharedPool, AnotherInputIsADifference) {
  fill(3, {0});
  int which = 1, amount = 1;
  const auto body = [&] {
    add_to(kept_[which], amount);
    unknown_writes();
    add_to(kept_[which], amount);
  };
  graph_ = capture({.pool = pool_}, body);
  EXPECT_TRUE(compare_now(body).same());
  const std::vector<int> first = values(kept_[1]), second = values(kept_[2]);
  which = 2;
  const Comparison found = compare_now(body);
  ASSERT_TRUE(found.difference) << found.str();
  EXPECT_EQ(found.difference->address, kept_[1].get());
  amount = 5;
  EXPECT_TRUE(compare_now(body).difference);
  EXPECT_EQ(values(kept_[1]), first);
  EXPECT_EQ(values(kept_[2]), second);
}

// The node is named even where the replacement of the block has the same values.
TEST_F(CompareInASharedPool, NamesTheNodeThatUsesABlockThatWasFreed) {
  fill(3, {0, 2});
  const Memory next = make(1), result = make(0);
  Memory input = std::move(kept_[1]);
  const auto body = [&] { multiply(input, 2, result); };
  graph_ = capture({.pool = pool_}, body);
  const int* const freed = input.get();
  input = next;
  for (const int value : {1, 5}) {
    set(next, value);
    const Comparison found = compare_now(body);
    ASSERT_TRUE(found.difference) << found.str();
    EXPECT_EQ(found.difference->kind, FirstDifferenceKind::stale_pointer) << found.str();
    EXPECT_EQ(found.difference->address, freed);
    EXPECT_EQ(found.difference->second_address, next.get());
  }
}

}  // namespace
}  // namespace reprise::inspect::test
