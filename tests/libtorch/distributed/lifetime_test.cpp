// SPDX-License-Identifier: Apache-2.0
#include <chrono>
#include <optional>
#include <string>
#include <thread>

#include "inspect/annotations/annotation_text.h"
#include "tests/libtorch/distributed/distributed_fixture.h"
#include "tests/support/by_steps.h"

// Graphs with collectives, the ends of their groups, and waits for a time.

namespace reprise::libtorch::test {
namespace {

using std::chrono::milliseconds;
using ::testing::AllOf;
using ::testing::HasSubstr;

class GraphsWithCollectives : public TwoProcesses {
 protected:
  void SetUp() override {
    TwoProcesses::SetUp();
    if (!IsSkipped()) x_ = torch::ones({3}, device_).requires_grad_();
  }
  /// The gradient of x becomes the average of `factor_ * (rank + 1)`.
  void capture_into(CUDAGraph& graph, DataParallel& parallel, GraphOptions options = {}) {
    factor_ = torch::ones({}, device_);
    capture(graph, options, [&] {
      const annotate scope("forward");
      x_.mutable_grad() = Tensor();
      (x_ * factor_ * (rank() + 1)).sum().backward();
      {
        const annotate inner("reduce");
        parallel.finish();
      }
    });
  }
  /// The last mark of a replay that goes no further, once it is there.
  static void wait_for_mark(const CUDAGraph& graph, const std::string& mark) {
    const auto end = std::chrono::steady_clock::now() + std::chrono::minutes(5);
    while (inspect::annotation_text(graph.last_mark().value_or(Annotation{})) != mark &&
           std::chrono::steady_clock::now() < end)
      std::this_thread::yield();
  }
  void expect_average(float factor) { EXPECT_TRUE(torch::equal(x_.grad().cpu(), torch::full({3}, 1.5F * factor))); }

  Tensor x_, factor_;
};

TEST_F(GraphsWithCollectives, KeepTheGroupAndTheBuckets) {
  CUDAGraph graph;
  {
    DataParallel parallel({x_}, make_group());
    capture_into(graph, parallel);
  }
  for (const float factor : {2.0F, 3.0F}) {
    factor_.fill_(factor);
    graph.replay();
    expect_average(factor);
  }
  stream_->synchronize();
}

TEST_F(GraphsWithCollectives, MayEndBeforeTheGroup) {
  DataParallel parallel({x_}, make_group());
  {
    CUDAGraph graph;
    capture_into(graph, parallel);
    graph.replay();
    stream_->synchronize();
  }
  x_.mutable_grad() = Tensor();
  (x_ * (rank() + 1)).sum().backward();
  parallel.finish();
  expect_average(1);
}

TEST_F(GraphsWithCollectives, KeepTheGroupAsChildrenOfAnotherGraph) {
  CUDAGraph parent;
  {
    CUDAGraph child;
    DataParallel parallel({x_}, make_group());
    capture_into(child, parallel);
    capture(parent, [&] { child.replay(); });
  }
  parent.replay();
  expect_average(1);
}

TEST_F(GraphsWithCollectives, CanBeWaitedForWithATimeThatIsEnough) {
  DataParallel parallel({x_}, make_group());
  CUDAGraph graph;
  capture_into(graph, parallel);
  graph.replay();
  graph.synchronize(std::chrono::seconds(60));
  expect_average(1);
}

TEST_F(GraphsWithCollectives, ThatAnotherRankDoesNotReplayAreAbortedAndNamed) {
  reprise::test::skip_by_steps();
  const auto group = make_group();
  DataParallel parallel({x_}, group);
  GraphOptions options;
  options.name = "step";
  options.progress_marks = true;
  CUDAGraph graph, another;
  capture_into(graph, parallel, options);
  capture_into(another, parallel);
  if (rank() == 0) {
    graph.replay();
    wait_for_mark(graph, "forward, pass=backward");
    std::optional<TimeoutError> error;
    try {
      graph.synchronize(milliseconds(200));
    } catch (const TimeoutError& thrown) {
      error = thrown;
    }
    ASSERT_TRUE(error.has_value());
    EXPECT_EQ(error->graph(), "step");
    EXPECT_EQ(error->device(), here_->str());
    EXPECT_EQ(error->last_mark(), "forward, pass=backward");  // what autograd did in the scope
    EXPECT_THAT(error->what(), AllOf(HasSubstr("graph `step`"), HasSubstr("200 ms"), HasSubstr("rank 0 of 2"),
                                     HasSubstr("are being aborted")));
    stream_->synchronize();  // what was aborted ends
    for (CUDAGraph* const each : {&graph, &another})
      EXPECT_THAT(refusal_of([&] { each->replay(); }), HasSubstr("a communicator that was aborted (rank 0 of 2)"));
  }
  meet("aborted");
  graph.reset();
  another.reset();
  if (rank() == 1) group->abort();  // does not wait for the other one in its end
}

TEST_F(GraphsWithCollectives, NameTheLastScopeThatTheyReached) {
  reprise::test::skip_by_steps();
  const auto group = make_group();
  DataParallel parallel({x_}, group);
  const Tensor y = torch::zeros({}, device_);
  GraphOptions options;
  options.progress_marks = true;
  options.capture_error_mode = CaptureMode::thread;
  CUDAGraph graph;
  capture(graph, options, [&] {
    {
      const annotate scope("before");
      y.add_(1);
    }
    x_.mutable_grad() = Tensor();
    (x_ * (rank() + 1)).sum().backward();
    parallel.finish();
  });
  if (rank() == 0) {
    graph.replay();
    wait_for_mark(graph, "before");
    try {
      graph.synchronize(milliseconds(300));
      ADD_FAILURE() << "the other rank does not replay";
    } catch (const TimeoutError& error) {
      EXPECT_EQ(error.last_mark(), "before");
      EXPECT_THAT(error.what(), HasSubstr("The last scope whose end the graph has reached is before."));
    }
    stream_->synchronize();
  }
  meet("aborted");
  graph.reset();
  if (rank() == 1) group->abort();
}

}  // namespace
}  // namespace reprise::libtorch::test
