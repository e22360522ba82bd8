// SPDX-License-Identifier: Apache-2.0
#include <functional>
#include <memory>
#include <stdexcept>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "backend/check.h"
#include "captures/registry.h"
#include "graph/capture/active_capture.h"
#include "graph/capture/internal_streams.h"
#include "graph/resources/graph_resources.h"
#include "reprise/reprise.h"
#include "tests/support/faulty_backend.h"
#include "tests/unit/graph/graph_fixture.h"

// What takes part in a capture, on its own.

namespace reprise::graphs::test {
namespace {

using Log = std::vector<std::string>;

// Logs its calls; throws where requested.
class Recorder final : public CaptureListener {
 public:
  Recorder(std::string name, Log& log, std::string throws_in = "")
      : name_(std::move(name)), log_(log), throws_in_(std::move(throws_in)) {}

  void begin(captures::Capture& capture) override {
    EXPECT_EQ(capture.stream().capture_status(), CaptureStatus::none);
    step("begin");
  }
  void started(captures::Capture& capture) override {
    EXPECT_EQ(capture.stream().capture_status(), CaptureStatus::active);
    EXPECT_TRUE(captures::any_underway());
    step("started");
  }
  void ended(captures::Capture& capture, CapturedGraph& graph) override {
    EXPECT_EQ(capture.stream().capture_status(), CaptureStatus::none);
    std::vector<GraphNodeHandle> nodes;
    EXPECT_EQ(capture.device().backend().graph_nodes(graph.template_graph, &nodes), ErrorCode::success);
    step("ended");
  }
  void abandoned(captures::Capture& /*capture*/) noexcept override { log_.push_back(name_ + " abandoned"); }
  void reset() noexcept override { log_.push_back(name_ + " reset"); }

 private:
  void step(const std::string& what) {
    log_.push_back(name_ + " " + what);
    if (what == throws_in_) throw std::runtime_error(name_ + " " + what);
  }

  std::string name_;
  Log& log_;
  std::string throws_in_;
};

class Capturing : public ::testing::Test {
 protected:
  /// Announced; begin() is left to the test.
  ActiveCapture announce(const std::vector<CaptureListener*>& all) { return {stream_.ref(), options_, {}, all}; }
  std::vector<CaptureListener*> listeners(const std::string& second_throws_in = "") {
    recorders_.clear();
    recorders_.push_back(std::make_unique<Recorder>("one", log_));
    recorders_.push_back(std::make_unique<Recorder>("two", log_, second_throws_in));
    recorders_.push_back(std::make_unique<Recorder>("three", log_));
    return {recorders_[0].get(), recorders_[1].get(), recorders_[2].get()};
  }
  void expect_nothing_underway() {
    EXPECT_FALSE(captures::any_underway());
    EXPECT_EQ(stream_.ref().capture_status(), CaptureStatus::none);
    EXPECT_EQ(make_unsafe_call(), ErrorCode::success);
  }

