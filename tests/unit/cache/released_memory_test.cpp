// SPDX-License-Identifier: Apache-2.0
#include <optional>
#include <vector>

#include "reprise/host_simulator.h"
#include "tests/unit/cache/cache_fixture.h"

// Memory of entries that are gone, while work of a caller's stream still uses it. The race check of a simulator finds
// work that gets this memory too early.

namespace reprise::caches::test {
namespace {

/// Two streams of a simulator, and a key's result that the first one reads when nothing else holds it any more.
class ReleasedMemoryOfCaches : public ::testing::TestWithParam<std::uint64_t> {
 protected:
  CacheResult<int> call(int key) {
    return cache_->run({key}, inputs(x_), [&](DeviceView<const int> in) {
      Buffer<int> y(n);
      launch(n, Multiply{}, in.data(), key, y.data(), n);
      return y;
    });
  }

  /// The last call is one of the other stream: later ones are not ordered behind what the first stream does.
  void release_entry() {
    {
      const StreamGuard guard(writer_);
      call(9);
    }
    EXPECT_TRUE(cache_->forget({3}));
    reader_.synchronize();
    writer_.synchronize();
    release_finished_graphs();
  }

  /// Returns where the result was, which no finished work reads.
  const int* drop_a_result_that_is_read() {
    const StreamGuard guard(reader_);
    copy_async(out_.data(), result_.view().data(), n * sizeof(int), reader_);
    const int* const address = result_.data();
    result_ = {};
    return address;
  }

  void expect_no_races() {
    EXPECT_EQ(read_out(), multiples(n, 3));
    for (const HostRace& race : simulator_.races()) ADD_FAILURE() << race;
  }
  std::vector<int> read_out() {
    std::vector<int> values(n);
    copy_async(values.data(), out_.data(), n * sizeof(int), reader_);
    reader_.synchronize();
    return values;
  }

  HostSimulator simulator_{{.check_races = true, .scheduler_seed = GetParam()}};
  const DeviceGuard guard_{simulator_.device()};
  const Stream reader_, writer_;
  const Buffer<int> x_ = counting(n);
  Buffer<int> out_ = zeros(n);
  std::optional<GraphCache> cache_{std::in_place, GraphCacheOptions{.capture_after = 0}};
  CacheResult<int> result_;
};

TEST_P(ReleasedMemoryOfCaches, IsNotThatOfAnotherEntryBeforeItsReadersAreDone) {
  {
    const StreamGuard guard(reader_);
    result_ = call(3);
  }
  release_entry();
  drop_a_result_that_is_read();
  const StreamGuard guard(writer_);
  for (int key = 10; key < 14; ++key) call(key);
  expect_no_races();
}

// The reader's stream is another one at each call.
TEST_P(ReleasedMemoryOfCaches, WaitsForTheStreamsOfAllCalls) {
  {
    const StreamGuard guard(writer_);
    call(3);
  }
  for (int i = 0; i < 2; ++i) {
    const StreamGuard guard(reader_);
    result_ = call(3);
  }
  release_entry();
  drop_a_result_that_is_read();
  const StreamGuard guard(writer_);
  for (int key = 10; key < 14; ++key) call(key);
  expect_no_races();
}

TEST_P(ReleasedMemoryOfCaches, IsNotThatOfOtherStreamsAfterTheCacheEither) {
  {
    const StreamGuard guard(reader_);
    result_ = call(3);
  }
  reader_.synchronize();
  cache_.reset();
  release_finished_graphs();
  const int* const address = drop_a_result_that_is_read();
  std::vector<Buffer<int>> others;
  for (int i = 0; i < 4096; ++i) {
    others.emplace_back(n, writer_);
    if (others.back().data() == address) graphs::test::add(others.back(), 1, writer_);
  }
  expect_no_races();
}

INSTANTIATE_TEST_SUITE_P(Schedules, ReleasedMemoryOfCaches, ::testing::Values(1, 2, 3));

}  // namespace
}  // namespace reprise::caches::test
