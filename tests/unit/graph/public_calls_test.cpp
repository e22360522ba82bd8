// SPDX-License-Identifier: Apache-2.0
#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "tests/support/test_file.h"
#include "tests/unit/graph/graph_fixture.h"

// Errors of the runtime begin with the call of the library that the user made.

namespace reprise::graphs::test {
namespace {

class PublicCalls : public ::testing::Test {
 protected:
  void SetUp() override {
    if (current_device().type() != DeviceType::host) GTEST_SKIP() << "failures are injected on host devices";
  }
  void work() { add(x_); }
  static void expect_named(const std::string& name, const std::string& cuda, const std::function<void()>& call) {
    const InjectedFailure failure({.call = cuda});
    const std::string text = text_of<BackendError>(call);
    EXPECT_TRUE(failure.happened()) << name << ", " << cuda;
    EXPECT_TRUE(text.starts_with(name + ": " + cuda + " returned")) << name << ", " << cuda << ": " << text;
  }

  Buffer<int> x_ = zeros();
};

TEST_F(PublicCalls, AreNamedByErrorsOfTheRuntime) {
  struct Row {
    const char *name, *cuda;
    std::function<void()> call;
  };
  const std::function<void()> body = [this] { work(); };
  CUDAGraph graph = capture(body), kept(KeepGraph::yes), hooked = capture(body);
  capture(kept, body);
  hooked.add_hooks({.before_replay = [](const StreamRef&) {}});
  Buffer<std::uint32_t> condition(std::vector<std::uint32_t>{1});
  const auto in_capture = [&](const std::function<void()>& call) {
    return [&body, call] {
      capture([&] {
        body();
        call();
      });
    };
  };
  const auto begin = [] {
    const SideStream side;
    const StreamGuard current(side.ref());
    CUDAGraph().capture_begin();
  };
  const auto begin_scope = [] {
    CUDAGraph made;
    const reprise::graph scope(made);
  };
  const std::vector<Row> rows = {
      {"CUDAGraph::replay", "cuGraphLaunch", [&] { graph.replay(); }},
      {"CUDAGraph::replay", "cuGraphLaunch", [&] { hooked.replay(); }},
      {"CUDAGraph::replay", "cuGraphAddNode", in_capture([&] { graph.replay(); })},
      {"add_child", "cuGraphAddNode", in_capture([&] { add_child(graph); })},
      {"CUDAGraph::upload", "cuGraphUpload", [&] { graph.upload(); }},
      {"capture", "cuStreamBeginCapture", [&] { capture(body); }},
      {"capture", "cuGraphInstantiateWithParams", [&] { capture(body); }},
      {"CUDAGraph::capture_begin", "cuStreamBeginCapture", begin},
      {"graph", "cuStreamBeginCapture", begin_scope},
      {"CUDAGraph::instantiate", "cuGraphInstantiateWithParams", [&] { kept.instantiate(); }},
      {"CUDAGraph::nodes", "cuGraphGetNodes", [&] { static_cast<void>(graph.nodes()); }},
      {"CUDAGraph::node", "cuGraphGetNodes", [&] { static_cast<void>(graph.node("x")); }},
      {"CUDAGraph::node_count", "cuGraphGetNodes", [&] { static_cast<void>(graph.node_count()); }},
      {"launch_host", "cuLaunchHostFunc", [] { launch_host([] {}); }},
      {"time_replay", "cuGraphLaunch", [&] { static_cast<void>(time_replay(graph)); }},
      {"CUDAGraph::update", "cuGraphExecUpdate", [&] { graph.update(hooked); }},
      {"CUDAGraph::recapture", "cuStreamBeginCapture", [&] { static_cast<void>(graph.recapture(body)); }},
      {"CUDAGraph::recapture", "cuGraphExecUpdate", [&] { static_cast<void>(graph.recapture(body)); }},
      {"compare", "cuStreamBeginCapture", [&] { static_cast<void>(compare(graph, body)); }},
      {"CUDAGraph::debug_dump", "cuGraphDebugDotPrint", [&] { graph.debug_dump(reprise::test::TestFile().path()); }},
      {"if_", "cuStreamBeginCaptureToGraph", in_capture([&] { if_(condition.data(), body); })},
      {"if_else", "cuStreamBeginCaptureToGraph", in_capture([&] { if_else(condition.data(), body, body); })},
      {"switch_", "cuStreamBeginCaptureToGraph", in_capture([&] {
         switch_(condition.data(), {body, body});
       })},
      {"while_", "cuStreamBeginCaptureToGraph", in_capture([&] { static_cast<void>(while_(condition.data(), body)); })},
  };
  for (const Row& row : rows) expect_named(row.name, row.cuda, row.call);
}

TEST_F(PublicCalls, AreNamedByTheInnermostWithinBodiesAndHooks) {
  const std::function<void()> body = [this] { work(); };
  expect_named("Buffer::fill_bytes_async", "cuMemsetD8Async", [&] { capture([&] { x_.fill_bytes_async(0); }); });
  expect_named("Buffer::fill_bytes_async", "cuMemsetD8Async",
               [&] { capture({.warmup = 1}, [&] { x_.fill_bytes_async(0); }); });
  Buffer<std::uint32_t> condition(std::vector<std::uint32_t>{1});
  expect_named("Buffer::fill_bytes_async", "cuMemsetD8Async", [&] {
    capture([&] {
      body();
      if_(condition.data(), [&] { x_.fill_bytes_async(0); });
    });
  });
  CUDAGraph graph = capture(body);
  graph.add_hooks({.before_replay = [&](const StreamRef& stream) { stream.synchronize(); }});
  expect_named("StreamRef::synchronize", "cuStreamSynchronize", [&] { graph.replay(); });
  expect_named("CUDAGraph::replay", "cuGraphLaunch", [&] { graph.replay(); });
}

}  // namespace
}  // namespace reprise::graphs::test
