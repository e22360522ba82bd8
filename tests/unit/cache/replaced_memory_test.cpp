// SPDX-License-Identifier: Apache-2.0
#include <string>
#include <utility>
#include <vector>

#include "tests/unit/cache/cache_fixture.h"

// Bodies that free memory which their graph uses, or replace it.

namespace reprise::caches::test {
namespace {

// The graph would use memory that others get.
TEST(MemoryThatGraphCachesLose, IsFreedByABodyThatRunsEagerly) {
  GraphCache cache({.capture_after = 0});
  Buffer<int> scratch = zeros(n);
  const auto body = [&](DeviceView<const int> x) {
    Buffer<int> y(n);
    if (scratch.size() == 0) scratch = Buffer<int>(n);
    launch(n, Multiply{}, x.data(), 3, scratch.data(), n);
    launch(n, Multiply{}, static_cast<const int*>(scratch.data()), 1, y.data(), n);
    scratch.reset();
    return y;
  };
  for (int i = 1; i <= 4; ++i) {
    const Buffer<int> x = counting(n, i);
    EXPECT_EQ(cache.run({n}, inputs(x), body).read(), multiples(n, 3 * i));
  }
  EXPECT_FALSE(cache.contains({n}));
  const auto failure = cache.failure({n});
  ASSERT_TRUE(failure);
  EXPECT_TRUE(contains(failure->what, "GraphCache::run: 1 input of the graph"));
  EXPECT_TRUE(contains(failure->what, "freed before its capture ended"));
  EXPECT_EQ(cache.statistics().failed_captures.number, 1u);
}

// The new memory is that of the refused capture, in which nothing was computed.
TEST(MemoryThatGraphCachesLose, IsReplacedByABodyThatIsRefusedInTheCallThatCaptures) {
  for (const std::size_t check_every : {0, 1}) {
    GraphCache cache({.capture_after = 2, .check_every = check_every});
    Buffer<int> state = zeros(n);
    const auto call = [&] {
      cache.run({n}, [&] {
        Buffer<int> next(n);
        launch(n, Multiply{}, static_cast<const int*>(state.data()), 1, next.data(), n);
        launch(n, Add{}, next.data(), 1, n);
        state = std::move(next);
      });
    };
    call();
    call();
    EXPECT_EQ(read(state), std::vector<int>(n, 2));
    const std::string text = text_of<DeadInputError>(call);
    EXPECT_TRUE(contains(text, "freed before its capture ended")) << text;
    EXPECT_TRUE(contains(text, "so that the body was not run eagerly")) << text;
    ASSERT_TRUE(cache.failure({n}));
    EXPECT_EQ(cache.failure({n})->what, text);
    state = zeros(n);
    for (int i = 1; i <= 3; ++i) {
      call();
      EXPECT_EQ(read(state), std::vector<int>(n, i)) << "eager from now on";
    }
    const auto ahead = [&] {
      launch(n, Add{}, state.data(), 1, n);
      state = Buffer<int>(n);
    };
    EXPECT_THROW(cache.capture({"ahead"}, ahead), DeadInputError);
  }
}

TEST(MemoryThatGraphCachesLose, IsReplacedByABodyThatIsRefusedInACheck) {
  GraphCache cache({.capture_after = 0, .check_every = 2});
  Buffer<int> state = zeros(n);
  bool replaces = false;
  const auto call = [&] {
    cache.run({n}, [&] {
      launch(n, Add{}, state.data(), 1, n);
      if (replaces) state = Buffer<int>(n);
    });
  };
  call();
  call();
  replaces = true;
  EXPECT_TRUE(contains(text_of<DeadInputError>(call), "so that the body was not run eagerly"));
  EXPECT_FALSE(cache.contains({n}));
}

}  // namespace
}  // namespace reprise::caches::test
