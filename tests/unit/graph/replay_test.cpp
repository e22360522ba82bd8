// SPDX-License-Identifier: Apache-2.0
#include <chrono>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <sstream>
#include <thread>
#include <vector>

#include "reprise/reprise.h"
#include "tests/support/faulty_backend.h"
#include "tests/support/host_environment.h"
#include "tests/unit/graph/graph_fixture.h"

// What can be done with a graph that is captured.

namespace reprise::graphs::test {
namespace {

using backend::Call;
using backend::Checked;

class CUDAGraphReplay : public ::testing::Test {
 protected:
  Buffer<int> x_ = zeros();
  CUDAGraph graph_;
  CUDAGraph keeps_{KeepGraph::yes};
};

TEST_F(CUDAGraphReplay, RunsOnTheCurrentStream) {
  capture_increment(graph_, x_);
  const SideStream stream;
  graph_.replay();
  graph_.replay();
  EXPECT_EQ(first(x_), 2);  // reads in the order of the same stream
}

TEST_F(CUDAGraphReplay, RunsOnAGivenStream) {
  capture_increment(graph_, x_);
  const Stream stream;
  graph_.replay(stream);
  stream.synchronize();
  EXPECT_EQ(first(x_), 1);
}

TEST_F(CUDAGraphReplay, SeesWhatIsInMemoryAtTheTime) {
  Buffer<int> y = zeros();
  capture(graph_, [&] { multiply(x_, 3, y); });
  for (const int value : {5, 7}) {
    x_.write_async(std::vector<int>{value});
    graph_.replay();
    EXPECT_EQ(first(y), 3 * value);
  }
}

TEST_F(CUDAGraphReplay, OnAStreamThatIsCapturingBecomesAPartOfTheCaptureAndAnUploadIsRefused) {
  capture_increment(graph_, x_);
  const SideStream stream;
  CUDAGraph other;
  other.capture_begin();
  graph_.replay();
  EXPECT_TRUE(contains(text_of<UsageError>([&] { graph_.upload(); }), "being captured"));
  EXPECT_EQ(stream.ref().capture_status(), CaptureStatus::active);
  add(x_, 10);
  other.capture_end();
  graph_.replay();
  other.replay();
  EXPECT_EQ(first(x_), 12);
}

TEST_F(CUDAGraphReplay, IsAllowedOnAnotherStreamWhileACaptureIsUnderway) {
  capture_increment(graph_, x_);
  capture_increment(keeps_, x_);
  const Stream other;
  const SideStream stream;
  CUDAGraph underway;
  underway.capture_begin();
  graph_.replay(other);
  keeps_.replay(other);  // instantiates, too
  add(x_, 10);
  underway.capture_end();
  other.synchronize();
  underway.replay();
  EXPECT_EQ(first(x_), 12);
}

TEST_F(CUDAGraphReplay, OnTheLegacyStreamDoesNotBreakTheCaptureOfABlockingStream) {
  capture_increment(graph_, x_);
  const Stream blocking(default_device(), StreamOptions{.blocking = true});
  const StreamGuard guard(blocking);
  CUDAGraph other;
  other.capture_begin();
  try {
    graph_.replay(default_device().default_stream());
    FAIL() << "no exception";
  } catch (const BackendError& error) {
    EXPECT_EQ(error.code(), ErrorCode::stream_capture_implicit);
  }
  EXPECT_EQ(blocking.capture_status(), CaptureStatus::active);
  add(x_, 10);
  other.capture_end();
  other.replay();
  EXPECT_EQ(first(x_), 10);
}

TEST_F(CUDAGraphReplay, InstantiatesAKeptGraphTheFirstTime) {
  capture_increment(keeps_, x_);
  EXPECT_THROW(keeps_.raw_cuda_graph_exec(), UsageError);
  keeps_.replay();
  EXPECT_NE(keeps_.raw_cuda_graph_exec(), nullptr);
  EXPECT_EQ(first(x_), 1);
}

TEST_F(CUDAGraphReplay, OfSeveralThreadsAtOnceRunsThemAll) {
  capture(keeps_, [&] { add(x_); });
  std::vector<std::thread> threads;
  for (int t = 0; t < 4; ++t)
    threads.emplace_back([&] {
      const Stream stream;
      for (int i = 0; i < 50; ++i) keeps_.replay(stream);
      stream.synchronize();
    });
  for (auto& thread : threads) thread.join();
  EXPECT_EQ(first(x_), 200);
}

TEST_F(CUDAGraphReplay, UploadMakesTheExecutableOfAKeptGraph) {
  capture_increment(keeps_, x_);
  keeps_.upload();
  EXPECT_NE(keeps_.raw_cuda_graph_exec(), nullptr);
  keeps_.replay();
  EXPECT_EQ(first(x_), 1);
}

TEST_F(CUDAGraphReplay, UploadRunsNothing) {
  capture_increment(graph_, x_);
  const Stream stream;
  graph_.upload(stream);
  stream.synchronize();
  EXPECT_EQ(first(x_), 0);
  graph_.replay();
  EXPECT_EQ(first(x_), 1);
}

TEST_F(CUDAGraphReplay, WorksWithEveryFlagThatTheDeviceKnows) {
  for (const InstantiateFlags flags :
       {InstantiateFlags::auto_free_on_launch, InstantiateFlags::upload, InstantiateFlags::use_node_priority,
        InstantiateFlags::upload | InstantiateFlags::use_node_priority}) {
    GraphOptions options;
    options.instantiate_flags = flags;
    for (const KeepGraph keep : {KeepGraph::no, KeepGraph::yes}) {
      CUDAGraph graph(keep);
      const int before = first(x_);
      capture_increment(graph, x_, options);
      graph.replay();
      EXPECT_EQ(first(x_), before + 1);
    }
  }
}

TEST_F(CUDAGraphReplay, InstantiateAgainTakesTheEditedTemplate) {
  capture_increment(keeps_, x_);
  keeps_.instantiate();

  const Checked runtime(keeps_.device().backend());
  std::vector<GraphNodeHandle> nodes;
  runtime.graph_nodes(keeps_.raw_cuda_graph(), &nodes);
  ASSERT_EQ(nodes.size(), 1u);
  backend::NodeParams params;
  runtime.graph_node_params(nodes[0], &params);
  auto& kernel = std::get<backend::KernelNodeParams>(params);
  int amount = 100;
  std::vector<void*> arguments{kernel.params[0], &amount, kernel.params[2]};
  kernel.params = arguments.data();
  runtime.graph_node_set_params(nodes[0], params);

  keeps_.replay();
  EXPECT_EQ(first(x_), 1);  // the executable is still the old one
  const GraphHandle template_graph = keeps_.raw_cuda_graph();
  keeps_.instantiate();
  EXPECT_EQ(keeps_.raw_cuda_graph(), template_graph);
  keeps_.replay();
  EXPECT_EQ(first(x_), 101);
}

TEST_F(CUDAGraphReplay, RawHandlesAreTheRuntimesOwn) {
  capture_increment(keeps_, x_);
  const Checked runtime(keeps_.device().backend());
  GraphExecHandle exec = nullptr;
  runtime.graph_instantiate(&exec, keeps_.raw_cuda_graph(), InstantiateFlags::none, nullptr);
  runtime.graph_launch(exec, current_stream().native());
  EXPECT_EQ(first(x_), 1);
  runtime.graph_exec_destroy(exec);

  keeps_.instantiate();
  runtime.graph_launch(keeps_.raw_cuda_graph_exec(), current_stream().native());
  EXPECT_EQ(first(x_), 2);
}

TEST_F(CUDAGraphReplay, TheRawExecutableIsThereForEveryGraphThatIsReady) {
  capture_increment(graph_, x_);
  EXPECT_NE(graph_.raw_cuda_graph_exec(), nullptr);
}

TEST_F(CUDAGraphReplay, NodeCountIsThatOfTheTemplate) {
  capture(graph_, [&] {
    for (int i = 0; i < 7; ++i) add(x_);
  });
  EXPECT_EQ(graph_.node_count(), 7u);
}

TEST_F(CUDAGraphReplay, TheDeviceIsThatOfTheCapture) {
  const SideStream stream;
  graph_.capture_begin();
  EXPECT_EQ(graph_.device(), default_device());
  add(x_);
  graph_.capture_end();
  EXPECT_EQ(graph_.device(), default_device());
}

TEST_F(CUDAGraphReplay, ResetForgetsPoolAndDevice) {
  graph_.reset();
  capture_increment(graph_, x_);
  graph_.reset();
  EXPECT_THROW(graph_.pool(), UsageError);
  EXPECT_THROW(graph_.device(), UsageError);
  graph_.reset();
  capture_increment(graph_, x_);
  graph_.replay();
  EXPECT_EQ(first(x_), 1);
}

TEST_F(CUDAGraphReplay, AnExternalEventTimesAPartOfAReplay) {
  const Event start, end;
  const auto busy = [](void*) {
    const auto until = std::chrono::steady_clock::now() + std::chrono::milliseconds(3);
    while (std::chrono::steady_clock::now() < until) {
    }
  };
  capture(graph_, [&] {
    add(x_);
    start.record(current_stream(), EventUse::external);
    call_on_host(current_stream(), busy, nullptr);
    end.record(current_stream(), EventUse::external);
    call_on_host(current_stream(), busy, nullptr);
  });
  for (int i = 0; i < 2; ++i) {
    graph_.replay();
    end.synchronize();
    EXPECT_GE(elapsed_ms(start, end), 2.9f);
    current_stream().synchronize();
  }
}

// One mutex, one counter, one launch: that is all that a replay may cost.
TEST_F(CUDAGraphReplay, MakesNoCallOfTheRuntimeButTheLaunch) {
  static auto& counting = *new backend::test::FaultyBackend(default_device().backend());
  const Device device(counting);
  const DeviceGuard guard(device);
  const Stream stream(device);
  Buffer<int> x(1, stream);
  CUDAGraph graph;
  capture(graph, [&] { add(x); });
  graph.replay(stream);
  counting.forget_calls();
  graph.replay(stream);
  EXPECT_EQ(counting.calls(Call::graph_launch), 1);
  EXPECT_EQ(counting.calls(), 1);
  stream.synchronize();
}

// DOT.
class CUDAGraphDump : public CUDAGraphReplay {
 protected:
  void SetUp() override {
    directory_ = std::filesystem::temp_directory_path() /
                 ("reprise-dump-" + std::to_string(std::chrono::steady_clock::now().time_since_epoch().count()));
    std::filesystem::create_directory(directory_);
  }
  void TearDown() override { std::filesystem::remove_all(directory_); }
  static std::string text(const std::filesystem::path& path) {
    std::ifstream file(path);
    std::stringstream content;
    content << file.rdbuf();
    return content.str();
  }

