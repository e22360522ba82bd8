// SPDX-License-Identifier: Apache-2.0
#include <string>
#include <vector>

#include "tests/support/test_file.h"
#include "tests/unit/random/random_fixture.h"

// GraphOptions::discard_template: what works without the template, what is refused, and what keeps it.

namespace reprise::random::test {
namespace {

/// A call that may need the template of a captured graph.
struct CallOfGraph {
  const char* name;
  bool needs_template;
  void (*call)(CUDAGraph& graph);
};

void dump(CUDAGraph& graph) {
  const reprise::test::TestFile file;
  graph.debug_dump(file.path());
}

const std::vector<CallOfGraph>& calls_of_graph() {
  static const std::vector<CallOfGraph> calls = {
      {"node_count", true, [](CUDAGraph& graph) { EXPECT_GT(graph.node_count(), 0U); }},
      {"debug_dump", true, &dump},
      {"time_replay", true, [](CUDAGraph& graph) { EXPECT_FALSE(time_replay(graph).nodes.empty()); }},
      {"annotations", false, [](CUDAGraph& graph) { EXPECT_FALSE(graph.annotations().empty()); }},
      {"inputs", false, [](CUDAGraph& graph) { EXPECT_FALSE(graph.inputs().empty()); }},
      {"capture_report", false, [](CUDAGraph& graph) { EXPECT_FALSE(graph.capture_report().has_value()); }},
      {"pool", false, [](CUDAGraph& graph) { EXPECT_TRUE(graph.pool()); }},
      {"raw_cuda_graph_exec", false, [](CUDAGraph& graph) { EXPECT_NE(graph.raw_cuda_graph_exec(), nullptr); }},
      {"retain", false, [](CUDAGraph& graph) { graph.retain(std::make_shared<int>(1)); }},
      {"upload", false, [](CUDAGraph& graph) { graph.upload(); }},
      {"replay", false, [](CUDAGraph& graph) { graph.replay(); }},
  };
  return calls;
}

GraphOptions everything_but_the_template() {
  GraphOptions options;
  options.discard_template = true;
  options.enable_annotations = true;
  options.check_input_liveness = true;
  return options;
}

class DiscardedTemplate : public ::testing::Test {
 protected:
  const SideStream side_;
  Generator generator_{current_device(), 42};
  Buffer<unsigned> x_{4};
  CUDAGraph graph_;
};

TEST_F(DiscardedTemplate, IsNamedByEachCallThatNeedsItAndAllOthersWork) {
  capture(graph_, everything_but_the_template(), [&] {
    const annotate scope("fill");
    x_.fill_bytes_async(7);
  });
  for (const CallOfGraph& each : calls_of_graph()) {
    SCOPED_TRACE(each.name);
    if (each.needs_template)
      EXPECT_TRUE(contains(text_of<UsageError>([&] { each.call(graph_); }), "discard_template"));
    else
      EXPECT_NO_THROW(each.call(graph_));
  }
  EXPECT_EQ(read(x_), std::vector<unsigned>(4, 0x07070707));
}

TEST_F(DiscardedTemplate, IsKeptByAGraphThatDrawsRandomNumbers) {
  const Generator eager = generator_.clone();
  capture(graph_, everything_but_the_template(), [&] {
    const annotate scope("draw");
    draw(generator_, x_);
  });
  graph_.replay();
  EXPECT_EQ(read(x_), drawn(eager));
  for (const CallOfGraph& each : calls_of_graph()) {
    SCOPED_TRACE(each.name);
    EXPECT_NO_THROW(each.call(graph_));
  }
  generator_.set_current_seed(7);  // changes a parameter of the executable
  graph_.replay();
  EXPECT_EQ(read(x_), drawn(Generator(current_device(), 7)));
}

TEST_F(DiscardedTemplate, IsDiscardedAgainByTheNextCaptureWithoutRandomNumbers) {
  capture(graph_, everything_but_the_template(), [&] { draw(generator_, x_); });
  graph_.reset();
  capture(graph_, everything_but_the_template(), [&] { x_.fill_bytes_async(0); });
  EXPECT_TRUE(contains(text_of<UsageError>([&] { (void)graph_.node_count(); }), "discard_template"));
}

TEST_F(DiscardedTemplate, IsDiscardedByARecaptureWithTheOption) {
  const auto body = [&] { x_.fill_bytes_async(3); };
  capture(graph_, body);
  const Recapture again = graph_.recapture(everything_but_the_template(), body);
  EXPECT_FALSE(again.in_place);
  EXPECT_TRUE(contains(again.reason, "discard_template")) << again.reason;
  EXPECT_TRUE(contains(text_of<UsageError>([&] { (void)graph_.node_count(); }), "discard_template"));
  graph_.replay();
  EXPECT_EQ(read(x_)[0], 0x03030303U);
}

TEST_F(DiscardedTemplate, DoesNotKeepARefusalFromNamingTheNodeThatUsesDeadMemory) {
  capture(graph_, everything_but_the_template(), [&] {
    const annotate scope("fill");
    x_.fill_bytes_async(7);
  });
  x_.reset();
  EXPECT_TRUE(contains(text_of<DeadInputError>([&] { graph_.replay(); }), "fill"));
}

}  // namespace
}  // namespace reprise::random::test
