// SPDX-License-Identifier: Apache-2.0
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "backend/monitor.h"
#include "tests/unit/breakable/breakable_fixture.h"
#include "tests/unit/random/random_fixture.h"

// What covers the whole of a capture with eager parts: random numbers, liveness, annotations, reports, forks.

namespace reprise::breakables::test {
namespace {

TEST(RandomNumbersOfBreakableGraphs, AreThoseOfEagerRuns) {
  Generator generator(current_device(), 5), expected(current_device(), 5);
  Buffer<unsigned> a(4), b(4), c(4);
  BreakableGraph graph = breakable([&] {
    random::test::draw(generator, a);
    eager([&] { random::test::draw(generator, b, 3); });
    random::test::draw(generator, c);
  });
  for (int i = 0; i < 4; ++i) {
    if (i != 0) graph.replay();
    EXPECT_EQ(random::test::read(a), random::test::drawn(expected)) << i;
    EXPECT_EQ(random::test::read(b), random::test::drawn(expected, 4, 3)) << i;
    EXPECT_EQ(random::test::read(c), random::test::drawn(expected)) << i;
    EXPECT_EQ(generator.get_state(), expected.get_state());
  }
}

TEST(LivenessOfBreakableGraphs, IsCheckedBeforeEachSegment) {
  Buffer<int> x = zeros(), late = zeros();
  BreakableGraph graph = breakable({.check_input_liveness = true}, [&] {
    Buffer<int> scratch(1);
    multiply(x, 1, scratch);
    eager([] {});
    add(x);
    multiply(scratch, 1, scratch);
    add(late);
  });
  graph.replay();
  EXPECT_EQ(graph.segment(1).inputs().size(), 2u) << "memory of the pool is none";
  current_stream().synchronize();
  late.reset();
  EXPECT_THROW(graph.replay(), DeadInputError);
}

TEST(LivenessOfBreakableGraphs, MemoryThatIsFreedBehindItsSegmentIsRefused) {
  for (const bool checks : {false, true})
    for (const bool in_eager_part : {false, true}) {
      Buffer<int> x = zeros(), scratch = zeros();
      BreakableGraph graph;
      const std::string text = text_of<DeadInputError>([&] {
        breakable(graph, {.check_input_liveness = checks}, [&] {
          multiply(scratch, 1, x);
          eager([&] {
            if (in_eager_part) scratch.reset();
          });
          if (!in_eager_part) scratch = Buffer<int>(2);
          add(x);
        });
      });
      EXPECT_TRUE(contains(text, "breakable: 1 ")) << text;
      EXPECT_TRUE(contains(text, "reads or writes memory that was freed")) << text;
      EXPECT_TRUE(contains(text, "used by kernel reprise::graphs::test::Multiply (node 0)")) << text;
    }
}

TEST(LivenessOfBreakableGraphs, MemoryThatNoSegmentUsesMayBeFreedBehindIt) {
  const Warnings warnings;
  Buffer<int> x = zeros(), unused = zeros();
  BreakableGraph graph = breakable([&] {
    Buffer<int> temporary(1);
    multiply(x, 1, temporary);
    eager([&] { unused.reset(); });
    temporary.reset();
    add(x);
  });
  graph.replay();
  EXPECT_EQ(first(x), 2);
  EXPECT_TRUE(warnings.texts().empty());
}

TEST(AnnotationsOfBreakableGraphs, GoOnBehindAnEagerPart) {
  Buffer<int> x = zeros();
  BreakableGraph graph = breakable({.enable_annotations = true}, [&] {
    add(x);
    const annotate outer("outer");
    add(x);
    {
      const annotate inner({{"layer", "1"}});
      eager([] { const annotate within("eager"); });
      add(x);
      eager([] {});
      add(x);
    }
    add(x);
  });
  const auto texts = [&](std::size_t segment) {
    std::vector<Annotation> found;
    for (const AnnotatedNode& node : graph.segment(segment).annotations()) found.push_back(node.annotation);
    return found;
  };
  const Annotation outer{{"name", "outer"}}, both{{"layer", "1"}, {"name", "outer"}};
  EXPECT_EQ(texts(0), std::vector<Annotation>{outer});
  EXPECT_EQ(texts(1), std::vector<Annotation>{both});
  EXPECT_EQ(texts(2), (std::vector<Annotation>{both, outer}));
}

TEST(ReportsOfBreakableGraphs, NameTheAnnotationThatIsOpenInALaterSegment) {
  Buffer<int> x = zeros();
  BreakableGraph graph;
  EXPECT_THROW(breakable(graph, {.name = "step", .enable_annotations = true},
                         [&] {
                           const annotate outer("outer");
                           add(x);
                           eager([] {});
                           add(x);
                           current_stream().synchronize();
                         }),
               BackendError);
  ASSERT_TRUE(graph.capture_report().has_value());
  EXPECT_EQ(graph.capture_report()->graph, "step, segment 2");
  EXPECT_EQ(graph.capture_report()->annotation, (Annotation{{"name", "outer"}}));
}

TEST(ReportsOfBreakableGraphs, AddUpWhatAllSegmentsLeftOut) {
  std::string why;
  if (default_device().backend().monitor().watch_calls(&why) == nullptr) GTEST_SKIP() << why;
  const Warnings warnings;
  Buffer<int> x = zeros(), y = zeros();
  const Stream side;
  side.wait(current_stream());
  BreakableGraph graph = breakable({.capture_error_mode = CaptureMode::relaxed, .report = ReportDetail::full}, [&] {
    add(x);
    add(y, 1, side);  // not captured
    eager([&] { add(x); });
    add(x);
    add(y, 1, side);
  });
  side.synchronize();
  ASSERT_TRUE(graph.capture_report().has_value());
  std::size_t times = 0;
  for (const CaptureReport::Call& call : graph.capture_report()->not_captured) times += call.times;
  EXPECT_EQ(times, 2u) << graph.capture_report()->str();
  EXPECT_EQ(graph.capture_report()->nodes, 2u);
}

TEST(ForksOfBreakableGraphs, AreAllowedWithinASegment) {
  Buffer<int> x = zeros(), y = zeros();
  const Stream side;
  current_stream().synchronize();
  BreakableGraph graph = breakable([&](StreamRef stream) {
    for (int i = 0; i < 3; ++i) {
      side.wait(stream);
      add(x);
      add(y, 1, side);
      stream.wait(side);
      eager([] {});
    }
  });
  graph.replay();
  EXPECT_EQ(first(x), 6);
  EXPECT_EQ(first(y), 6);
}

TEST(ForksOfBreakableGraphs, ThatAreNotJoinedAtABoundaryAreRefused) {
  Buffer<int> x = zeros(), y = zeros();
  const Stream side;
  current_stream().synchronize();
  BreakableGraph graph;
  std::string text;
  try {
    breakable(graph, {}, [&](StreamRef stream) {
      add(x);
      side.wait(stream);
      add(y, 1, side);
      eager([] {});
      stream.wait(side);
    });
  } catch (const CaptureError& error) {
    text = error.what();
    EXPECT_EQ(error.code(), ErrorCode::stream_capture_unjoined);
  }
  EXPECT_TRUE(contains(text, "forks must be joined there")) << text;
  EXPECT_TRUE(graph.capture_report().has_value());
  EXPECT_EQ(first(x), 0) << "the segment did not run";
  EXPECT_EQ(side.capture_status(), CaptureStatus::none);
  breakable(graph, {}, [&] { add(x); });
  EXPECT_EQ(first(x), 1);
}

TEST(ForksOfBreakableGraphs, OfAnEarlierSegmentAreRefusedInALaterOneThatDoesNotForkThem) {
  Buffer<int> x = zeros(), y = zeros();
  const Stream side;
  current_stream().synchronize();
  const auto body = [&](bool again) {
    return [&, again](StreamRef stream) {
      for (int segment = 0; segment < 3; ++segment) {
        if (segment != 0) eager([] {});
        if (segment == 0 || again) side.wait(stream);
        add(y, 1, side);
        if (segment == 0 || again) stream.wait(side);
        add(x);
      }
    };
  };
  const std::string text = text_of<UsageError>([&] { static_cast<void>(breakable(body(false))); });
  EXPECT_TRUE(contains(text, "launch: expected work for a stream that takes part in the capture")) << text;
  EXPECT_TRUE(contains(text, "found the stream 0x")) << text;
  EXPECT_TRUE(
      contains(text, "(forked off in an earlier segment, not in this one), where it would be executed at once"));
  side.ref().synchronize();
  EXPECT_EQ(first(x), 1) << "the first segment";
  EXPECT_EQ(first(y), 1);
  BreakableGraph graph = breakable(body(true));
  graph.replay();
  EXPECT_EQ(first(x), 7);
  EXPECT_EQ(first(y), 7);
}

TEST(ForksOfBreakableGraphs, OfAnEarlierSegmentMayBeUsedInEagerPartsAndDestroyed) {
  Buffer<int> x = zeros(), y = zeros();
  const Stream side;
  auto gone = std::make_unique<Stream>();
  current_stream().synchronize();
  BreakableGraph graph = breakable([&](StreamRef stream) {
    for (const StreamRef each : {side.ref(), gone->ref()}) {
      each.wait(stream);
      add(y, 1, each);
      stream.wait(each);
    }
    eager([side = side.ref(), y = y.data()](StreamRef stream) {
      side.wait(stream);
      launch(side, 1, graphs::test::Add{}, y, 1, std::size_t{1});
      side.synchronize();
    });
    add(x);
    gone.reset();
    add(x);
    eager([] {});
    add(x);
  });
  graph.replay();
  EXPECT_EQ(first(x), 6);
  EXPECT_EQ(first(y), 6);
}

TEST(ForksOfBreakableGraphs, OfAnEarlierSegmentMayLeaveTheirHandlesToOtherStreams) {
  Buffer<int> x = zeros(), y = zeros();
  auto gone = std::make_unique<Stream>();
  std::vector<Stream> others;
  current_stream().synchronize();
  BreakableGraph graph = breakable({.capture_error_mode = CaptureMode::relaxed}, [&](StreamRef stream) {
    gone->ref().wait(stream);
    add(x, 1, *gone);
    stream.wait(*gone);
    eager([] {});
    add(x);
    const StreamHandle handle = gone->native();
    gone.reset();
    for (int i = 0; i < 20 && (others.empty() || others.back().native() != handle); ++i) others.emplace_back();
    add(y, 1, others.back());  // no part of the graph, as before the first eager part
    eager([] {});
    add(x);
  });
  for (const Stream& each : others) each.synchronize();
  graph.replay();
  EXPECT_EQ(first(x), 6);
  EXPECT_EQ(first(y), 1);
}

TEST(MemoryOfBreakableGraphs, OfAWriteToTheStackThatIsGoneIsNotUsed) {
  Buffer<int> x = zeros();
  std::vector<int> seen(1);
  BreakableGraph graph = breakable([&] {
    add(x);
    copy_async(seen.data(), x.data(), sizeof(int));  // outlives the graph
    eager([&] { current_stream().synchronize(); });
  });
  graph.replay();
  EXPECT_EQ(seen[0], 2);
}

}  // namespace
}  // namespace reprise::breakables::test