  std::filesystem::path directory_;
};

TEST_F(CUDAGraphDump, WritesTheTemplateAsDot) {
  capture_increment(graph_, x_);
  graph_.debug_dump(directory_ / "graph.dot");
  EXPECT_TRUE(contains(text(directory_ / "graph.dot"), "digraph"));
}

TEST_F(CUDAGraphDump, HasMoreDetailsInDebugMode) {
  graph_.enable_debug_mode();
  capture_increment(graph_, x_);
  capture_increment(keeps_, x_);
  graph_.debug_dump(directory_ / "debug.dot");
  keeps_.debug_dump(directory_ / "plain.dot");
  EXPECT_GT(text(directory_ / "debug.dot").size(), text(directory_ / "plain.dot").size());
}

TEST_F(CUDAGraphDump, NamesTheFileThatCannotBeWritten) {
  capture_increment(graph_, x_);
  const auto path = directory_ / "missing" / "graph.dot";
  EXPECT_TRUE(contains(text_of<Error>([&] { graph_.debug_dump(path); }), "\"" + path.string() + "\""));
  EXPECT_TRUE(contains(text_of<Error>([&] { graph_.debug_dump(""); }), "the file \"\" cannot be written"));
  graph_.debug_dump(directory_ / "graph.dot");
  EXPECT_TRUE(std::filesystem::exists(directory_ / "graph.dot"));
}

// Two devices: in a process of its own, because the devices are made at the first use of any.
TEST(CUDAGraphOnTwoDevices, RefusesAStreamOfTheOther) {
  GTEST_FLAG_SET(death_test_style, "threadsafe");
  EXPECT_EXIT(
      {
        setenv("REPRISE_DEVICE", "host", 1);
        reprise::test::set_host_environment({}, 2);
        Buffer<int> x = zeros();
        CUDAGraph graph;
        capture_increment(graph, x);
        const Device other = Device::parse("host:1");
        const Stream stream(other);
        EXPECT_TRUE(contains(text_of<UsageError>([&] { graph.replay(stream); }), "host:1"));
        EXPECT_TRUE(contains(text_of<UsageError>([&] { graph.upload(stream); }), "host:1"));
        {
          const DeviceGuard guard(other);
          graph.replay();  // on the current stream of its own device
        }
        EXPECT_EQ(first(x), 1);
        {
          const DeviceGuard guard(other);
          CUDAGraph there;
          Buffer<int> y = zeros();
          capture_increment(there, y);
          EXPECT_EQ(there.device(), other);
          there.replay();
          EXPECT_EQ(first(y), 1);
        }
        std::exit(::testing::Test::HasFailure() ? 1 : 0);
      },
      ::testing::ExitedWithCode(0), "");
}

}  // namespace
}  // namespace reprise::graphs::test
