// SPDX-License-Identifier: Apache-2.0
#include <gmock/gmock.h>

#include <array>
#include <functional>
#include <map>
#include <string>

#include "tests/support/faulty_backend.h"
#include "tests/unit/graph/graph_fixture.h"

// How many calls of the runtime an operation on a graph makes for each of its nodes: each is read once.

namespace reprise::graphs::test {
namespace {

using backend::Call;
using ::testing::ElementsAre;
using ::testing::IsEmpty;

/// The template of a graph: its own (KeepGraph::no), one that other code can request, or has requested.
enum class Template { own, kept, given_out };

class ReadsOfNodes : public ::testing::TestWithParam<Template> {
 protected:
  using CallsPerNode = std::map<std::string, int>;

  static backend::test::FaultyBackend& counting() {
    static auto& backend = *new backend::test::FaultyBackend(default_device().backend());
    return backend;
  }

  CUDAGraph captured(int nodes, Buffer<int>& to) const {
    CUDAGraph graph(keep());
    capture(graph, options_, [&] { launch_kernels(nodes, to); });
    if (GetParam() == Template::given_out) (void)graph.raw_cuda_graph();
    graph.replay();
    device_synchronize();
    return graph;
  }
  static void launch_kernels(int nodes, Buffer<int>& to) {
    for (int i = 0; i < nodes; ++i) add(to, i);
  }
  static void device_synchronize() { current_stream().synchronize(); }

  /// The calls that a graph of many kernels costs more than one of a few, for each kernel. `prepare` makes what is
  /// counted: what it returns is called with the counter at 0.
  static CallsPerNode per_node(const std::function<std::function<void()>(int nodes)>& prepare) {
    constexpr int few = 5, many = 25;
    std::array<int, backend::call_count> calls{};
    for (const int nodes : {few, many}) {
      const std::function<void()> operation = prepare(nodes);
      counting().forget_calls();
      operation();
      for (std::size_t i = 0; i < calls.size(); ++i)
        calls[i] = counting().calls(static_cast<Call>(i)) - (nodes == many ? calls[i] : 0);
    }
    CallsPerNode found;
    for (std::size_t i = 0; i < calls.size(); ++i) {
      const Call call = static_cast<Call>(i);
      // Not of the nodes: what a launch in a capture costs.
      if (call == Call::launch_kernel || call == Call::kernel_function || calls[i] < many - few) continue;
      EXPECT_EQ(calls[i] % (many - few), 0) << backend::cuda_name(call);
      found.emplace(backend::cuda_name(call), calls[i] / (many - few));
    }
    return found;
  }
  static KeepGraph keep() { return GetParam() == Template::own ? KeepGraph::no : KeepGraph::yes; }
  /// Nodes of this graph are not read again unless other code may have edited the template.
  static bool reads_again() { return GetParam() == Template::given_out; }

