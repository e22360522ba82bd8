// SPDX-License-Identifier: Apache-2.0
#include <gmock/gmock.h>

#include <optional>
#include <stdexcept>
#include <string>
#include <vector>

#include "tests/support/warnings.h"
#include "tests/unit/graph/graph_fixture.h"

// GraphOptions::name: where the name of a graph appears.

namespace reprise::graphs::test {
namespace {

using reprise::test::Warnings;
using ::testing::ElementsAre;

class NamedGraphs : public ::testing::Test {
 protected:
  Buffer<int> x_ = zeros();
};

TEST_F(NamedGraphs, AreNamedInErrors) {
  CUDAGraph graph = capture({.name = "decoder"}, [&] { add(x_); });
  EXPECT_TRUE(contains(text_of<UsageError>([&] { graph.capture_begin(); }), "graph `decoder`"));
}

TEST_F(NamedGraphs, AreNamedWhereTheirTemplateCannotBeReached) {
  const CUDAGraph graph = capture({.name = "decoder"}, [&] { add(x_); });
  EXPECT_TRUE(contains(text_of<UsageError>([&] { static_cast<void>(graph.raw_cuda_graph()); }),
                       "needs a graph with KeepGraph::yes, and graph `decoder` has KeepGraph::no"));
}

TEST_F(NamedGraphs, AreNamedInReports) {
  try {
    capture({.name = "decoder"}, [&] { static_cast<void>(make_unsafe_call()); });
    FAIL() << "the capture should have been broken";
  } catch (const CaptureError& error) {
    EXPECT_EQ(error.report().graph, "decoder");
    EXPECT_TRUE(contains(error.what(), "The capture of graph `decoder` on stream"));
  }
}

TEST_F(NamedGraphs, AreNamedWhenAnInputIsDead) {
  CUDAGraph graph = capture({.name = "decoder", .check_input_liveness = true}, [&] { add(x_); });
  x_.reset();
  EXPECT_TRUE(contains(text_of<DeadInputError>([&] { graph.replay(); }), "of the graph `decoder`"));
}

TEST_F(NamedGraphs, AreNamedWhenAReplayIsRefused) {
  CUDAGraph graph = capture({.name = "decoder"}, [&] { add(x_); });
  CUDAGraph other;
  static_cast<void>(capture(other, {}, [&] {
    EXPECT_TRUE(contains(text_of<UsageError>([&] { graph.upload(current_stream()); }),
                         "CUDAGraph::upload of graph `decoder`: the stream is being captured"));
    add(x_);
  }));
}

TEST_F(NamedGraphs, AreNamedWhenALaunchFails) {
  CUDAGraph graph = capture({.name = "decoder"}, [&] { add(x_); });
  if (current_device().type() != DeviceType::host) GTEST_SKIP() << "failures are injected on host devices";
  const InjectedFailure failure({.call = "cuGraphLaunch", .code = ErrorCode::launch_failure});
  EXPECT_TRUE(contains(text_of<BackendError>([&] { graph.replay(); }), "graph `decoder`"));
}

TEST_F(NamedGraphs, AreNamedWhenTheyCannotBeInstantiated) {
  if (current_device().type() != DeviceType::host) GTEST_SKIP() << "failures are injected on host devices";
  const InjectedFailure failure({.call = "cuGraphInstantiateWithParams", .code = ErrorCode::invalid_value});
  EXPECT_TRUE(
      contains(text_of<BackendError>([&] { capture({.name = "decoder"}, [&] { add(x_); }); }), "graph `decoder`"));
}

TEST_F(NamedGraphs, AreNamedInTheWarningOfAHookThatThrew) {
  const Warnings warnings;
  capture({.hooks = {.reset = [] { throw std::runtime_error("no"); }}, .name = "decoder"}, [&] { add(x_); });
  EXPECT_THAT(warnings.texts(), ElementsAre("A hook `reset` of graph `decoder` threw: no"));
}

TEST_F(NamedGraphs, AreNamedInTheStatisticsOfTheirPool) {
  const MempoolId pool = graph_pool_handle();
  const CachingAllocator& allocator = CachingAllocator::of(current_device());
  Buffer<int> made;
  const auto body = [&] {
    made = Buffer<int>(1);
    add(made);
  };
  std::optional<CUDAGraph> encoder = capture({.pool = pool, .name = "encoder"}, body);
  const CUDAGraph unnamed = capture({.pool = pool}, body);
  EXPECT_THAT(allocator.statistics(pool).graphs, ElementsAre("encoder", ""));
  encoder.reset();
  EXPECT_THAT(allocator.statistics(pool).graphs, ElementsAre(""));
}

TEST_F(NamedGraphs, AreNamedWhenMemoryRunsOut) {
  const MempoolId pool = graph_pool_handle();
  Buffer<int> made;
  const auto body = [&] {
    made = Buffer<int>(1);
    add(made);
  };
  std::vector<CUDAGraph> graphs;
  for (const char* const name : {"encoder", "decoder", "", "decoder", ""})
    graphs.push_back(capture({.pool = pool, .name = name}, body));
  const CUDAGraph alone = capture({.name = "alone"}, body);
  const std::size_t bytes = default_device().memory_info().total;
  for (const std::string& text :
       {text_of<OutOfMemoryError>([&] { const Buffer<char> large(bytes); }),
        text_of<OutOfMemoryError>([&] { static_cast<void>(allocate_async(bytes + (std::size_t{1} << 40))); })}) {
    EXPECT_TRUE(contains(text, "of `encoder`, `decoder` (2 graphs), 2 without a name: 2.0 MiB, "));
    EXPECT_TRUE(contains(text, "of `alone`: 2.0 MiB, "));
  }
}

}  // namespace
}  // namespace reprise::graphs::test
