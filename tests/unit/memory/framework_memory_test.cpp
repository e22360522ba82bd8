// SPDX-License-Identifier: Apache-2.0
#include <optional>
#include <vector>

#include "tests/support/scoped_framework.h"
#include "tests/unit/memory/memory_fixture.h"

// A framework beside this library: its cache of device memory, and the ids of its pools.

namespace reprise::memory::test {
namespace {

using reprise::test::ScopedFramework;

// What the other cache holds on one device.
struct OtherCache {
  const Device* device = nullptr;
  std::vector<void*> blocks = {};
  int emptied = 0;
};
OtherCache other_cache;

class CacheOfTheirs final : public backend::Framework {
 public:
  std::string_view name() const noexcept override { return "theirs"; }
  void empty_cache(const Device& device) const noexcept override {
    if (other_cache.device == nullptr || *other_cache.device != device) return;
    other_cache.emptied += 1;
    for (void* const block : other_cache.blocks) EXPECT_EQ(device.backend().memory_free(block), ErrorCode::success);
    other_cache.blocks.clear();
  }
};

class OtherCaches : public MemoryTest {
 protected:
  OtherCaches() { other_cache = {&device_, {}, 0}; }
  ~OtherCaches() override {
    theirs_.empty_cache(device_);
    other_cache = {};
  }
  /// The other cache takes all that is left but for some.
  void let_it_take_nearly_all() {
    void* block = nullptr;
    const std::size_t bytes = device_.memory_info().free - 8 * mib;
    ASSERT_EQ(device_.backend().memory_allocate(&block, bytes / mib * mib), ErrorCode::success);
    other_cache.blocks.push_back(block);
  }

  const CacheOfTheirs theirs_;
  const ScopedFramework scope_{theirs_};
};

TEST_F(OtherCaches, AreEmptiedWhenTheDriverHasNoMemoryLeft) {
  let_it_take_nearly_all();
  void* const block = allocate(30 * mib);
  EXPECT_NE(block, nullptr);
  EXPECT_EQ(other_cache.emptied, 1);
  free(block);
}

TEST_F(OtherCaches, AreEmptiedDuringACaptureToo) {
  const OpenPool pool(allocator_);
  let_it_take_nearly_all();
  const PoolCapture capture(allocator_, pool.id(), stream_);
  free(allocate(30 * mib));
  EXPECT_EQ(other_cache.emptied, 1);
  EXPECT_TRUE(capture.is_whole());
}

TEST_F(OtherCaches, AreLeftAloneWhileThereIsMemory) {
  free(allocate(30 * mib));
  allocator_.empty_cache();
  EXPECT_EQ(other_cache.emptied, 0);
}

TEST_F(OtherCaches, AreEmptiedBeforeACaptureOnAnIdleDevice) {
  CachingAllocator::of(device_).impl().synchronize_if_no_capture();
  EXPECT_EQ(other_cache.emptied, 1);
  const GraphOptions options = {};
  const captures::Registration underway(stream_, options, {});
  CachingAllocator::of(device_).impl().synchronize_if_no_capture();
  EXPECT_EQ(other_cache.emptied, 1);
}

TEST_F(OtherCaches, CanHaveThisOneEmptied) {
  void* const kept = allocate(30 * mib);
  EXPECT_FALSE(inside().empty_cache_for_others());
  free(allocate(50 * mib));
  EXPECT_TRUE(inside().empty_cache_for_others());
  EXPECT_EQ(all().reserved_bytes, 30 * mib);
  free(kept);
}

std::uint64_t their_last_id = 0;

/// Ids come from there until the end of the scope.
class IdsOfTheirs final : public backend::Framework {
 public:
  std::string_view name() const noexcept override { return "theirs"; }
  std::optional<MempoolId> new_pool_id(bool by_user) const override {
    return by_user ? MempoolId{0, ++their_last_id} : MempoolId{++their_last_id, 0};
  }

 private:
  const ScopedFramework scope_{*this};
};

TEST(PoolIds, ComeFromTheFrameworkThatGivesThemOut) {
  const IdsOfTheirs theirs;
  graph_pool_handle();  // beyond those of this library
  const std::uint64_t last = their_last_id;
  EXPECT_EQ(graph_pool_handle(), (MempoolId{0, last + 1}));
  EXPECT_EQ(new_capture_pool_id(), (MempoolId{last + 2, 0}));
}

TEST(PoolIds, OfTheFrameworkAreNoneThatWereGivenOutBefore) {
  const MempoolId by_user = graph_pool_handle(), of_capture = new_capture_pool_id();
  their_last_id = 0;
  const IdsOfTheirs theirs;
  EXPECT_GT(graph_pool_handle().second, by_user.second);
  EXPECT_GT(new_capture_pool_id().first, of_capture.first);
}

TEST(PoolIds, AreThisLibrarysAgainAfterwards) {
  const MempoolId before = graph_pool_handle();
  { const IdsOfTheirs theirs; }
  EXPECT_EQ(graph_pool_handle().second, before.second + 1);
}

}  // namespace
}  // namespace reprise::memory::test
