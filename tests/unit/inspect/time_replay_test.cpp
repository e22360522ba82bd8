// SPDX-License-Identifier: Apache-2.0
#include <chrono>
#include <map>
#include <set>
#include <string>
#include <thread>
#include <vector>

#include "inspect/annotations/annotation_text.h"
#include "tests/support/own_monitor.h"
#include "tests/unit/inspect/time_replay_fixture.h"

// A replay that is timed node by node. Times are compared with each other, never with numbers.

namespace reprise::graphs::test {

namespace {

using backend::Call;
using backend::Checked;
using backend::test::FaultyBackend;
using backend::test::OwnMonitor;

template <int number>
struct Numbered {
  REPRISE_KERNEL void operator()(Thread t, int* x, std::size_t n) const {
    if (t.global_x() < n) x[t.global_x()] += number;
  }
};

/// flag -= 1
struct CountDown {
  REPRISE_KERNEL void operator()(Thread, std::uint32_t* flag) const { --*flag; }
};

/// The names of kernels by number, at any depth; "" for other nodes.
void add_names(const std::vector<GraphNode>& nodes, std::map<std::string, std::string>& names) {
  for (const GraphNode& node : nodes) {
    names[node.number()] = node.type() == NodeType::kernel ? node.name() : "";
    for (const std::vector<GraphNode>& inner : node.inner()) add_names(inner, names);
  }
}

const Annotation forward = {{"name", "forward"}};
const Annotation layer = {{"layer", "2"}, {"name", "forward"}};

TEST_F(TimeReplay, HasEachNodeOfAChainOnceInOrderAndNoTwoAtOnce) {
  capture(keeps_, [&] {
    for (const int rounds : {100000, 1, 50000, 1, 1, 100000}) spin(x_, rounds);
  });
  const std::vector<GraphNodeHandle> nodes = template_nodes();
  const ReplayTiming timing = time_replay(keeps_, stream_);
  ASSERT_EQ(timing.nodes.size(), 6U);
  EXPECT_DOUBLE_EQ(timing.nodes[0].start_us, 0);
  double end_us = 0;
  for (std::size_t i = 0; i < timing.nodes.size(); ++i) {
    EXPECT_EQ(timing.nodes[i].index, i);
    EXPECT_EQ(timing.nodes[i].node, nodes[i]);
    EXPECT_GT(timing.nodes[i].duration_us, 0) << i;
    EXPECT_GE(timing.nodes[i].start_us, end_us - 0.001) << i;  // sums of decimal fractions
    end_us = timing.nodes[i].start_us + timing.nodes[i].duration_us;
  }
  EXPECT_NEAR(timing.total_us, end_us, 0.001);
  EXPECT_TRUE(timing.notes.empty()) << timing.str();
  EXPECT_TRUE(timing.annotations.empty());
}

TEST_F(TimeReplay, HasEachNodeOfTwoStreamsOnce) {
  Buffer<int> y = zeros();
  const Stream other;
  capture(graph_, [&] {
    const StreamRef here = current_stream();
    add(x_);
    other.wait(here);
    spin(y, 20000, other);
    spin(x_, 20000);
    here.wait(other);
    multiply(y, 0, x_);
  });
  const ReplayTiming timing = time_replay(graph_, stream_);
  std::multiset<std::size_t> seen;
  for (const NodeTiming& node : timing.nodes) seen.insert(node.index.value());
  EXPECT_EQ(seen, (std::multiset<std::size_t>{0, 1, 2, 3}));
}

TEST_F(TimeReplay, NamesKernelsByTheirTypeAndOtherWorkInCudasWords) {
  Buffer<int> y = zeros();
  capture(graph_, [&] {
    y.fill_bytes_async(0);
    add(x_);
    copy_async(y.data(), x_.data(), x_.size_bytes());
    multiply(y, 2, x_);
  });
  std::vector<std::string> names;
  for (const NodeTiming& node : time_replay(graph_, stream_).nodes) names.push_back(node.name);
  EXPECT_EQ(names, (std::vector<std::string>{"memset", "reprise::graphs::test::Add", "memcpy",
                                             "reprise::graphs::test::Multiply"}));
}

TEST_F(TimeReplay, GivesNodesTheirAnnotationsAndSumsThemUp) {
  capture(graph_, {.enable_annotations = true}, [&] {
    add(x_);
    const annotate outer("forward");
    spin(x_, 1000);
    spin(x_, 2000);
    const annotate inner({{"layer", "2"}});
    spin(x_, 3000);
  });
  const ReplayTiming timing = time_replay(graph_, stream_);
  ASSERT_EQ(timing.nodes.size(), 4U);
  EXPECT_TRUE(timing.nodes[0].annotation.empty());
  EXPECT_EQ(timing.nodes[1].annotation, forward);
  EXPECT_EQ(timing.nodes[2].annotation, forward);
  EXPECT_EQ(timing.nodes[3].annotation, layer);
  ASSERT_EQ(timing.annotations.size(), 2U);
  EXPECT_EQ(timing.annotations[0].annotation, forward);
  EXPECT_EQ(timing.annotations[0].nodes, 2U);
  EXPECT_DOUBLE_EQ(timing.annotations[0].start_us, timing.nodes[1].start_us);
  EXPECT_DOUBLE_EQ(timing.annotations[0].duration_us, timing.nodes[1].duration_us + timing.nodes[2].duration_us);
  EXPECT_EQ(timing.annotations[1].annotation, layer);
  EXPECT_DOUBLE_EQ(timing.annotations[1].duration_us, timing.nodes[3].duration_us);
  EXPECT_TRUE(contains(timing.str(), "[forward, layer=2]")) << timing.str();
}

TEST_F(TimeReplay, KnowsNodesOfChildrenAndBodies) {
  Buffer<std::uint32_t> flag(std::array<std::uint32_t, 1>{1});
  Buffer<int> y = zeros();
  const CUDAGraph child = capture({.enable_annotations = true}, [&] {
    const annotate scope("step");
    spin(x_, 10);
  });
  capture(graph_, {.enable_annotations = true}, [&] {
    const annotate scope({{"layer", "2"}});
    add_child(child);
    if_else(
        flag.data(),
        [&] {
          const annotate body("body");
          multiply(x_, 2, y);
        },
        [&] { add(y); });
  });
  const ReplayTiming timing = time_replay(graph_, stream_);
  std::map<std::string, std::string> found;
  for (const NodeTiming& node : timing.nodes) found[node.number] = inspect::annotation_text(node.annotation);
  EXPECT_EQ(found["0.0"], "step, layer=2") << timing.str();
  const std::string condition = graph_.nodes().back().number();
  EXPECT_EQ(found[condition + ".0.0"], "body, layer=2") << timing.str();
  EXPECT_FALSE(found.contains(condition + ".1.0")) << "the other body did not run: " << timing.str();
  EXPECT_TRUE(contains(timing.str(), "0.0  reprise::graphs::test::Spin  [step, layer=2]")) << timing.str();
}

// Each has a kernel of its own, so that a time with the number of another node shows.
TEST_F(TimeReplay, NumbersOfNodesAtAnyDepthBelongToTheirNames) {
  const auto run = [&]<int number>(Numbered<number> kernel) { launch(x_.size(), kernel, x_.data(), x_.size()); };
  const CUDAGraph inmost = capture([&] {
    run(Numbered<0>{});
    run(Numbered<1>{});
  });
  const CUDAGraph first_child = capture([&] {
    run(Numbered<2>{});
    add_child(inmost);
    run(Numbered<3>{});
  });
  const CUDAGraph second_child = capture([&] { run(Numbered<4>{}); });
  Buffer<std::uint32_t> flag(std::array<std::uint32_t, 1>{1});
  Buffer<std::uint32_t> rounds(std::array<std::uint32_t, 1>{2});
  capture(graph_, [&] {
    run(Numbered<5>{});
    add_child(first_child);
    run(Numbered<6>{});
    add_child(second_child);
    while_(rounds.data(), [&] {
      run(Numbered<7>{});
      if_(flag.data(), [&] {
        run(Numbered<8>{});
        if_(flag.data(), [&] { run(Numbered<9>{}); });
        run(Numbered<10>{});
      });
      add_child(inmost);
      launch(LaunchConfig{}, CountDown{}, rounds.data());
    });
    if_(flag.data(), [&] { run(Numbered<11>{}); });
    run(Numbered<12>{});
  });
  std::map<std::string, std::string> names;
  add_names(graph_.nodes(), names);
  const ReplayTiming timing = time_replay(graph_, stream_);
  std::set<std::string> timed;
  for (const NodeTiming& node : timing.nodes) {
    ASSERT_TRUE(names.contains(node.number)) << node.name << '\n' << timing.str();
    const std::string& name = names[node.number];
    EXPECT_TRUE(name.empty() || node.name == name) << node.number << " is " << name << ", not " << node.name;
    timed.insert(node.number);
  }
  for (const auto& [number, name] : names)
    EXPECT_TRUE(name.empty() || timed.contains(number)) << number << ": " << name << '\n' << timing.str();
}

TEST_F(TimeReplay, OfANodeInALoopIsTheSumOverItsRuns) {
  Buffer<std::uint32_t> rounds(std::array<std::uint32_t, 1>{3});
  capture(graph_, {.enable_annotations = true}, [&] {
    spin(x_, 1);
    while_(rounds.data(), [&] {
      const annotate body("body");
      spin(x_, 1000);
      launch(LaunchConfig{}, CountDown{}, rounds.data());
    });
  });
  graph_.replay(stream_);  // a launch before, whose runs must not count
  stream_.synchronize();
  rounds.write(std::array<std::uint32_t, 1>{3});
  const ReplayTiming timing = time_replay(graph_, stream_);
  const std::string in_loop = graph_.nodes().back().number() + ".0.0";
  std::size_t found = 0;
  for (const NodeTiming& node : timing.nodes) {
    if (node.number != in_loop) continue;
    ++found;
    EXPECT_EQ(node.runs, 3U) << timing.str();
    EXPECT_GT(node.duration_us, 0);
    EXPECT_LE(node.duration_us, node.span_us + 0.001);
    EXPECT_GE(timing.total_us, node.start_us + node.span_us - 0.001);
    EXPECT_EQ(node.annotation, (Annotation{{"name", "body"}}));
  }
  EXPECT_EQ(found, 1U) << timing.str();
  EXPECT_EQ(timing.nodes.front().runs, 1U);
  EXPECT_TRUE(contains(timing.str(), "  3 runs")) << timing.str();
}

TEST_F(TimeReplay, IsOneReplayOnTheGivenStreamThatIsOverWhenItReturns) {
  capture_increment(graph_, x_);
  static_cast<void>(time_replay(graph_, stream_));
  EXPECT_TRUE(stream_.query());
  EXPECT_EQ(first(x_), 1);
  const SideStream side;
  static_cast<void>(time_replay(graph_));
  EXPECT_EQ(first(x_), 2);
}

TEST_F(TimeReplay, DrawsRandomNumbersAsAnyReplay) {
  const Generator generator(current_device(), 42);
  capture(graph_, [&] {
    static_cast<void>(generator.philox_state(4));
    add(x_);
  });
  static_cast<void>(time_replay(graph_, stream_));
  EXPECT_EQ(generator.offset(), 4U);
}

TEST_F(TimeReplay, InstantiatesAKeptGraphAndTimesEachExecutableAnew) {
  capture(keeps_, [&] { add(x_); });
  EXPECT_EQ(time_replay(keeps_, stream_).nodes.size(), 1U);
  keeps_.instantiate();
  EXPECT_EQ(time_replay(keeps_, stream_).nodes.size(), 1U);
  keeps_.replay(stream_);
  EXPECT_EQ(time_replay(keeps_, stream_).nodes.size(), 1U) << "of one launch";
  stream_.synchronize();
  EXPECT_EQ(first(x_), 4);
}

TEST_F(TimeReplay, DoesNotCountALaunchThatStillRuns) {
  capture(graph_, [&] { spin(x_, 1000000); });
  const Stream other;
  graph_.replay(other);
  EXPECT_EQ(time_replay(graph_, stream_).nodes.size(), 1U);
}

TEST_F(TimeReplay, OfANodeThatWasSwitchedOffSaysThatItHasNoTime) {
  capture(keeps_, [&] {
    add(x_);
    add(x_, 10);
  });
  keeps_.instantiate();
  Checked(runtime_).graph_node_set_enabled(keeps_.raw_cuda_graph_exec(), template_nodes()[0], false);
  const ReplayTiming timing = time_replay(keeps_, stream_);
  ASSERT_EQ(timing.nodes.size(), 1U);
  EXPECT_EQ(timing.nodes[0].index, 1U);
  ASSERT_EQ(timing.notes.size(), 1U);
  EXPECT_EQ(
      timing.notes[0],
      "Nodes of the template that have no time: 1 kernel. The device does not time their kind, or they did not run.");
}

TEST_F(TimeReplay, OfANodeThatIsGoneFromTheTemplateDoesNotSayWhichItIs) {
  capture(keeps_, [&] {
    add(x_);
    multiply(x_, 2, x_);
  });
  keeps_.instantiate();
  Checked(runtime_).graph_destroy_node(template_nodes()[0]);
  const ReplayTiming timing = time_replay(keeps_, stream_);
  ASSERT_EQ(timing.nodes.size(), 2U);
  EXPECT_EQ(timing.nodes[0].node, nullptr);
  EXPECT_FALSE(timing.nodes[0].index.has_value());
  EXPECT_EQ(timing.nodes[0].name, "reprise::graphs::test::Add");
  EXPECT_EQ(timing.nodes[1].node, template_nodes()[0]);
  EXPECT_EQ(timing.nodes[1].index, 0U);
}

TEST_F(TimeReplay, TimesEveryKindOfNodeOnTheHostDevice) {
  if (current_device().type() != DeviceType::host) GTEST_SKIP() << "CUPTI reports kernels, copies and sets only";
  using Clock = std::chrono::steady_clock;
  constexpr auto wait_a_moment = [](void*) {
    const auto begin = Clock::now();
    while (Clock::now() - begin < std::chrono::milliseconds(1)) std::this_thread::yield();
  };
  capture(keeps_, [&] {
    add(x_);
    call_on_host(current_stream(), wait_a_moment, nullptr);
  });
  const Event event;
  EventHandle handle = event.native();
  backend::NodeParams nodes[] = {backend::EmptyNodeParams{}, backend::EventRecordNodeParams{handle},
                                 backend::EventWaitNodeParams{handle}};
  for (backend::NodeParams& params : nodes) {
    GraphNodeHandle node = nullptr;
    Checked(runtime_).graph_add_node(&node, keeps_.raw_cuda_graph(), {}, params);
  }
  const ReplayTiming timing = time_replay(keeps_, stream_);
  EXPECT_EQ(timing.nodes.size(), 5U) << timing.str();
  EXPECT_TRUE(timing.notes.empty());
  std::multiset<std::string> names;
  for (const NodeTiming& node : timing.nodes) {
    names.insert(node.name);
    if (node.name != "host") continue;
    EXPECT_GE(node.duration_us, 1000);
    EXPECT_GE(timing.total_us, node.start_us + node.duration_us - 0.001);
  }
  EXPECT_EQ(names,
            (std::multiset<std::string>{"reprise::graphs::test::Add", "empty", "event record", "event wait", "host"}));
}

TEST_F(TimeReplay, WhileOtherThreadsReplayHasEachNodeOnce) {
  capture(graph_, [&] {
    add(x_);
    add(x_);
  });
  std::vector<std::thread> threads;
  for (int t = 0; t < 2; ++t)
    threads.emplace_back([&] {
      const Stream stream;
      for (int i = 0; i < 20; ++i) graph_.replay(stream);
      stream.synchronize();
    });
  for (int i = 0; i < 5; ++i) EXPECT_EQ(time_replay(graph_, stream_).nodes.size(), 2U);
  for (std::thread& thread : threads) thread.join();
  current_stream().synchronize();
  EXPECT_EQ(first(x_), 2 * 45);
}

TEST_F(TimeReplay, IsRefusedWithoutACapturedGraph) {
  EXPECT_TRUE(contains(text_of<UsageError>([&] { (void)time_replay(graph_); }), "time_replay"));
}

TEST_F(TimeReplay, IsRefusedWhenTheTemplateWasDiscarded) {
  capture_increment(graph_, x_, {.discard_template = true});
  EXPECT_TRUE(contains(text_of<UsageError>([&] { (void)time_replay(graph_, stream_); }), "discard_template"));
  graph_.replay();
  EXPECT_EQ(first(x_), 1);
}

TEST_F(TimeReplay, IsRefusedOnAStreamThatIsCapturingAndTheCaptureGoesOn) {
  capture_increment(graph_, x_);
  const SideStream side;
  keeps_.capture_begin();
  add(x_, 10);
  EXPECT_TRUE(contains(text_of<UsageError>([&] { (void)time_replay(graph_); }), "the stream is being captured"));
  keeps_.capture_end();
  keeps_.replay();
  EXPECT_EQ(first(x_), 10);
}

TEST_F(TimeReplay, IsRefusedWhileAnyCaptureIsUnderwayWhichGoesOn) {
  capture_increment(graph_, x_);
  {
    const SideStream side;
    keeps_.capture_begin();
    add(x_, 10);
    EXPECT_TRUE(
        contains(text_of<UsageError>([&] { (void)time_replay(graph_, stream_); }), "might break the capture underway"));
    keeps_.capture_end();
    keeps_.replay();
    side.ref().synchronize();
  }
  EXPECT_EQ(first(x_), 10);
  EXPECT_EQ(time_replay(graph_, stream_).nodes.size(), 1U);
}

TEST_F(TimeReplay, IsRefusedOnAStreamOfAnotherDevice) {
  static auto& another = *new FaultyBackend(runtime_);
  const Device device(another);
  const Stream stream(device);
  capture_increment(graph_, x_);
  EXPECT_TRUE(contains(text_of<UsageError>([&] { (void)time_replay(graph_, stream); }), "device"));
  EXPECT_EQ(first(x_), 0);
}

// A device whose nodes cannot be timed.
class Unwatchable final : public OwnMonitor {
 public:
  using OwnMonitor::OwnMonitor;
  std::shared_ptr<backend::NodeWatch> watch_nodes(GraphHandle, GraphExecHandle, std::string* why) override {
    *why = "Nodes cannot be timed today.";
    return nullptr;
  }
};

TEST_F(TimeReplay, SaysWhyNodesCannotBeTimedAndLaunchesNothing) {
  static auto& runtime = *new Unwatchable(runtime_);
  const Device device(runtime);
  const DeviceGuard guard(device);
  const Stream stream(device);
  const StreamGuard stream_guard(stream);
  Buffer<int> x = zeros();
  capture_increment(graph_, x);
  EXPECT_EQ(text_of<Error>([&] { (void)time_replay(graph_); }), "time_replay: Nodes cannot be timed today.");
  EXPECT_EQ(first(x), 0);
  graph_.replay();
  EXPECT_EQ(first(x), 1);
}

// A device with made-up times of nodes.
class Untimed final : public OwnMonitor, public backend::NodeWatch {
 public:
  using OwnMonitor::OwnMonitor;
  std::shared_ptr<backend::NodeWatch> watch_nodes(GraphHandle, GraphExecHandle, std::string*) override {
    return {std::shared_ptr<void>(), this};
  }
  std::vector<backend::NodeTime> take(std::vector<std::string>* notes) override {
    notes->emplace_back("A record was lost.");
    return {{nullptr, "late", 5000, 6500}, {nullptr, "early", 2000, 4000}};
  }
};

TEST_F(TimeReplay, OfNodesThatAreNotKnownHasTheirTimesAndSaysSo) {
  static auto& runtime = *new Untimed(runtime_);
  const Device device(runtime);
  const DeviceGuard guard(device);
  const Stream stream(device);
  const StreamGuard stream_guard(stream);
  Buffer<int> x = zeros();
  capture_increment(graph_, x);
  EXPECT_EQ(
      time_replay(graph_).str(),
      "2 nodes in 4.500 us, from the first start to the last end\n"
      "    start us  duration us    node  name\n"
      "       0.000        2.000       -  early\n"
      "       3.000        1.500       -  late\n"
      "note: A record was lost.\n"
      "note: Nodes of the template that have no time: 1 kernel. The device does not time their kind, or they did not "
      "run. Some of them may be those in the list that have no number.\n");
}

TEST_F(TimeReplay, ThatFailsLeavesAGraphThatCanBeReplayedAndTimed) {
  static auto& faulty = *new FaultyBackend(runtime_);
  const Device device(faulty);
  const DeviceGuard guard(device);
  const Stream stream(device);
  const StreamGuard stream_guard(stream);
  const Generator generator(device, 42);
  Buffer<int> x = zeros();
  capture(graph_, [&] {
    static_cast<void>(generator.philox_state(4));
    add(x);
  });
  for (const Call call : {Call::stream_is_capturing, Call::event_create, Call::graph_launch, Call::event_record,
                          Call::event_synchronize, Call::graph_nodes}) {
    faulty.fail(call, ErrorCode::unknown);
    EXPECT_THROW((void)time_replay(graph_), BackendError) << backend::cuda_name(call);
    EXPECT_TRUE(faulty.all_happened()) << backend::cuda_name(call);
  }
  stream.synchronize();
  EXPECT_EQ(first(x), 3) << "those whose launch did not fail";
  EXPECT_EQ(generator.offset(), 12U);
  EXPECT_FALSE(time_replay(graph_).nodes.empty());
  graph_.replay();
  EXPECT_EQ(first(x), 5);
}

}  // namespace
}  // namespace reprise::graphs::test