  const DeviceGuard device_{Device(counting())};
  const SideStream side_;
  Buffer<int> x_ = zeros(4), y_ = zeros(4);
  CUDAGraph graph_, other_, third_;
  GraphOptions options_;
};

std::string name_of(const ::testing::TestParamInfo<Template>& of) {
  constexpr std::array names{"own", "kept", "given_out"};
  return names.at(static_cast<std::size_t>(of.param));
}

INSTANTIATE_TEST_SUITE_P(Templates, ReadsOfNodes, ::testing::Values(Template::own, Template::kept, Template::given_out),
                         name_of);

constexpr const char* read_call = "cuGraphKernelNodeGetParams";
constexpr const char* write_call = "cuGraphNodeSetParams";

TEST_P(ReadsOfNodes, UpdateReadsEachNodeOfBothGraphsOnceAndWritesItOnce) {
  const auto first_update = [&](int nodes) {
    graph_ = captured(nodes, x_), other_ = captured(nodes, y_);
    return [&] { graph_.update(other_); };
  };
  EXPECT_THAT(per_node(first_update), ElementsAre(::testing::Pair(read_call, 2), ::testing::Pair(write_call, 1)));
  const auto later_update = [&](int nodes) {
    graph_ = captured(nodes, x_), other_ = captured(nodes, y_), third_ = captured(nodes, x_);
    graph_.update(other_);
    graph_.update(third_);
    return [&] { graph_.update(other_); };
  };
  if (reads_again())
    EXPECT_THAT(per_node(later_update), ElementsAre(::testing::Pair(read_call, 2), ::testing::Pair(write_call, 1)));
  else
    EXPECT_THAT(per_node(later_update), ElementsAre(::testing::Pair(write_call, 1)));
}

TEST_P(ReadsOfNodes, ARefusedUpdateReadsNoMoreForTheListOfDifferences) {
  const auto refused = [&](int nodes) {
    graph_ = captured(nodes, x_), other_ = captured(nodes + 1, y_);
    return [&] { EXPECT_THROW(graph_.update(other_), GraphUpdateError); };
  };
  EXPECT_THAT(per_node(refused), ElementsAre(::testing::Pair(read_call, 2)));
}

TEST_P(ReadsOfNodes, RecaptureReadsEachNewNodeOnce) {
  for (const bool looks_for_inputs : {false, true}) {
    options_.check_input_liveness = options_.inputs.retain = looks_for_inputs;
    const auto recapture = [&](int nodes) {
      graph_ = captured(nodes, x_);
      graph_.recapture([&] { launch_kernels(nodes, x_); });
      return [this, nodes] { EXPECT_TRUE(graph_.recapture([&] { launch_kernels(nodes, y_); }).in_place); };
    };
    CallsPerNode calls = per_node(recapture);
    calls.erase("cuFuncGetName");  // the inputs name their users
    const int reads = reads_again() ? 2 : 1;
    EXPECT_THAT(calls, ElementsAre(::testing::Pair(read_call, reads), ::testing::Pair(write_call, 1)))
        << looks_for_inputs;
  }
}

TEST_P(ReadsOfNodes, RecaptureInPlaceQueriesTheEdgesOfBothGraphsOnce) {
  graph_ = captured(5, x_);
  counting().forget_calls();
  EXPECT_TRUE(graph_.recapture([&] { launch_kernels(5, y_); }).in_place);
  EXPECT_EQ(counting().calls(Call::graph_edges), 2);
}

TEST_P(ReadsOfNodes, RecaptureWithANewExecutableReadsNoMore) {
  const auto recapture = [&](int nodes) {
    graph_ = captured(nodes, x_);
    return [this, nodes] { EXPECT_FALSE(graph_.recapture([&] { launch_kernels(nodes + 1, y_); }).in_place); };
  };
  EXPECT_THAT(per_node(recapture), ElementsAre(::testing::Pair(read_call, 2)));
}

TEST_P(ReadsOfNodes, CaptureWithAllChecksReadsEachNodeOnceInEachOfBothCaptures) {
  options_.check_input_liveness = true;
  options_.check_frozen_values = [] {};
  options_.report = ReportDetail::full;
  const auto capture_with_checks = [&](int nodes) {
    graph_ = CUDAGraph(keep());
    return [this, nodes] { capture(graph_, options_, [&] { launch_kernels(nodes, x_); }); };
  };
  CallsPerNode calls = per_node(capture_with_checks);
  calls.erase("cuFuncGetName");
  EXPECT_THAT(calls, ElementsAre(::testing::Pair(read_call, 2)));
}

TEST_P(ReadsOfNodes, ComparingTwoGraphsReadsEachNodeOnce) {
  const auto comparison = [&](int nodes) {
    graph_ = captured(nodes, x_), other_ = captured(nodes, y_);
    return [&] { EXPECT_FALSE(diff(graph_, other_).empty()); };
  };
  EXPECT_THAT(per_node(comparison), ElementsAre(::testing::Pair(read_call, 2)));
}

TEST_P(ReadsOfNodes, AParameterIsFoundWithOneReadAndSetWithoutAnother) {
  options_.check_input_liveness = options_.inputs.retain = true;
  std::optional<Parameter<int*>> x;
  const auto search = [&](int nodes) {
    graph_ = captured(nodes, x_);
    return [&] { x = graph_.parameter(x_.data()); };
  };
  EXPECT_THAT(per_node(search), ElementsAre(::testing::Pair(read_call, 1)));
  const auto setting = [&](int nodes) {
    graph_ = captured(nodes, x_);
    x = graph_.parameter(x_.data());
    return [&] { graph_.set(*x, y_.data()); };
  };
  CallsPerNode calls = per_node(setting);
  calls.erase("cuFuncGetName");
  if (reads_again())
    EXPECT_THAT(calls, ElementsAre(::testing::Pair("cuGraphExecNodeSetParams", 1), ::testing::Pair(read_call, 1),
                                   ::testing::Pair(write_call, 1)));
  else
    EXPECT_THAT(calls, ElementsAre(::testing::Pair("cuGraphExecNodeSetParams", 1), ::testing::Pair(write_call, 1)));
}

TEST_P(ReadsOfNodes, AValueThatAParameterHasCostsNoCall) {
  graph_ = captured(3, x_);
  const Parameter<int*> x = graph_.parameter(x_.data());
  graph_.set(x, y_.data());
  counting().forget_calls();
  graph_.set(x, y_.data());
  int calls = 0;
  for (std::size_t i = 0; i < backend::call_count; ++i) calls += counting().calls(static_cast<Call>(i));
  if (reads_again())
    EXPECT_GT(calls, 0);
  else
    EXPECT_EQ(calls, 0);
}

TEST_P(ReadsOfNodes, AHandleOfANodeMayBeUsedToChangeIt) {
  if (GetParam() == Template::own) GTEST_SKIP() << "other code must not change the template";
  graph_ = captured(2, x_);
  const Parameter<int*> x = graph_.parameter(x_.data());
  GraphNodeHandle const node = graph_.nodes()[1].native();
  backend::Backend& runtime = default_device().backend();
  backend::NodeParams params = backend::EmptyNodeParams{};
  ASSERT_EQ(runtime.graph_node_params(node, &params), ErrorCode::success);
  int* data = y_.data();
  int amount = 7;
  std::size_t size = x_.size();
  void* arguments[] = {&data, &amount, &size};
  std::get<backend::KernelNodeParams>(params).params = arguments;
  ASSERT_EQ(runtime.graph_node_set_params(node, params), ErrorCode::success);
  graph_.set(x, x_.data());
  EXPECT_EQ(graph_.nodes()[1].arg<int*>(0), x_.data());
}

TEST_P(ReadsOfNodes, AValueThatOtherCodeGaveTheTemplateReachesTheExecutableWhenItIsSet) {
  if (GetParam() == Template::own) GTEST_SKIP() << "other code must not change the template";
  for (const bool by_parameter : {true, false}) {
    graph_ = captured(1, x_);
    const Parameter<int*> x = graph_.parameter(x_.data());
    const GraphNode node = graph_.nodes()[0];
    backend::Backend& runtime = default_device().backend();
    backend::NodeParams params = backend::EmptyNodeParams{};
    ASSERT_EQ(runtime.graph_node_params(node.native(), &params), ErrorCode::success);
    int* data = y_.data();
    int amount = 7;
    std::size_t size = x_.size();
    void* arguments[] = {&data, &amount, &size};
    std::get<backend::KernelNodeParams>(params).params = arguments;
    ASSERT_EQ(runtime.graph_node_set_params(node.native(), params), ErrorCode::success);
    y_.fill_bytes_async(0);
    if (by_parameter)
      graph_.set(x, y_.data());
    else
      node.set_arg(0, y_.data());
    graph_.replay();
    EXPECT_EQ(first(y_), 7);
  }
}

TEST_P(ReadsOfNodes, AChangeOfTheTemplateByOtherCodeIsSeen) {
  if (GetParam() == Template::own) GTEST_SKIP() << "other code has no handle of the template";
  graph_ = captured(2, x_), other_ = captured(2, x_);
  EXPECT_THAT(diff(graph_, other_), IsEmpty());
  backend::Backend& runtime = default_device().backend();
  std::vector<GraphNodeHandle> nodes;
  backend::NodeParams params = backend::EmptyNodeParams{};
  ASSERT_EQ(runtime.graph_nodes(other_.raw_cuda_graph(), &nodes), ErrorCode::success);
  ASSERT_EQ(runtime.graph_node_params(nodes[1], &params), ErrorCode::success);
  int* data = x_.data();
  int amount = 7;
  std::size_t size = x_.size();
  void* arguments[] = {&data, &amount, &size};
  std::get<backend::KernelNodeParams>(params).params = arguments;
  ASSERT_EQ(runtime.graph_node_set_params(nodes[1], params), ErrorCode::success);
  ASSERT_EQ(diff(graph_, other_).size(), 1U);
  EXPECT_EQ(diff(graph_, other_)[0].first_value.substr(0, 3), "0x1");
  graph_.update(other_);
  EXPECT_EQ(graph_.nodes()[1].arg<int>(1), 7);
}

}  // namespace
}  // namespace reprise::graphs::test
