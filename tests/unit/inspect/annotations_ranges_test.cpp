// SPDX-License-Identifier: Apache-2.0
#include <dlfcn.h>

#include <cstdio>
#include <cstdlib>
#include <memory>
#include <string>
#include <thread>

#include "tests/support/faulty_backend.h"
#include "tests/unit/inspect/annotations_fixture.h"

// Ranges for tools, with a tool of the tests' own. NVTX opens it once in a process, at its first call, so each test has
// a process of its own.

namespace reprise::graphs::test {
namespace {

#ifdef FAKE_NVTX_LIBRARY

class Ranges : public ::testing::Test {
 protected:
  void SetUp() override {
    ::testing::FLAGS_gtest_death_test_style = "threadsafe";
    setenv("NVTX_INJECTION64_PATH", FAKE_NVTX_LIBRARY, 1);
  }
  void TearDown() override { unsetenv("NVTX_INJECTION64_PATH"); }
};

std::string ranges() {
  void* const tool = dlopen(FAKE_NVTX_LIBRARY, RTLD_NOW | RTLD_NOLOAD);
  if (tool == nullptr) return "the tool was not opened";
  return reinterpret_cast<const char* (*)()>(dlsym(tool, "fake_nvtx_ranges"))();
}

// In a process of its own: ends it.
[[noreturn]] void expect_ranges(const std::string& expected) {
  const std::string found = ranges();
  if (found != expected) std::fprintf(stderr, "expected: %s\nfound:    %s\n", expected.c_str(), found.c_str());
  std::_Exit(found == expected ? 0 : 1);
}

#define EXPECT_RANGES(body, expected) \
  EXPECT_EXIT(                        \
      {                               \
        body();                       \
        expect_ranges(expected);      \
      },                              \
      ::testing::ExitedWithCode(0), "")

void capture_two_phases(CUDAGraph& graph, Buffer<int>& x) {
  capture(graph, annotated(), [&] {
    {
      const annotate scope("forward");
      const annotate layer({{"layer", "3"}});
      add(x);
    }
    const annotate scope("backward");
    add(x);
  });
}
const std::string of_two_phases = "+forward +layer=3 - - +backward -";

TEST_F(Ranges, AreTheScopesOfACaptureAndOneForEachReplay) {
  const auto body = [] {
    Buffer<int> x = zeros();
    CUDAGraph graph;
    capture_two_phases(graph, x);
    graph.replay();
    graph.replay();
    if (first(x) != 4) std::_Exit(2);
    graph.reset();
    capture_increment(graph, x);
    graph.replay();  // has none
  };
  EXPECT_RANGES(body, of_two_phases + " +replay: forward; backward - +replay: forward; backward -");
}

TEST_F(Ranges, EndWithAReplayThatFails) {
  const auto body = [] {
    auto& runtime = *new backend::test::FaultyBackend(default_device().backend());
    const DeviceGuard device{Device(runtime)};
    Buffer<int> x = zeros();
    CUDAGraph graph;
    capture_two_phases(graph, x);
    runtime.fail(backend::Call::graph_launch, ErrorCode::launch_failure);
    text_of<BackendError>([&] { graph.replay(); });
  };
  EXPECT_RANGES(body, of_two_phases + " +replay: forward; backward -");
}

TEST_F(Ranges, OfReplaysHaveNamesThatAreNotTooLong) {
  const auto body = [] {
    Buffer<int> x = zeros();
    CUDAGraph graph;
    capture(graph, annotated(), [&] {
      for (int i = 0; i < 100; ++i) {
        const annotate scope("phase " + std::to_string(i));
        add(x);
      }
    });
    graph.replay();
    const std::string all = ranges();
    const std::string last = all.substr(all.find("+replay: phase 0; phase 1; "));
    if (last.size() > 130 || last.find("...") == std::string::npos) std::_Exit(2);
    expect_ranges(all);
  };
  EXPECT_RANGES(body, "");
}

TEST_F(Ranges, EndThoughTheCaptureEndedBefore) {
  const auto body = [] {
    Buffer<int> x = zeros();
    CUDAGraph graph;
    const SideStream side;
    graph.capture_begin(annotated());
    auto scope = std::make_unique<annotate>("late");
    add(x);
    graph.capture_abandon();
    scope.reset();
  };
  EXPECT_RANGES(body, "+late -");
}

TEST_F(Ranges, AreOfTheThreadThatIsInTheScope) {
  const auto body = [] {
    Buffer<int> x = zeros();
    CUDAGraph graph;
    capture(graph, annotated(), [&] {
      const StreamRef here = current_stream();
      const annotate scope("mine");
      std::thread([&] {
        const StreamGuard there(here);
        const annotate other("other");
        add(x);
      }).join();
    });
  };
  EXPECT_RANGES(body, "+mine 1:+other 1:- -");
}

TEST_F(Ranges, AreNotMadeOutsideOfCapturesWithAnnotations) {
  const auto body = [] {
    Buffer<int> x = zeros();
    CUDAGraph graph, plain;
    const annotate outside("outside");
    capture(plain, [&] {
      const annotate scope("plain");
      add(x);
    });
    plain.replay();
    capture(graph, annotated(), [&] { add(x); });  // opens the tool
    graph.replay();
  };
  EXPECT_RANGES(body, "");
}

#else

TEST(Ranges, NeedTheHeaderOfNvtx) {
  GTEST_SKIP() << "this build has no nvtx3/nvToolsExt.h";
}

#endif

}  // namespace
}  // namespace reprise::graphs::test
