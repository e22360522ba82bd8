// SPDX-License-Identifier: Apache-2.0
#include <cstdlib>
#include <optional>
#include <vector>

#include "memory/watches/allocation_stacks.h"
#include "memory/watches/block_watch.h"
#include "tests/unit/memory/memory_fixture.h"

// Blocks that are watched or kept alive, in the allocator.

namespace reprise::memory::test {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;
using ::testing::Not;

constexpr MempoolId own = {17, 0};

class Watches : public MemoryTest {
 protected:
  /// What the allocator knows of addresses, which are in ascending order.
  std::vector<UsedAddress> known(std::initializer_list<const std::byte*> addresses, MempoolId pool = own) {
    std::vector<UsedAddress> used;
    for (const std::byte* address : addresses) used.push_back({reinterpret_cast<std::uintptr_t>(address)});
    inside().watch(used, {&pool, 1});
    return used;
  }
  std::shared_ptr<BlockWatch> watch(const std::byte* address) { return known({address}).front().watch; }
  static std::uint64_t frees() { return BlockWatch::frees.load(); }
};

TEST_F(Watches, KnowTheBlockThatAnAddressLiesIn) {
  std::byte* const a = allocate(1000);
  std::byte* const b = allocate(1000);
  ASSERT_EQ(a + 1024, b);
  const auto used = known({a, a + 1023, b, b + 1024});
  EXPECT_EQ(used[0].watch->address, a);
  EXPECT_EQ(used[0].watch->bytes, 1024U);
  EXPECT_EQ(used[1].watch, used[0].watch);
  EXPECT_EQ(used[2].watch->address, b);
  EXPECT_TRUE(used[3].in_allocator) << "cached, of the same segment";
  EXPECT_EQ(used[3].watch, nullptr);
  EXPECT_EQ(watch(a), used[0].watch) << "all share one";
  free(a);
  free(b);
}

TEST_F(Watches, KnowNothingOfOtherMemory) {
  const std::byte on_the_stack{};
  std::byte* const a = allocate(1000);
  const std::byte* const others[] = {&on_the_stack, nullptr, a - 1};
  for (const std::byte* address : others) {
    const UsedAddress used = known({address}).front();
    EXPECT_FALSE(used.in_allocator);
    EXPECT_EQ(used.watch, nullptr);
  }
  free(a);
}

TEST_F(Watches, LeaveThePoolOfTheAskerAlone) {
  inside().open_pool(own, "");
  std::optional<PoolFilled> filled(std::in_place, allocator_, own, stream_);
  std::byte* const a = allocate(1000);
  filled.reset();
  EXPECT_TRUE(known({a}).front().own);
  EXPECT_EQ(watch(a), nullptr);
  EXPECT_NE(known({a}, {18, 0}).front().watch, nullptr);
  free(a);
  inside().close_pool(own, "");
}

TEST_F(Watches, AreToldOfTheFreeAndOnlyThatRaisesTheCount) {
  std::byte* const a = allocate(1000);
  std::byte* const b = allocate(1000);
  const auto watched = watch(a);
  const std::uint64_t before = frees();
  free(b);
  EXPECT_EQ(frees(), before);
  EXPECT_FALSE(watched->freed);
  free(a);
  EXPECT_EQ(frees(), before + 1);
  EXPECT_TRUE(watched->freed);
  EXPECT_FALSE(inside().is_given_out_again(*watched));
  std::byte* const again = allocate(200);
  ASSERT_EQ(again, a);
  EXPECT_TRUE(inside().is_given_out_again(*watched)) << "a part of it";
  EXPECT_NE(watch(again), watched);
  free(again);
}

TEST_F(Watches, OfABlockThatIsHeldBackAreToldOfTheFreeAtOnce) {
  std::byte* const a = allocate(1000);
  allocator_.record_stream(a, other_);
  const auto watched = watch(a);
  free(a);
  EXPECT_TRUE(watched->freed);
}

TEST_F(Watches, KeepABlockUntilTheLastReleasesIt) {
  std::byte* const a = allocate(1000);
  const auto watched = watch(a);
  std::optional<RetainedBlocks> one(std::in_place), two(std::in_place);
  EXPECT_TRUE(one->add(watched));
  EXPECT_TRUE(two->add(watched));
  free(a);
  EXPECT_FALSE(watched->freed);
  EXPECT_EQ(watch(a), watched) << "it can be found";
  EXPECT_EQ(all().allocated_bytes, 1024U);
  one.reset();
  EXPECT_EQ(all().allocations, 1U);
  two.reset();
  EXPECT_EQ(all().allocations, 0U);
  EXPECT_TRUE(watched->freed);
  EXPECT_FALSE(RetainedBlocks().add(watched));
  std::byte* const again = allocate(1000);
  EXPECT_EQ(again, a);
  free(again);
}

TEST_F(Watches, ReleaseABlockThatItsOwnerHas) {
  std::byte* const a = allocate(1000);
  const auto watched = watch(a);
  EXPECT_TRUE(RetainedBlocks().add(watched));
  EXPECT_EQ(all().allocations, 1U);
  free(a);
  EXPECT_EQ(all().allocations, 0U);
  EXPECT_TRUE(watched->freed);
}

TEST_F(Watches, RememberWhatIsFreedWhileALogIsOpen) {
  std::byte* const before = allocate(1000);
  std::byte* const a = allocate(1000);
  std::byte* const b = allocate(1000);
  free(before);
  const GraphOptions options = {};
  const captures::Registration capture(stream_, options, own);
  std::optional<FreeLog> freed(std::in_place, capture.capture(), FreeLog::Which::all);
  free(a);
  std::vector<UsedAddress> used = known({before, a + 5, b});
  freed->find(used);
  EXPECT_EQ(used[0].watch, nullptr);
  ASSERT_NE(used[1].watch, nullptr);
  EXPECT_EQ(used[1].watch->address, a);
  EXPECT_TRUE(used[1].watch->freed);
  EXPECT_FALSE(used[2].watch->freed);
  freed.reset();
  EXPECT_FALSE(FreeLog::any());
  free(b);
}

TEST_F(Watches, DoNotRememberWhatIsHiddenFromGraphs) {
  std::byte* const hidden = allocate(1000);
  inside().hide_from_graphs(hidden);
  const GraphOptions options = {};
  const captures::Registration capture(stream_, options, own);
  const FreeLog freed(capture.capture(), FreeLog::Which::all);
  free(hidden);
  std::vector<UsedAddress> used = known({hidden});
  freed.find(used);
  EXPECT_EQ(used[0].watch, nullptr) << "the library's own memory is no input, in use or not";
}

TEST_F(Watches, TakeMemoryThatWasGivenOutAgainForThatOfItsNewOwner) {
  std::byte* const a = allocate(1000);
  const GraphOptions options = {};
  const captures::Registration capture(other_, options, own);
  const FreeLog freed(capture.capture(), FreeLog::Which::all);
  free(a);
  std::byte* const again = allocate(1000);
  ASSERT_EQ(again, a);
  std::vector<UsedAddress> used = known({a});
  freed.find(used);
  EXPECT_FALSE(used[0].watch->freed);
  free(again);
}

TEST_F(Watches, KeepTheStacksWhileTheyAreRecorded) {
  std::byte* const without = allocate(1000);
  record_allocation_stacks(true);
  EXPECT_TRUE(allocation_stacks_are_recorded());
  std::byte* const with = allocate(1000);
  const auto first = watch(without), second = watch(with);
  EXPECT_THAT(first->created, IsEmpty());
  EXPECT_THAT(second->created, Not(IsEmpty()));
  EXPECT_THAT(second->created.front(), Not(HasSubstr("reprise::CachingAllocator::")));
  free(with);
  EXPECT_THAT(second->freed_by, Not(IsEmpty()));
  record_allocation_stacks(false);
  free(without);
  EXPECT_THAT(first->freed_by, IsEmpty());
}

TEST(AllocationStacks, AreRecordedFromTheBeginningIfTheEnvironmentAsks) {
  ::testing::FLAGS_gtest_death_test_style = "threadsafe";  // a process of its own, from its beginning
  const auto recorded = [](const char* value) {
    ::setenv("REPRISE_MEMORY_STACKS", value, 1);
    EXPECT_EXIT(std::_Exit(allocation_stacks_are_recorded() ? 1 : 0), ::testing::ExitedWithCode(value[0] == '1'), "")
        << value;
    ::unsetenv("REPRISE_MEMORY_STACKS");
  };
  recorded("1");
  recorded("0");
}

}  // namespace
}  // namespace reprise::memory::test
