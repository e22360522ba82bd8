// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <exception>
#include <memory>
#include <optional>
#include <stdexcept>
#include <string>
#include <typeinfo>
#include <vector>

#include "graph/capture/framework_captures.h"
#include "graph/cuda_graph_impl.h"
#include "graph/listeners/listeners.h"
#include "graph/listeners/random_listener.h"
#include "inspect/annotations/annotation_listener.h"
#include "inspect/liveness/input_source.h"
#include "reprise/reprise.h"
#include "tests/support/scoped_framework.h"
#include "tests/unit/graph/graph_fixture.h"

// What a framework adds to captures.

namespace reprise::graphs::test {
namespace {

std::vector<std::string> notices;
bool refuses = false;
std::exception_ptr thrown_in_begin;

class Guest : public CaptureListener {
 public:
  explicit Guest(const char* name) : name_(name) {}
  void inherit(const CaptureListener& before) override {
    write("inherits from " + dynamic_cast<const Guest&>(before).name_);
  }
  void begin(captures::Capture& /*capture*/) override {
    write("begin");
    if (thrown_in_begin != nullptr) std::rethrow_exception(thrown_in_begin);
  }
  void started(captures::Capture& /*capture*/) override {
    if (refuses) throw std::runtime_error("the guest refuses");
  }
  void ended(captures::Capture& /*capture*/, CapturedGraph& graph) override {
    write("ended");
    graph.in_replays.push_back(this);
  }
  void abandoned(captures::Capture& /*capture*/) noexcept override { write("abandoned"); }
  void before_replay(const StreamRef& /*stream*/) override { write("replay"); }

 private:
  void write(const std::string& what) const { notices.push_back(name_ + " " + what); }
  std::string name_;
};
struct FirstGuest : Guest {
  FirstGuest() : Guest("first") {}
};
struct SecondGuest : Guest {
  SecondGuest() : Guest("second") {}
};

struct Guests final : FrameworkListeners {
  std::vector<CaptureListener*> in_order() override { return {&first, &second}; }
  FirstGuest first;
  SecondGuest second;
};

class Theirs final : public backend::Framework, public FrameworkCaptures {
 public:
  std::string_view name() const noexcept override { return "theirs"; }
  const FrameworkCaptures* captures() const noexcept override { return this; }
  std::unique_ptr<FrameworkListeners> make_listeners() const override { return std::make_unique<Guests>(); }
  std::unique_ptr<inspect::InputSource> make_input_source(const captures::Capture& /*capture*/) const override {
    return nullptr;
  }
  void add_to_exception() const noexcept override { notices.emplace_back("exception"); }
  void annotation_changed(const captures::Capture& capture, const Annotation& now) const noexcept override {
    EXPECT_EQ(capture.device(), default_device());
    EXPECT_TRUE(capture.has_ids());
    notices.push_back(now.empty() ? "none" : now.at("name"));
  }
};

class ListenersOfAFramework : public ::testing::Test {
 protected:
  ListenersOfAFramework() {
    notices.clear();
    refuses = false;
    thrown_in_begin = nullptr;
  }
  ~ListenersOfAFramework() override {
    refuses = false;
    thrown_in_begin = nullptr;
  }
  void install() { scope_.emplace(theirs_); }

