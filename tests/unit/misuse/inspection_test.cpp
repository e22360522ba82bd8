// SPDX-License-Identifier: Apache-2.0
#include <gmock/gmock.h>

#include <cstdint>
#include <optional>
#include <string>
#include <thread>

#include "tests/support/warnings.h"
#include "tests/unit/graph/graph_fixture.h"

// Misuse of annotations, timings, liveness and reports; table.md has what is tested elsewhere.

namespace reprise::graphs::test {
namespace {

using reprise::test::Warnings;
using ::testing::IsEmpty;

class InspectionMisuse : public ::testing::Test {
 protected:
  const SideStream side_;
  Buffer<int> x_ = zeros();
  CUDAGraph graph_;
};

TEST_F(InspectionMisuse, AnnotationsThatAreEmptyOrHugeAreKept) {
  const std::string huge(std::size_t{1} << 20, 'x');
  capture(graph_, {.enable_annotations = true}, [&] {
    const annotate empty("");
    add(x_);
    const annotate scope({{huge, ""}, {"", huge}});
    add(x_);
  });
  const auto nodes = graph_.annotations();
  ASSERT_EQ(nodes.size(), 2U);
  EXPECT_EQ(nodes[0].annotation, (Annotation{{"name", ""}}));
  EXPECT_EQ(nodes[1].annotation, (Annotation{{"", huge}, {"name", ""}, {huge, ""}}));
}

TEST_F(InspectionMisuse, AnAnnotationOfNothingAnnotatesNothing) {
  capture(graph_, {.enable_annotations = true}, [&] {
    const annotate none{Annotation{}};
    add(x_);
  });
  EXPECT_THAT(graph_.annotations(), IsEmpty());
}

TEST_F(InspectionMisuse, AScopeOutsideOfACaptureOrInABrokenOneDoesNothing) {
  const Warnings warnings;
  { const annotate scope("eager"); }
  graph_.capture_begin({.enable_annotations = true});
  EXPECT_THROW(current_stream().synchronize(), BackendError);
  { const annotate scope("broken"); }
  EXPECT_THROW(graph_.capture_end(), CaptureError);
  EXPECT_THAT(warnings.texts(), IsEmpty());
  ASSERT_TRUE(graph_.capture_report().has_value());
  EXPECT_THAT(graph_.capture_report()->str(), ::testing::Not(IsEmpty()));
}

TEST_F(InspectionMisuse, AScopeWithinAHookAnnotatesNothingOfTheGraph) {
  GraphHooks hooks;
  hooks.before_replay = [](const StreamRef&) { const annotate scope("hook"); };
  graph_.add_hooks(hooks);
  capture(graph_, {.enable_annotations = true}, [&] { add(x_); });
  graph_.replay();
  EXPECT_THAT(graph_.annotations(), IsEmpty());
}

TEST_F(InspectionMisuse, ReportsAndTimesWithoutContentAreText) {
  EXPECT_NE(CaptureReport{}.str(), "");
  EXPECT_NO_THROW((void)ReplayTiming{}.str());
  CaptureReport odd;
  odd.code = static_cast<ErrorCode>(123456);
  odd.broken_by = CaptureReport::Call{.name = ""};
  EXPECT_NE(odd.str(), "");
}

TEST_F(InspectionMisuse, FrozenValuesOfSizesThatThereAreNotAreText) {
  FrozenValue value;
  EXPECT_EQ(value.str(), " (0 bytes): 0x0, then 0x0");
  value.bytes = 9;
  value.second = UINT64_MAX;
  EXPECT_EQ(value.str(), " (9 bytes): 0x0, then 0xffffffffffffffff");
}

TEST_F(InspectionMisuse, WithinAHookOfTheGraphTimesAreNotTakenAndATimerMayEnd) {
  std::optional<ReplayTimer> timer;
  std::string text;
  GraphHooks hooks;
  hooks.before_replay = [&](const StreamRef&) {
    text = text_of<UsageError>([&] { static_cast<void>(timer->take()); });
    timer.reset();
  };
  capture_increment(graph_, x_);
  graph_.add_hooks(hooks);
  timer.emplace(graph_);
  graph_.replay();
  EXPECT_EQ(first(x_), 1);
  EXPECT_TRUE(contains(text, "ReplayTimer::take"));
  EXPECT_TRUE(contains(text, "within a hook of the same graph"));
}

TEST_F(InspectionMisuse, TimesOfReplaysOnAStreamThatCapturesAreRefused) {
  capture_increment(graph_, x_);
  CUDAGraph other;
  other.capture_begin();
  add(x_, 10);
  EXPECT_TRUE(contains(text_of<UsageError>([&] { (void)time_replay(graph_); }), "time_replay"));
  other.capture_end();
  other.replay();
  EXPECT_EQ(first(x_), 10);
}

TEST_F(InspectionMisuse, StacksMayBeRecordedFromAnyThreadInACaptureAndInAHook) {
  GraphHooks hooks;
  hooks.before_replay = [](const StreamRef&) { record_allocation_stacks(false); };
  graph_.add_hooks(hooks);
  capture(graph_, [&] {
    record_allocation_stacks(true);
    add(x_);
  });
  std::thread([] { record_allocation_stacks(true); }).join();
  graph_.replay();
  EXPECT_EQ(first(x_), 1);
}

TEST_F(InspectionMisuse, TheGraphsOfADeadInputAreUnchangedByTheRefusal) {
  std::optional<Buffer<int>> y(std::in_place, 1);
  capture(graph_, {.check_input_liveness = true}, [&] {
    add(x_);
    add(*y);
  });
  y.reset();
  for (int i = 0; i < 2; ++i) EXPECT_THROW(graph_.replay(), DeadInputError);
  EXPECT_EQ(first(x_), 0);
  EXPECT_EQ(graph_.inputs().size(), 2U);
}

}  // namespace
}  // namespace reprise::graphs::test
