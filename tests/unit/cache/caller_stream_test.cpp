// SPDX-License-Identifier: Apache-2.0
#include <functional>
#include <optional>
#include <string>
#include <thread>

#include "tests/unit/cache/cache_fixture.h"

// Bodies that submit work to the stream of the call, which is not the one that is captured.

namespace reprise::caches::test {
namespace {

using graphs::test::add;
using graphs::test::contains;
using graphs::test::first;
using graphs::test::text_of;

class OnTheCallersStream : public ::testing::Test {
 protected:
  void expect_refused(const std::function<void()>& call) {
    EXPECT_TRUE(contains(text_of<UsageError>(call), "found the stream that was current before the capture"));
  }

  const Stream stream_;
  const StreamGuard current_{stream_};
  Buffer<int> x_ = zeros(), y_ = zeros();
};

TEST_F(OnTheCallersStream, AWholeBodyIsRefusedAndTakesNoEffect) {
  GraphCache cache({.capture_after = 1});
  const auto call = [&] { cache.run({1}, [&] { add(x_, 1, stream_); }); };
  call();
  EXPECT_EQ(first(x_), 1);
  expect_refused(call);
  EXPECT_EQ(first(x_), 1);
  ASSERT_TRUE(cache.failure({1}));
  call();  // eagerly from now on
  EXPECT_EQ(first(x_), 2);
}

TEST_F(OnTheCallersStream, APartOfABodyIsRefusedInsteadOfBeingLeftOut) {
  GraphCache cache({.capture_after = 1});
  const auto call = [&] {
    cache.run({1}, [&] {
      add(x_, 1, stream_);
      add(y_);
    });
  };
  call();
  expect_refused(call);
  call();
  EXPECT_EQ(first(x_), 2);
  EXPECT_EQ(first(y_), 2) << "all but the refused call";
}

TEST_F(OnTheCallersStream, InputsStayAsTheyAreInTheCallThatIsRefused) {
  GraphCache cache({.capture_after = 0, .inputs = CacheInputs::copy});
  Buffer<int> values = counting(4);
  expect_refused([&] {
    cache.run({1}, inputs(inout(values)), [&](DeviceView<int> view) {
      add(x_, 1, stream_);
      fill_async(view.data(), 0, 4 * sizeof(int));
    });
  });
  EXPECT_EQ(values.read(), multiples(4, 1));
}

TEST_F(OnTheCallersStream, ACaptureAheadIsRefused) {
  GraphCache cache;
  expect_refused([&] { cache.capture({1}, [&] { add(x_, 1, stream_); }); });
  EXPECT_FALSE(cache.contains({1}));
}

TEST_F(OnTheCallersStream, EagerPartsMaySubmitWork) {
  GraphCache cache({.capture_after = 0});
  const auto call = [&] {
    cache.run({1}, [&] {
      add(y_);
      eager([this] { add(x_, 1, stream_); });
      add(y_);
    });
  };
  call();
  call();
  EXPECT_EQ(first(x_), 2);
  EXPECT_EQ(first(y_), 4);
}

TEST_F(OnTheCallersStream, WorkBehindAnEagerPartIsRefusedInABreakableGraph) {
  BreakableGraph graph;
  expect_refused([&] {
    breakable(graph, {}, [&] {
      add(y_);
      eager([] {});
      add(x_, 1, stream_);
    });
  });
  EXPECT_EQ(first(x_), 0);
  breakable(graph, {}, [&] { add(y_); });
  graph.replay();
  EXPECT_EQ(first(y_), 3);
}

TEST_F(OnTheCallersStream, ForksAndWorkOfOtherThreadsAreAllowed) {
  GraphCache cache({.capture_after = 0});
  const auto call = [&] {
    cache.run({1}, [&] {
      const StreamRef here = current_stream();
      stream_.wait(here);  // takes part in the capture now
      add(x_, 1, stream_);
      here.wait(stream_);
    });
  };
  call();
  call();
  EXPECT_EQ(first(x_), 2);
  cache.run({2}, [&] {
    std::thread([&] { add(y_, 1, stream_); }).join();
    Event().record(stream_);  // no work
    add(x_);
  });
  EXPECT_EQ(first(x_), 3);
}

TEST_F(OnTheCallersStream, ABodyThatCapturesNothingIsNotRunAgain) {
  GraphCache cache({.capture_after = 0});
  int calls = 0;
  cache.run({1}, [&] { ++calls; });
  EXPECT_EQ(calls, 1) << "work of other code on other streams would take effect twice";
  EXPECT_TRUE(cache.failure({1}));
  EXPECT_EQ(cache.statistics().eager.number, 1U);
  cache.run({1}, [&] { ++calls; });
  EXPECT_EQ(calls, 2);
}

}  // namespace
}  // namespace reprise::caches::test