 private:
  const Theirs theirs_;
  std::optional<reprise::test::ScopedFramework> scope_;
};

TEST_F(ListenersOfAFramework, TakePartInTheNextCaptureOfAGraphThatIsThereAlready) {
  CUDAGraph graph;
  install();
  Buffer<int> x = zeros();
  capture(graph, [&] { add(x); });
  graph.replay(default_device().default_stream());
  EXPECT_EQ(notices, (std::vector<std::string>{"first begin", "second begin", "first ended", "second ended",
                                               "second replay", "first replay"}));
  EXPECT_EQ(first(x), 1);
}

TEST_F(ListenersOfAFramework, DoNotMissACaptureThatBeganBeforeTheFrameworkWasInstalled) {
  Buffer<int> x = zeros();
  CUDAGraph graph;
  const std::string what = text_of<UsageError>([&] {
    capture(graph, {.name = "step"}, [&] {
      add(x);
      install();
    });
  });
  EXPECT_TRUE(contains(what, "graph `step`: theirs was installed while the graph was being captured")) << what;
  EXPECT_THROW(graph.replay(default_device().default_stream()), UsageError);
  capture(graph, [&] { add(x); });
  graph.replay(default_device().default_stream());
  EXPECT_EQ(first(x), 1);
}

TEST_F(ListenersOfAFramework, StandBetweenRandomNumbersAndWhatLooksAtNodes) {
  install();
  const Listeners listeners;
  const auto place = [&](const CaptureListener& listener) {
    return std::ranges::find(listeners.in_order(), &listener) - listeners.in_order().begin();
  };
  const auto random = place(listeners.random());
  auto& guests = static_cast<Guests&>(*listeners.framework());
  EXPECT_EQ(place(guests.first), random + 1);
  EXPECT_EQ(place(guests.second), random + 2);
  EXPECT_EQ(place(listeners.annotations()), random + 3);
}

TEST_F(ListenersOfAFramework, AreTheSameInAGraphThatTheyJoinLate) {
  Listeners early;
  install();
  early.join_framework();
  early.join_framework();  // nothing is missing any more
  const Listeners late;
  ASSERT_EQ(early.in_order().size(), late.in_order().size());
  for (std::size_t i = 0; i < early.in_order().size(); ++i) {
    const CaptureListener &a = *early.in_order()[i], &b = *late.in_order()[i];
    EXPECT_TRUE(typeid(a) == typeid(b)) << i;
  }
}

TEST_F(ListenersOfAFramework, CanRefuseACapture) {
  install();
  CUDAGraph graph;
  Buffer<int> x = zeros();
  refuses = true;
  EXPECT_EQ(text_of<std::runtime_error>([&] { capture(graph, [&] { add(x); }); }), "the guest refuses");
  EXPECT_EQ(notices, (std::vector<std::string>{"first begin", "second begin", "second abandoned", "first abandoned",
                                               "exception"}));
  EXPECT_TRUE(graph.capture_report().has_value());
  refuses = false;
  capture(graph, [&] { add(x); });
}

TEST_F(ListenersOfAFramework, ThatCannotBeginLeaveAReport) {
  install();
  CUDAGraph graph;
  Buffer<int> x = zeros();
  thrown_in_begin =
      std::make_exception_ptr(BackendError("cuTheirs", ErrorCode::not_permitted, "theirs", SourceLocation::current()));
  EXPECT_THROW(capture_increment(graph, x), BackendError);
  EXPECT_EQ(notices, (std::vector<std::string>{"first begin", "exception"}));
  ASSERT_TRUE(graph.capture_report().has_value());
  EXPECT_EQ(graph.capture_report()->code, ErrorCode::not_permitted);
  EXPECT_EQ(graph.capture_report()->broken_by->name, "cuTheirs");
  EXPECT_EQ(graph.capture_report()->device, default_device().str());
  thrown_in_begin = nullptr;
  capture_increment(graph, x);
  EXPECT_FALSE(graph.capture_report().has_value());
}

TEST_F(ListenersOfAFramework, AreJoinedByTheScopesOfAnnotations) {
  install();
  CUDAGraph graph;
  Buffer<int> x = zeros();
  GraphOptions options;
  options.enable_annotations = true;
  capture(graph, options, [&] {
    const annotate outer("outer");
    {
      const annotate inner("inner");
      add(x);
    }
    add(x);
  });
  EXPECT_EQ(notices, (std::vector<std::string>{"first begin", "second begin", "outer", "inner", "outer", "none",
                                               "first ended", "second ended"}));
}

TEST_F(ListenersOfAFramework, AreNotNotifiedOfAScopeThatIsLeftAfterTheCapture) {
  install();
  CUDAGraph graph;
  Buffer<int> x = zeros();
  GraphOptions options;
  options.enable_annotations = true;
  std::optional<annotate> scope;
  capture(graph, options, [&] {
    scope.emplace("late");
    add(x);
  });
  notices.clear();
  scope.reset();
  EXPECT_TRUE(notices.empty());
}

TEST_F(ListenersOfAFramework, InheritFromTheirDryRunsAndTheseFromThem) {
  install();
  CUDAGraph graph;
  Buffer<int> x = zeros();
  GraphOptions options;
  options.check_frozen_values = no_next;
  capture(graph, options, [&] { add(x); });
  EXPECT_EQ(notices, (std::vector<std::string>{"first inherits from first", "second inherits from second",
                                               "first begin", "second begin", "first ended", "second ended",
                                               "first inherits from first", "second inherits from second",
                                               "first begin", "second begin", "first ended", "second ended"}));
}

}  // namespace
}  // namespace reprise::graphs::test
