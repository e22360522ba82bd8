// SPDX-License-Identifier: Apache-2.0
#include <gmock/gmock.h>

#include <chrono>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "inspect/annotations/progress_marks.h"
#include "tests/unit/inspect/annotations_fixture.h"

// GraphOptions::progress_marks: how far a replay has come.

namespace reprise::graphs::test {
namespace {

GraphOptions marked() {
  GraphOptions options;
  options.progress_marks = true;
  options.capture_error_mode = CaptureMode::relaxed;
  return options;
}

class ProgressMarksOfGraphs : public Annotations {
 protected:
  /// The mark in the error of a wait that ends too early.
  std::string time_out() {
    try {
      graph_.synchronize(std::chrono::milliseconds(0));
      ADD_FAILURE() << "the replay is held";
    } catch (const TimeoutError& error) {
      return error.last_mark();
    }
    return "no error";
  }
  std::string last() const { return inspect::annotation_text(graph_.last_mark().value_or(Annotation{})); }

  const SideStream side_;
};

TEST_F(ProgressMarksOfGraphs, NameTheLastScopeWhoseEndWasReached) {
  reprise::test::Gate gate;
  capture(graph_, marked(), [&] {
    {
      const annotate scope("forward");
      add(x_);
    }
    {
      const annotate scope("backward");
      launch_host([&] { gate.stand(); });
      add(x_);
    }
  });
  EXPECT_EQ(graph_.last_mark(), std::nullopt);  // there was no replay
  graph_.replay();
  ASSERT_TRUE(gate.wait_until_reached());
  EXPECT_EQ(last(), "forward");
  try {
    graph_.synchronize(std::chrono::milliseconds(5));
    ADD_FAILURE() << "the replay is held";
  } catch (const TimeoutError& error) {
    EXPECT_EQ(error.last_mark(), "forward");
    EXPECT_TRUE(contains(error.what(), "The last scope whose end the graph has reached is forward."));
  }
  gate.open();
  graph_.synchronize(std::chrono::seconds(30));
  EXPECT_EQ(last(), "backward");
}

TEST_F(ProgressMarksOfGraphs, AreNotSetOnStreamsThatAreJoinedWithinTheScope) {
  const Stream fork;
  capture(graph_, marked(), [&](const StreamRef& here) {
    {
      const annotate scope("whole");
      add(x_);
    }
    fork.wait(here);
    const annotate scope("branch");
    const StreamGuard guard(fork);
    const annotate inner("in the fork");
    add(x_);
    here.wait(fork);
  });
  graph_.replay();
  graph_.synchronize(std::chrono::seconds(30));
  EXPECT_EQ(last(), "branch");
}

TEST_F(ProgressMarksOfGraphs, AreClearedByTheNextReplay) {
  reprise::test::Gate gate;
  bool hold = false;
  capture(graph_, marked(), [&] {
    launch_host([&] {
      if (hold) gate.stand();
    });
    const annotate scope("step");
    add(x_);
  });
  graph_.replay();
  side_.ref().synchronize();
  EXPECT_EQ(last(), "step");
  hold = true;
  graph_.replay();
  ASSERT_TRUE(gate.wait_until_reached());
  EXPECT_EQ(graph_.last_mark(), std::nullopt);
  EXPECT_TRUE(contains(text_of<TimeoutError>([&] { graph_.synchronize(std::chrono::milliseconds(1)); }),
                       "The graph has reached the end of no scope."));
  gate.open();
  side_.ref().synchronize();
}

TEST_F(ProgressMarksOfGraphs, HaveTheKeysOfOuterScopes) {
  capture(graph_, marked(), [&] {
    const annotate outer("model");
    add(x_);
    const annotate inner({{"layer", "3"}});
    add(x_);
  });
  graph_.replay();
  side_.ref().synchronize();
  EXPECT_EQ(graph_.last_mark(), (Annotation{{"name", "model"}}));
  EXPECT_EQ(texts(graph_), (Texts{"", "model", "model, layer=3", "model, layer=3", "model"}));
}

TEST_F(ProgressMarksOfGraphs, AreSetInBodiesOfControlFlow) {
  Buffer<std::uint32_t> condition(1);
  condition.write(std::vector<std::uint32_t>{1});
  capture(graph_, marked(), [&] {
    if_(condition.data(), [&] {
      const annotate scope("body");
      add(x_);
    });
  });
  graph_.replay();
  side_.ref().synchronize();
  EXPECT_EQ(last(), "body");
}

TEST_F(ProgressMarksOfGraphs, AreOfNoMoreScopesThanTheLimit) {
  using inspect::ProgressMarks;
  ProgressMarks marks(std::make_shared<ProgressMarks::Words>(default_device()));
  capture(graph_, [&] {
    marks.clear_on(current_stream());
    for (std::size_t i = 0; i <= ProgressMarks::limit; ++i)
      marks.add(current_stream(), {{"name", std::to_string(i)}}, false);
  });
  EXPECT_EQ(graph_.node_count(), ProgressMarks::limit + 1);
  EXPECT_EQ(marks.nodes(), ProgressMarks::limit + 1);
  graph_.replay();
  side_.ref().synchronize();
  EXPECT_EQ(marks.last(), (Annotation{{"name", std::to_string(ProgressMarks::limit - 1)}}));
}

TEST_F(ProgressMarksOfGraphs, AreNoWorkOfACapture) {
  EXPECT_THROW(capture(graph_, marked(), [&] { const annotate scope("nothing"); }), EmptyCaptureError);
}

TEST_F(ProgressMarksOfGraphs, DoNotDifferBetweenCapturesThatAreCompared) {
  GraphOptions options = marked();
  options.check_frozen_values = no_next;
  const auto step = [&] {
    const annotate scope("step");
    add(x_);
  };
  capture(graph_, options, step);
  EXPECT_TRUE(diff(graph_, capture(options, step)).empty());
  EXPECT_TRUE(graph_.recapture(step).in_place);
  graph_.replay();
  side_.ref().synchronize();
  EXPECT_EQ(last(), "step");
}

TEST_F(ProgressMarksOfGraphs, AreThoseOfTheCaptureThatTheGraphWasUpdatedTo) {
  const auto capture_scope = [&](CUDAGraph& graph, const char* name) {
    capture(graph, marked(), [&] {
      const annotate scope(name);
      add(x_);
    });
  };
  capture_scope(graph_, "before");
  {
    CUDAGraph next;
    capture_scope(next, "after");
    graph_.update(next);
  }
  graph_.replay();
  side_.ref().synchronize();
  EXPECT_EQ(last(), "after");
}

TEST_F(ProgressMarksOfGraphs, OfAnEarlierCaptureAreNoneOfALaterOne) {
  const auto body = [&](const char* name, int kernels) {
    return [this, name, kernels] {
      const annotate scope(name);
      for (int i = 0; i < kernels; ++i) add(x_);
    };
  };
  capture(graph_, marked(), body("before", 1));
  for (const int kernels : {1, 2}) {  // in place, and anew
    graph_.replay();
    side_.ref().synchronize();
    ASSERT_NE(graph_.last_mark(), std::nullopt);
    EXPECT_EQ(graph_.recapture(body("after", kernels)).in_place, kernels == 1);
    EXPECT_EQ(graph_.last_mark(), std::nullopt) << "no replay of it has begun";
    reprise::test::Gate gate;
    launch_host([&] { gate.stand(); });
    graph_.replay();
    EXPECT_EQ(graph_.last_mark(), std::nullopt) << "it has not begun";
    EXPECT_EQ(time_out(), "");
    gate.open();
    side_.ref().synchronize();
    EXPECT_EQ(last(), "after");
  }
}

TEST_F(ProgressMarksOfGraphs, OfAReplayThatARecaptureOvertakesAreNoneOfThatCapture) {
  reprise::test::Gate gate;
  const auto scope = [&](const char* name) {
    const annotate within(name);
    add(x_);
  };
  const auto body = [&](const char* first, const char* second) {
    scope(first);
    launch_host([&] { gate.stand(); });
    scope(second);
  };
  capture(graph_, marked(), [&] { body("one", "two"); });
  const Stream replayed;
  CUDAGraph beside;
  const GraphOptions options{.capture_error_mode = CaptureMode::relaxed, .allow_empty = true};
  capture(beside, options, [&] {  // during another capture, a recapture does not wait for the device
    const StreamGuard guard(replayed);
    graph_.replay();
    ASSERT_TRUE(gate.wait_until_reached());
    EXPECT_EQ(last(), "one");
    graph_.recapture([&] { body("three", "four"); });
    EXPECT_EQ(graph_.last_mark(), std::nullopt);
    gate.open();
    replayed.synchronize();
    EXPECT_EQ(graph_.last_mark(), std::nullopt) << "that was the end of \"two\"";
  });
}

TEST_F(ProgressMarksOfGraphs, OfTwoGraphsStayApartAfterAnUpdate) {
  CUDAGraph other;
  const auto capture_scopes = [&](CUDAGraph& graph, const char* first, const char* second) {
    capture(graph, marked(), [&] {
      for (const char* const name : {first, second}) {
        const annotate scope(name);
        add(x_);
      }
    });
  };
  capture_scopes(graph_, "a", "b");
  capture_scopes(other, "c", "d");
  graph_.replay();
  other.replay();
  side_.ref().synchronize();
  graph_.update(other);
  EXPECT_EQ(graph_.last_mark(), std::nullopt);
  EXPECT_THAT(diff(graph_, other), ::testing::IsEmpty());
  other.replay();
  side_.ref().synchronize();
  EXPECT_EQ(graph_.last_mark(), std::nullopt) << "only the other one has run";
  graph_.replay();
  side_.ref().synchronize();
  EXPECT_EQ(last(), "d");
  capture_scopes(other = CUDAGraph(), "e", "f");
  graph_.update(other);
  graph_.replay();
  side_.ref().synchronize();
  EXPECT_EQ(last(), "f");
  EXPECT_EQ(other.last_mark(), std::nullopt);
}

TEST_F(ProgressMarksOfGraphs, AreRefusedWithoutTheOption) {
  capture(graph_, annotated(), [&] { add(x_); });
  EXPECT_TRUE(contains(text_of<UsageError>([&] { (void)graph_.last_mark(); }), "without GraphOptions::progress_marks"));
  graph_.reset();
  EXPECT_THROW((void)graph_.last_mark(), UsageError);
}

}  // namespace
}  // namespace reprise::graphs::test
