// SPDX-License-Identifier: Apache-2.0
#include <gmock/gmock.h>

#include <array>
#include <cstring>
#include <memory>
#include <optional>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "tests/support/faulty_backend.h"
#include "tests/unit/graph/graph_fixture.h"

// The nodes of a graph: what views show, and changes of them.

namespace reprise::graphs::test {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;
using ::testing::SizeIs;

/// Stores a value that has padding around it.
template <class T>
struct StoreOne {
  REPRISE_KERNEL void operator()(Thread, char offset, T value, T* to) const { to[static_cast<int>(offset)] = value; }
};

/// y = x, then y = 7 twice, then x += 2 and y = 3 * x on another stream.
class NodesOfGraphs : public ::testing::TestWithParam<KeepGraph> {
 protected:
  void capture_all(const GraphOptions& options = {}) {
    capture(graph_, options, [&] {
      copy_async(y_.data(), x_.data(), y_.size_bytes());
      y_.fill_bytes_async(7);
      {
        const annotate scope("addition");
        add(x_, 2);
      }
      multiply(x_, 3, y_);
    });
  }

  const SideStream side_;
  Buffer<int> x_ = zeros(8), y_ = zeros(8), z_ = zeros(8);
  CUDAGraph graph_{GetParam()};
};

INSTANTIATE_TEST_SUITE_P(Kept, NodesOfGraphs, ::testing::Values(KeepGraph::no, KeepGraph::yes), [](const auto& info) {
  return info.param == KeepGraph::yes ? std::string("yes") : std::string("no");
});

TEST_P(NodesOfGraphs, ShowTypesNamesShapesAndArguments) {
  capture_all({.enable_annotations = true});
  const std::vector<GraphNode> nodes = graph_.nodes();
  ASSERT_THAT(nodes, SizeIs(4));
  EXPECT_EQ(nodes[0].type(), NodeType::memcpy);
  EXPECT_EQ(nodes[0].memcpy_params(), (MemcpyNodeParams{y_.data(), x_.data(), 8 * sizeof(int)}));
  EXPECT_EQ(nodes[0].name(), "memcpy");
  EXPECT_EQ(nodes[1].type(), NodeType::memset);
  EXPECT_EQ(nodes[1].memset_params().destination, y_.data());
  EXPECT_EQ(nodes[1].memset_params().value & 0xff, 7U);
  EXPECT_EQ(nodes[1].memset_params().element_bytes * nodes[1].memset_params().count, 8 * sizeof(int));
  EXPECT_EQ(nodes[2].type(), NodeType::kernel);
  EXPECT_EQ(nodes[2].index(), 2U);
  EXPECT_EQ(nodes[2].name(), "reprise::graphs::test::Add");
  EXPECT_TRUE(contains(nodes[2].str(), "reprise::graphs::test::Add (node 2) in addition"));
  EXPECT_EQ(nodes[2].annotation(), (Annotation{{"name", "addition"}}));
  EXPECT_THAT(nodes[3].annotation(), IsEmpty());
  EXPECT_EQ(nodes[2].launch_config().block, Dim3(256));
  EXPECT_EQ(nodes[2].arg_count(), 3U);
  EXPECT_EQ(nodes[2].arg<int*>(0), x_.data());
  EXPECT_EQ(nodes[2].arg<int>(1), 2);
  EXPECT_EQ(nodes[2].arg<std::size_t>(2), 8U);
  EXPECT_EQ(nodes[3].arg<const int*>(0), x_.data());
  EXPECT_TRUE(nodes[3].enabled());
}

TEST_P(NodesOfGraphs, ShowEachArgumentWithOffsetTypeAndBytes) {
  Buffer<double> to(4);
  capture(graph_, [&] { launch(LaunchConfig{}, StoreOne<double>{}, char{1}, 2.5, to.data()); });
  const std::vector<NodeArgument> args = graph_.nodes().front().args();
  ASSERT_THAT(args, SizeIs(3));
  EXPECT_EQ(args[0].offset, 0U);
  EXPECT_EQ(args[1].offset, 8U);
  EXPECT_EQ(args[2].offset, 16U);
  EXPECT_EQ(args[0].bytes, std::vector<std::byte>{std::byte{1}});
  double value = 0;
  ASSERT_THAT(args[1].bytes, SizeIs(sizeof value));
  std::memcpy(&value, args[1].bytes.data(), sizeof value);
  EXPECT_EQ(value, 2.5);
  EXPECT_EQ(args[1].type, "double");
  EXPECT_EQ(args[2].type, "double*");
}

TEST_P(NodesOfGraphs, ShowWhatTheyDependOn) {
  const Stream other;
  capture(graph_, [&] {
    const StreamRef here = current_stream();
    add(x_);
    other.wait(here);
    add(z_, 1, other);
    add(y_);
    here.wait(other);
    multiply(x_, 3, y_);
  });
  const std::vector<GraphNode> nodes = graph_.nodes();
  ASSERT_THAT(nodes, SizeIs(4));
  EXPECT_THAT(nodes[0].dependencies(), IsEmpty());
  EXPECT_THAT(nodes[1].dependencies(), ElementsAre(NodeDependency{0, {}}));
  EXPECT_THAT(nodes[3].dependencies(), ElementsAre(NodeDependency{1, {}}, NodeDependency{2, {}}));
}

TEST_P(NodesOfGraphs, AnArgumentIsChangedInExecutableAndTemplateAndStays) {
  capture_all();
  graph_.replay();
  EXPECT_EQ(read(y_), std::vector<int>(8, 6));
  const GraphNode node = graph_.node("Add");
  node.set_arg(1, 5);
  EXPECT_EQ(node.arg<int>(1), 5);
  EXPECT_EQ(graph_.nodes()[2].arg<int>(1), 5);
  graph_.replay();
  EXPECT_EQ(read(y_), std::vector<int>(8, 21));
  if (GetParam() == KeepGraph::yes) {
    graph_.instantiate();
    graph_.replay();
    EXPECT_EQ(read(y_), std::vector<int>(8, 36));
  }
}

TEST_P(NodesOfGraphs, WithoutAnExecutableTheTemplateChanges) {
  capture_all();
  if (GetParam() == KeepGraph::no) return;
  graph_.node("Add").set_arg(1, 5);
  graph_.nodes()[3].set_enabled(false);
  graph_.replay();
  EXPECT_EQ(read(x_), std::vector<int>(8, 5));
  EXPECT_EQ(read(y_), std::vector<int>(8, 0x07070707));
}

TEST_P(NodesOfGraphs, ShapesCopiesAndSetsAreChanged) {
  capture_all();
  LaunchConfig one;
  graph_.node("Multiply").set_params(one);  // the first value alone
  graph_.nodes()[0].set_params(MemcpyNodeParams{z_.data(), x_.data(), 4});
  graph_.nodes()[1].set_params(MemsetNodeParams{y_.data() + 1, 9, 4, 2});
  graph_.replay();
  EXPECT_EQ(read(y_), (std::vector<int>{6, 9, 9, 0, 0, 0, 0, 0}));
  EXPECT_EQ(graph_.nodes()[1].memset_params(), (MemsetNodeParams{y_.data() + 1, 9, 4, 2}));
  graph_.replay();
  EXPECT_EQ(first(z_), 2);
}

TEST_P(NodesOfGraphs, ADisabledNodeIsSkippedAlsoByTheNextExecutable) {
  capture_all();
  const GraphNode node = graph_.node("Add");
  node.set_enabled(false);
  EXPECT_FALSE(node.enabled());
  EXPECT_FALSE(graph_.nodes()[2].enabled());
  graph_.replay();
  EXPECT_EQ(first(x_), 0);
  if (GetParam() == KeepGraph::yes) {
    graph_.instantiate();
    graph_.replay();
    EXPECT_EQ(first(x_), 0);
  }
  node.set_enabled(true);
  EXPECT_TRUE(node.enabled());
  graph_.replay();
  EXPECT_EQ(first(x_), 2);
}

TEST_P(NodesOfGraphs, AnArgumentOfAnotherSizeTypeOrNumberIsRefusedAndNothingChanges) {
  capture_all();
  const GraphNode node = graph_.node("Add");
  EXPECT_TRUE(
      contains(text_of<UsageError>([&] { node.set_arg(1, 5.0); }),
               "argument 1 of the kernel reprise::graphs::test::Add (node 2) is int, 4 bytes; found double, 8"));
  EXPECT_TRUE(contains(text_of<UsageError>([&] { node.set_arg(1, 5.0F); }), "found float, 4 bytes"));
  EXPECT_TRUE(contains(text_of<UsageError>([&] { node.set_arg(3, 5); }),
                       "has 3 arguments, numbered from 0; found the number 3"));
  const int* constant = y_.data();
  EXPECT_THROW(node.set_arg(0, constant), UsageError) << "the kernel writes there";
  EXPECT_THROW(node.set_arg(0, static_cast<void*>(y_.data())), UsageError);
  EXPECT_THROW((void)node.arg<float>(1), UsageError);
  EXPECT_THROW((void)node.arg<int>(3), UsageError);
  graph_.node("Multiply").set_arg(0, x_.data());  // int* for const int*
  graph_.replay();
  EXPECT_EQ(read(y_), std::vector<int>(8, 6));
}

TEST_P(NodesOfGraphs, ArgumentsAreSetAsBytesWhoseSizeAloneIsChecked) {
  capture_all();
  const GraphNode node = graph_.node("Add");
  const auto was = node.arg<int>(1);
  const double wrong = 5;
  EXPECT_TRUE(contains(text_of<UsageError>([&] { node.set_arg_bytes(1, std::as_bytes(std::span(&wrong, 1))); }),
                       "is int, 4 bytes; found 8 bytes"));
  EXPECT_THROW(node.set_arg_bytes(1, {}), UsageError);
  EXPECT_EQ(node.arg<int>(1), was);
  const float other_type = 1;
  node.set_arg_bytes(1, std::as_bytes(std::span(&other_type, 1)));
  EXPECT_EQ(node.arg<int>(1), 0x3F800000);
  const int value = was + 4;
  node.set_arg_bytes(1, std::as_bytes(std::span(&value, 1)));
  EXPECT_EQ(node.arg<int>(1), value);
}

TEST_P(NodesOfGraphs, CallsForOtherTypesAreRefused) {
  capture_all();
  const std::vector<GraphNode> nodes = graph_.nodes();
  EXPECT_TRUE(
      contains(text_of<UsageError>([&] { nodes[0].set_arg(0, 1); }), "needs a kernel node; found the memcpy (node 0)"));
  EXPECT_THROW((void)nodes[0].launch_config(), UsageError);
  EXPECT_THROW((void)nodes[0].arg_count(), UsageError);
  EXPECT_THROW((void)nodes[0].args(), UsageError);
  EXPECT_THROW((void)nodes[2].memcpy_params(), UsageError);
  EXPECT_THROW((void)nodes[0].memset_params(), UsageError);
  EXPECT_THROW(nodes[0].set_params(MemsetNodeParams{}), UsageError);
  EXPECT_THROW(nodes[1].set_params(MemcpyNodeParams{}), UsageError);
  EXPECT_THROW(nodes[1].set_params(LaunchConfig{}), UsageError);
}

TEST_P(NodesOfGraphs, HostFunctionsAndEventsCannotBeDisabled) {
  int calls = 0;
  capture(graph_, [&] { launch_host([&] { ++calls; }); });
  EXPECT_TRUE(contains(text_of<UsageError>([&] { graph_.nodes().front().set_enabled(false); }),
                       "needs a kernel or memcpy node"));
  graph_.replay();
  current_stream().synchronize();
  EXPECT_EQ(calls, 1);
}

// A disabled one would not order its neighbours on CUDA.
TEST_P(NodesOfGraphs, SetsAreNotDisabledButGivenOtherMemory) {
  capture_all();
  const GraphNode set = graph_.nodes()[1];
  EXPECT_TRUE(contains(text_of<UsageError>([&] { set.set_enabled(false); }), "memory that nothing reads"));
  MemsetNodeParams params = set.memset_params();
  params.destination = z_.data();
  params.count = 1;
  set.set_params(params);
  graph_.replay();
  EXPECT_NE(first(z_), 0);
}

TEST_P(NodesOfGraphs, OfTheLibraryItselfAreNotChanged) {
  const Generator generator;
  capture(graph_, [&] {
    (void)generator.philox_state(4);
    copy_batch_async(std::array{CopyOp{y_.data(), x_.data(), 4}});
    add(x_);
  });
  int own = 0;
  for (const GraphNode& node : graph_.nodes()) {
    if (node.name() == "reprise::graphs::test::Add") continue;
    ++own;
    EXPECT_TRUE(contains(text_of<UsageError>([&] { node.set_params(LaunchConfig{}); }), "the library's own"));
    EXPECT_TRUE(contains(text_of<UsageError>([&] { node.set_enabled(false); }), "the library's own"));
  }
  EXPECT_EQ(own, 2);
}

TEST_P(NodesOfGraphs, CopiesAndSetsPastABlockOfTheAllocatorAreRefused) {
  capture_all();
  const std::vector<GraphNode> nodes = graph_.nodes();
  const std::string what = text_of<UsageError>([&] {
    nodes[0].set_params(MemcpyNodeParams{y_.data(), x_.data(), 4096});
  });
  EXPECT_TRUE(contains(what, "source of 4096 bytes within one block of the caching allocator")) << what;
  EXPECT_TRUE(contains(text_of<UsageError>([&] {
                         nodes[1].set_params(MemsetNodeParams{y_.data(), 1, 4, 100'000});
                       }),
                       "destination of 400000 bytes within one block"));
  Buffer<int> smaller(1);
  const auto destination = graph_.parameter(y_.data());
  EXPECT_THROW(graph_.set(destination, smaller.data()), UsageError);
  graph_.replay();
}

TEST_P(NodesOfGraphs, ASetMayMoveToPinnedMemoryAndBack) {
  HostBuffer<int> pinned(8);
  capture_all();
  graph_.replay();
  const GraphNode set = graph_.nodes()[1];
  const MemsetNodeParams before = set.memset_params();
  set.set_params(MemsetNodeParams{pinned.data(), 1, 1, 4});
  graph_.replay();
  current_stream().synchronize();
  EXPECT_EQ(pinned[0], 0x01010101);
  pinned[0] = 0;
  set.set_params(before);
  graph_.replay();
  current_stream().synchronize();
  EXPECT_EQ(pinned[0], 0);
}

TEST_P(NodesOfGraphs, ACopyMayMoveToPinnedMemoryAndBack) {
  HostBuffer<int> pinned(8);
  capture_all();
  graph_.replay();
  const GraphNode copy = graph_.nodes()[0];
  const MemcpyNodeParams before = copy.memcpy_params();
  copy.set_params(MemcpyNodeParams{pinned.data(), before.source, 4});
  EXPECT_EQ(copy.memcpy_params().destination, pinned.data());
  pinned[0] = -1;
  graph_.replay();
  current_stream().synchronize();
  EXPECT_NE(pinned[0], -1);
  pinned[0] = -1;
  copy.set_params(before);
  graph_.replay();
  current_stream().synchronize();
  EXPECT_EQ(pinned[0], -1);
}

TEST_P(NodesOfGraphs, WhatCudaDoesNotChangeIsRefusedWithTheRule) {
  int pageable = 0;
  capture_all();
  if (GetParam() == KeepGraph::yes) graph_.instantiate();
  const std::vector<GraphNode> nodes = graph_.nodes();
  EXPECT_TRUE(contains(text_of<UsageError>([&] {
                         nodes[0].set_params(MemcpyNodeParams{y_.data(), &pageable, 4});
                       }),
                       "nor from memory of a device to pageable memory"));
  EXPECT_THROW(nodes[0].set_params(MemcpyNodeParams{&pageable, x_.data(), 4}), UsageError);
  EXPECT_THROW(nodes[1].set_params(MemsetNodeParams{&pageable, 1, 1, 4}), UsageError);
  EXPECT_TRUE(contains(text_of<UsageError>([&] {
                         nodes[0].set_params(MemcpyNodeParams{y_.data(), x_.data(), 0});
                       }),
                       "at least 1 byte"));
  EXPECT_THROW(nodes[1].set_params(MemsetNodeParams{y_.data(), 1, 1, 0}), UsageError);
  EXPECT_THROW(nodes[1].set_params(MemsetNodeParams{y_.data(), 1, 3, 1}), UsageError);
  EXPECT_THROW(nodes[1].set_params(MemsetNodeParams{reinterpret_cast<char*>(y_.data()) + 1, 1, 4, 1}), UsageError);
  LaunchConfig config;
  config.programmatic = true;
  EXPECT_TRUE(contains(text_of<UsageError>([&] { nodes[2].set_params(config); }), "belongs to an edge"));
  config.programmatic = false;
  config.cooperative = true;
  EXPECT_TRUE(contains(text_of<UsageError>([&] { nodes[2].set_params(config); }), "cluster"));
  config.cooperative = false;
  config.block = Dim3(0);
  EXPECT_THROW(nodes[2].set_params(config), BackendError);
  graph_.replay();
  EXPECT_EQ(read(y_), std::vector<int>(8, 6));
}

// Two kernels in order, the second of which may begin before the first one ends.
TEST_P(NodesOfGraphs, HaveTheEdgesOfProgrammaticLaunchesAlsoInChildrenBodiesAndDifferences) {
  const auto both = [&](bool programmatic) {
    LaunchConfig config;
    add(x_);
    config.programmatic = programmatic;
    launch(config, Add{}, x_.data(), 2, x_.size());
  };
  const EdgeData in_order, early{.from_port = 1, .type = 1};
  Buffer<std::uint32_t> flag(std::array<std::uint32_t, 1>{1});
  capture(graph_, [&] { both(true); });
  EXPECT_EQ(graph_.nodes()[1].dependencies(), (std::vector<NodeDependency>{{0, early}}));
  graph_.replay();
  EXPECT_EQ(read(x_)[0], 3);
  CUDAGraph around(GetParam()), ordered(GetParam());
  capture(around, [&] {
    add_child(graph_);
    if_(flag.data(), [&] { both(true); });
  });
  EXPECT_EQ(around.node("0").type(), NodeType::child_graph);
  EXPECT_EQ(around.node("0.1").dependencies(), (std::vector<NodeDependency>{{0, early}}));
  EXPECT_EQ(around.nodes().back().inner()[0][1].dependencies(), (std::vector<NodeDependency>{{0, early}}));
  around.replay();
  EXPECT_EQ(read(x_)[0], 9);
  capture(ordered, [&] { both(false); });
  EXPECT_EQ(ordered.nodes()[1].dependencies(), (std::vector<NodeDependency>{{0, in_order}}));
  const std::vector<GraphDifference> differences = diff(ordered, graph_);
  ASSERT_EQ(differences.size(), 1U);
  EXPECT_EQ(differences[0].kind, DifferenceKind::dependency);
  EXPECT_TRUE(contains(differences[0].str(), "from port 1")) << differences[0].str();
  ordered.replay();
  EXPECT_EQ(read(x_)[0], 12);
}

TEST_P(NodesOfGraphs, AreInvalidAfterAResetADestructionAndAnAssignment) {
  std::vector<GraphNode> views;
  for (int way = 0; way < 3; ++way) {
    capture_all();
    views.push_back(graph_.nodes()[2]);
    if (way == 0) graph_.reset();
    if (way == 1) graph_ = CUDAGraph(GetParam());
    if (way == 2) {
      const CUDAGraph gone = std::move(graph_);
      EXPECT_EQ(views.back().arg<int>(1), 2) << "a move keeps them";
    }
  }
  graph_ = CUDAGraph(GetParam());
  capture_all();
  for (const GraphNode& view : views) {
    EXPECT_EQ(view.index(), 2U);
    EXPECT_TRUE(contains(text_of<UsageError>([&] { view.set_arg(1, 1); }), "was reset, destroyed or assigned to"));
    EXPECT_THROW((void)view.name(), UsageError);
    EXPECT_THROW((void)view.enabled(), UsageError);
    EXPECT_THROW(view.set_enabled(false), UsageError);
  }
}

TEST_P(NodesOfGraphs, NeedTheTemplateAndACapture) {
  EXPECT_THROW((void)graph_.nodes(), UsageError);
  EXPECT_THROW((void)graph_.node("Add"), UsageError);
  if (GetParam() == KeepGraph::yes) return;
  capture_all({.discard_template = true});
  EXPECT_TRUE(contains(text_of<UsageError>([&] { (void)graph_.nodes(); }), "discard_template"));
  EXPECT_TRUE(contains(text_of<UsageError>([&] { (void)graph_.node("Add"); }), "discard_template"));
}

TEST_P(NodesOfGraphs, AreReadAndNotChangedWithinHooksOfTheGraph) {
  int calls = 0;
  std::optional<GraphNode> kept;
  const auto look = [&] {
    ++calls;
    const GraphNode node = kept ? *kept : graph_.node("Add");
    EXPECT_EQ(node.arg<int>(1), 2);
    EXPECT_EQ(graph_.nodes().size(), 4U);
    EXPECT_TRUE(contains(text_of<UsageError>([&] { node.set_arg(1, 3); }), "within a hook"));
    EXPECT_THROW(node.set_enabled(false), UsageError);
    kept = node;
  };
  graph_.add_hooks({.captured = [&](GraphHandle) { look(); },
                    .instantiated = [&](GraphExecHandle) { look(); },
                    .before_replay = [&](const StreamRef&) { look(); },
                    .after_replay = [&](const StreamRef&, ErrorCode) { look(); }});
  capture_all();
  graph_.replay();
  EXPECT_EQ(calls, 4);
  kept->set_arg(1, 1);
  EXPECT_EQ(kept->arg<int>(1), 1);
}

TEST_P(NodesOfGraphs, ALaunchedReplayDoesNotSeeTheChange) {
  reprise::test::Gate gate(reprise::test::by_steps_too);
  capture_all();
  graph_.upload();
  call_on_host(side_.ref(), &reprise::test::Gate::pass, &gate);
  graph_.replay();
  graph_.node("Add").set_arg(1, 100);
  gate.open();
  EXPECT_EQ(first(x_), 2);
  graph_.replay();
  EXPECT_EQ(first(x_), 102);
}

TEST_P(NodesOfGraphs, AreChangedByManyThreadsWhileOthersReplay) {
  capture_all();
  constexpr int rounds = 50;
  const StreamRef stream = side_.ref();
  std::vector<std::thread> threads;
  for (int i = 0; i < 3; ++i)
    threads.emplace_back([&, i] {
      for (int round = 0; round < rounds; ++round) {
        graph_.node("Multiply").set_arg(1, i);
        graph_.replay(stream);
        (void)graph_.nodes()[2].arg<int>(1);
      }
    });
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(first(x_), 2 * 3 * rounds);
}

/// What only KeepGraph::yes makes possible.
class NodesOfKeptGraphs : public ::testing::Test {
 protected:
  backend::Checked runtime() const { return backend::Checked(default_device().backend()); }

  const SideStream side_;
  Buffer<int> x_ = zeros(), y_ = zeros();
  CUDAGraph graph_{KeepGraph::yes};
};

TEST_F(NodesOfKeptGraphs, ShowEditsOfTheTemplate) {
  capture(graph_, [&] {
    add(x_);
    y_.fill_bytes_async(1);
  });
  const std::vector<GraphNode> nodes = graph_.nodes();
  EXPECT_EQ(nodes[1].memset_params().value & 0xff, 1U);
  runtime().graph_node_set_params(nodes[1].native(), backend::MemsetNodeParams{y_.data(), 2, 4, 1});
  EXPECT_EQ(nodes[1].memset_params(), (MemsetNodeParams{y_.data(), 2, 4, 1}));
  runtime().graph_destroy_node(nodes[0].native());
  EXPECT_TRUE(contains(text_of<UsageError>([&] { nodes[0].set_arg(1, 2); }), "was removed from the template"));
  EXPECT_THAT(graph_.nodes(), SizeIs(1));
  graph_.replay();
  EXPECT_EQ(first(y_), 2);
  EXPECT_EQ(first(x_), 0);
}

TEST_F(NodesOfKeptGraphs, ADisabledNodeThatIsRemovedDisablesNoOther) {
  capture(graph_, [&] {
    add(x_);
    add(y_);
  });
  graph_.nodes()[0].set_enabled(false);
  runtime().graph_destroy_node(graph_.nodes()[0].native());
  backend::NodeParams params = backend::MemsetNodeParams{x_.data(), 5, 4, 1};
  GraphNodeHandle added = nullptr;
  runtime().graph_add_node(&added, graph_.raw_cuda_graph(), {}, params);
  graph_.instantiate();
  graph_.replay();
  EXPECT_EQ(first(x_), 5);
  EXPECT_EQ(first(y_), 1);
}

TEST_F(NodesOfKeptGraphs, AnotherClusterIsPossibleAsLongAsThereIsNoExecutable) {
  capture(graph_, [&] { add(x_); });
  LaunchConfig config = graph_.node("Add").launch_config();
  config.grid = Dim3(2);
  config.cluster = Dim3(2);
  graph_.node("Add").set_params(config);
  EXPECT_EQ(graph_.node("Add").launch_config().cluster, Dim3(2));
  graph_.instantiate();
  config.cluster = Dim3(1);
  EXPECT_TRUE(contains(text_of<UsageError>([&] { graph_.node("Add").set_params(config); }), "cluster"));
  graph_.replay();
  EXPECT_EQ(first(x_), 1);
}

}  // namespace
}  // namespace reprise::graphs::test