  GraphOptions options_;
  Log log_;
  std::vector<std::unique_ptr<Recorder>> recorders_;
  SideStream stream_;
  Buffer<int> x_ = zeros();
};

TEST_F(Capturing, TellsTheListenersInOrder) {
  const std::vector<CaptureListener*> all = listeners();
  {
    ActiveCapture capture = announce(all);
    capture.begin("test");
    add(x_);
    const GraphHandle template_graph = capture.end().template_graph;
    capture.commit();
    EXPECT_EQ(default_device().backend().graph_destroy(template_graph), ErrorCode::success);
  }
  EXPECT_EQ(log_, (Log{"one begin", "two begin", "three begin", "one started", "two started", "three started",
                       "one ended", "two ended", "three ended"}));
  expect_nothing_underway();
}

TEST_F(Capturing, AbandonsTheListenersInReverseOrder) {
  const std::vector<CaptureListener*> all = listeners();
  {
    ActiveCapture capture = announce(all);
    capture.begin("test");
    log_.clear();
  }
  EXPECT_EQ(log_, (Log{"three abandoned", "two abandoned", "one abandoned"}));
  expect_nothing_underway();
}

TEST_F(Capturing, AbandonsTheListenersWhenTheEndIsNotCommitted) {
  const std::vector<CaptureListener*> all = listeners();
  {
    ActiveCapture capture = announce(all);
    capture.begin("test");
    add(x_);
    const GraphHandle template_graph = capture.end().template_graph;
    EXPECT_EQ(default_device().backend().graph_destroy(template_graph), ErrorCode::success);
    log_.clear();
  }
  EXPECT_EQ(log_, (Log{"three abandoned", "two abandoned", "one abandoned"}));
}

TEST_F(Capturing, AbandonsOnlyThoseThatHadBegunWhenOneCannotBegin) {
  const std::vector<CaptureListener*> all = listeners("begin");
  EXPECT_EQ(text_of<std::runtime_error>([&] { announce(all).begin("test"); }), "two begin");
  EXPECT_EQ(log_, (Log{"one begin", "two begin", "one abandoned"}));
  expect_nothing_underway();
}

TEST_F(Capturing, AbandonsAllWhenOneFailsAfterTheStart) {
  const std::vector<CaptureListener*> all = listeners("started");
  EXPECT_EQ(text_of<std::runtime_error>([&] { announce(all).begin("test"); }), "two started");
  EXPECT_EQ(log_, (Log{"one begin", "two begin", "three begin", "one started", "two started", "three abandoned",
                       "two abandoned", "one abandoned"}));
  expect_nothing_underway();
}

TEST_F(Capturing, AbandonsAllWhenOneFailsAtTheEnd) {
  const std::vector<CaptureListener*> all = listeners("ended");
  {
    ActiveCapture capture = announce(all);
    capture.begin("test");
    add(x_);
    log_.clear();
    EXPECT_EQ(text_of<std::runtime_error>([&] { capture.end(); }), "two ended");
  }
  EXPECT_EQ(log_, (Log{"one ended", "two ended", "three abandoned", "two abandoned", "one abandoned"}));
  expect_nothing_underway();
}

TEST_F(Capturing, AbandonsAllWhenTheCaptureWasBroken) {
  const std::vector<CaptureListener*> all = listeners();
  {
    ActiveCapture capture = announce(all);
    capture.begin("test");
    log_.clear();
    EXPECT_EQ(make_unsafe_call(), ErrorCode::stream_capture_unsupported);
    EXPECT_THROW(capture.end(), CaptureError);
  }
  EXPECT_EQ(log_, (Log{"three abandoned", "two abandoned", "one abandoned"}));
  expect_nothing_underway();
}

TEST_F(Capturing, IsCountedWhileItIsUnderway) {
  EXPECT_FALSE(captures::any_underway());
  ActiveCapture capture = announce({});
  EXPECT_TRUE(captures::any_underway());
  capture.begin("test");
  add(x_);
  const GraphHandle template_graph = capture.end().template_graph;
  EXPECT_FALSE(captures::any_underway());
  EXPECT_EQ(default_device().backend().graph_destroy(template_graph), ErrorCode::success);
}

// A device on which the handle of the per-thread default stream means another stream on each thread, as on CUDA's.
class PerThreadStreams final : public backend::test::FaultyBackend {
 public:
  using FaultyBackend::FaultyBackend;
  static StreamHandle handle() { return reinterpret_cast<StreamHandle>(2); }
  inline static thread_local StreamHandle of_this_thread = nullptr;

  backend::Result stream_begin_capture(StreamHandle stream, CaptureMode mode) override {
    return FaultyBackend::stream_begin_capture(meant(stream), mode);
  }
  backend::Result stream_capture_info(StreamHandle stream, backend::CaptureInfo* info) override {
    return FaultyBackend::stream_capture_info(meant(stream), info);
  }
  backend::Result stream_is_capturing(StreamHandle stream, CaptureStatus* status) override {
    return FaultyBackend::stream_is_capturing(meant(stream), status);
  }
  backend::Result stream_end_capture(StreamHandle stream, GraphHandle* graph) override {
    return FaultyBackend::stream_end_capture(meant(stream), graph);
  }

 private:
  static StreamHandle meant(StreamHandle stream) { return stream == handle() ? of_this_thread : stream; }
};

// A capture of this thread's per-thread default stream.
class CapturingAPerThreadStream : public ::testing::Test {
 protected:
  CapturingAPerThreadStream() {
    PerThreadStreams::of_this_thread = stream_.ref().native();
    capture_.begin("test");
  }
  /// Runs on a thread with a stream of its own for the handle.
  void on_another_thread(const std::function<void()>& run) const {
    std::thread([&] {
      const Stream other(device_);
      PerThreadStreams::of_this_thread = other.native();
      run();
    }).join();
  }

  static PerThreadStreams& streams() {
    static auto& made = *new PerThreadStreams(default_device().backend());  // devices live until the process ends
    return made;
  }

