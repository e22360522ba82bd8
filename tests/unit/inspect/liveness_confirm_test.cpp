// SPDX-License-Identifier: Apache-2.0
#include <utility>

#include "tests/unit/inspect/liveness_fixture.h"

// Words among the parameters of a kernel that look like addresses by chance, and the second capture that shows it.

namespace reprise::graphs::test {
namespace {

using ::testing::ElementsAre;
using ::testing::UnorderedElementsAre;

/// Most of it is used by no kernel, and is whatever lay there.
struct Large {
  int* used = nullptr;
  void* unused[15] = {};
};

struct AddToLarge {
  REPRISE_KERNEL void operator()(Thread, Large large) const { *large.used += 1; }
  static auto accesses(const Large& large) { return std::array{reads(large.used, 1), writes(large.used, 1)}; }
};

class ConfirmedInputs : public ::testing::Test {
 protected:
  static GraphOptions confirmed() {
    GraphOptions options = with_check();
    options.inputs.confirm = true;
    return options;
  }
  // `stale` says in which of its runs a stale address lies in the parameters.
  void body(int stale) {
    Large large;
    large.used = x_.data();
    if (runs_++ == stale) large.unused[7] = y_.data();
    launch(LaunchConfig::cover(1, 1), AddToLarge{}, large);
  }

  Buffer<int> x_ = zeros();
  Buffer<int> y_ = zeros();
  int runs_ = 0;
  CUDAGraph graph_;
};

TEST_F(ConfirmedInputs, WithoutItAStaleWordIsTakenForAnInput) {
  capture(graph_, with_check(), [&] { body(0); });
  EXPECT_EQ(runs_, 1);
  EXPECT_THAT(addresses(graph_.inputs()), UnorderedElementsAre(x_.data(), y_.data()));
}

TEST_F(ConfirmedInputs, AStaleWordOfOneCaptureIsNone) {
  for (const int stale : {0, 1}) {
    runs_ = 0;
    capture(graph_, confirmed(), [&] { body(stale); });
    EXPECT_EQ(runs_, 2);
    EXPECT_THAT(addresses(graph_.inputs()), ElementsAre(x_.data()));
    graph_.reset();
  }
}

TEST_F(ConfirmedInputs, RealOnesAreFoundAndChecked) {
  capture(graph_, confirmed(), [&] { body(0); });
  y_.reset();
  graph_.replay();
  EXPECT_EQ(first(x_), 1);
  x_.reset();
  EXPECT_THROW(graph_.replay(), DeadInputError);
}

TEST_F(ConfirmedInputs, TheBodyFindsTheGraphCapturingBothTimes) {
  capture(graph_, confirmed(), [&] {
    EXPECT_EQ(graph_.device(), current_device());
    EXPECT_THROW(graph_.reset(), UsageError);
    body(0);
  });
  EXPECT_EQ(runs_, 2);
  graph_.replay();
  EXPECT_EQ(first(x_), 1);
}

TEST_F(ConfirmedInputs, CanBeRetained) {
  GraphOptions options = with_retain();
  options.inputs.confirm = true;
  capture(graph_, options, [&] { body(0); });
  EXPECT_THAT(addresses(graph_.inputs()), ElementsAre(x_.data()));
  EXPECT_TRUE(graph_.inputs()[0].retained);
}

TEST_F(ConfirmedInputs, NeedSomethingThatLooksForThem) {
  GraphOptions options;
  options.inputs.confirm = true;
  const auto run = [&] { capture(graph_, options, [&] { body(0); }); };
  EXPECT_TRUE(contains(text_of<UsageError>(run), "GraphOptions::inputs.confirm refines"));
  options = {};
  options.inputs.scope = Liveness::all;
  EXPECT_TRUE(contains(text_of<UsageError>(run), "GraphOptions::inputs.scope refines"));
  EXPECT_EQ(runs_, 0);
  options.inputs.retain = true;
  run();
  EXPECT_EQ(runs_, 1);
}

TEST_F(ConfirmedInputs, MayBeOtherMemoryEachTime) {
  Buffer<int> a = zeros(), b = zeros();
  int runs = 0;
  capture(graph_, confirmed(), [&] { add(runs++ == 0 ? a : b); });
  ASSERT_THAT(graph_.inputs(), ::testing::SizeIs(1));
  EXPECT_EQ(graph_.inputs()[0].address, b.data());
  a.reset();
  graph_.replay();
  b.reset();
  EXPECT_THROW(graph_.replay(), DeadInputError);
}

TEST_F(ConfirmedInputs, AFirstCaptureThatFailsIsReportedByTheGraph) {
  EXPECT_THROW(capture(graph_, confirmed(),
                       [&] {
                         ++runs_;
                         add(x_);
                         make_unsafe_call();
                       }),
               CaptureError);
  EXPECT_EQ(runs_, 1);
  ASSERT_TRUE(graph_.capture_report().has_value());
  EXPECT_EQ(graph_.capture_report()->code, ErrorCode::stream_capture_invalidated);
  capture(graph_, confirmed(), [&] { body(0); });
  EXPECT_THAT(addresses(graph_.inputs()), ElementsAre(x_.data()));
}

}  // namespace
}  // namespace reprise::graphs::test