  const SideStream stream_;
  const Device device_{streams()};
  const StreamRef per_thread_{device_, PerThreadStreams::handle()};
  const GraphOptions options_{.capture_error_mode = CaptureMode::thread};
  ActiveCapture capture_{per_thread_, options_, {}, {}};
};

TEST_F(CapturingAPerThreadStream, IsNotTheCaptureOfAnotherThread) {
  on_another_thread([&] {
    const backend::Checked runtime(device_.backend());
    runtime.stream_begin_capture(per_thread_.native(), CaptureMode::thread);
    EXPECT_EQ(captures::find(per_thread_).part, captures::Part::foreign);
    GraphHandle graph = nullptr;
    runtime.stream_end_capture(per_thread_.native(), &graph);
    runtime.graph_destroy(graph);
  });
  EXPECT_EQ(captures::find(per_thread_).part, captures::Part::own);
}

TEST_F(CapturingAPerThreadStream, IsNoneOfAThreadThatCapturesNothing) {
  on_another_thread([&] {
    EXPECT_EQ(captures::find(per_thread_).part, captures::Part::none);
    EXPECT_EQ(captures::find_own(per_thread_), nullptr) << "its memory would come from the pool of the graph";
  });
  EXPECT_EQ(captures::find_own(per_thread_).get(), &capture_.capture());
}

// Resources.
class HeldByATemplate : public ::testing::Test {
 protected:
  void SetUp() override { ASSERT_EQ(runtime_.graph_create(&template_graph_), ErrorCode::success); }

  std::shared_ptr<void> resource(std::string name) {
    return std::shared_ptr<void>(nullptr, [this, name = std::move(name)](std::nullptr_t) { log_.push_back(name); });
  }

  backend::Backend& runtime_ = default_device().backend();
  GraphHandle template_graph_ = nullptr;
  Log log_;
  GraphResources held_;
};

TEST_F(HeldByATemplate, ResourcesAreReleasedTheLastOneFirst) {
  held_.hold(KeepGraph::yes, runtime_, template_graph_, {resource("one"), resource("two"), resource("three")});
  EXPECT_TRUE(log_.empty());
  EXPECT_EQ(runtime_.graph_destroy(template_graph_), ErrorCode::success);
  EXPECT_TRUE(held_.release(std::chrono::seconds(5)));
  EXPECT_EQ(log_, (Log{"three", "two", "one"}));
}

TEST_F(HeldByATemplate, ResourcesStayWhileAnExecutableLives) {
  GraphExecHandle exec = nullptr;
  held_.hold(KeepGraph::yes, runtime_, template_graph_, {resource("one")});
  ASSERT_EQ(runtime_.graph_instantiate(&exec, template_graph_, InstantiateFlags::none, nullptr), ErrorCode::success);
  EXPECT_EQ(runtime_.graph_destroy(template_graph_), ErrorCode::success);
  EXPECT_FALSE(held_.release(std::chrono::milliseconds(2)));
  EXPECT_TRUE(log_.empty());
  EXPECT_EQ(runtime_.graph_exec_destroy(exec), ErrorCode::success);
  EXPECT_TRUE(eventually([&] {
    memory::ReleaseQueue::drain();
    return log_ == Log{"one"};
  })) << "a later drain of the queue releases them";
}

TEST_F(HeldByATemplate, ReleasingNothingSucceedsAtOnce) {
  EXPECT_TRUE(held_.release(std::chrono::seconds(5)));
  EXPECT_EQ(runtime_.graph_destroy(template_graph_), ErrorCode::success);
}

// Internal streams.
TEST(InternalStreams, AreTheLowestNumberedThatAreFree) {
  const Device device = default_device();
  StreamHandle first_one = nullptr, second_one = nullptr;
  {
    const InternalStream one(device);
    const InternalStream two(device);
    first_one = one.ref().native();
    second_one = two.ref().native();
    EXPECT_NE(first_one, second_one);
  }
  const InternalStream one(device);
  EXPECT_EQ(one.ref().native(), first_one);
  const InternalStream two(device);
  EXPECT_EQ(two.ref().native(), second_one);
}

TEST(InternalStreams, AreNotGivenOutWhileTheyCapture) {
  const Device device = default_device();
  std::optional<InternalStream> one(device);
  const StreamRef capturing = one->ref();
  CUDAGraph graph;
  {
    const StreamGuard guard(capturing);
    graph.capture_begin();
    one.reset();
    EXPECT_NE(InternalStream(device).ref(), capturing);
  }
  graph.capture_abandon();
  EXPECT_EQ(InternalStream(device).ref(), capturing);
}

TEST(InternalStreams, DoNotWaitForTheLegacyDefaultStream) {
  const Device device = default_device();
  const InternalStream stream(device);
  auto flags = backend::StreamFlags::blocking;
  ASSERT_EQ(device.backend().stream_flags(stream.ref().native(), &flags), ErrorCode::success);
  EXPECT_EQ(flags, backend::StreamFlags::non_blocking);
}

}  // namespace
}  // namespace reprise::graphs::test
