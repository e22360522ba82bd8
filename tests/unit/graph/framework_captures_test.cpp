// SPDX-License-Identifier: Apache-2.0
#include <memory>
#include <optional>
#include <stdexcept>
#include <string>
#include <typeinfo>
#include <vector>

#include "graph/cuda_graph_impl.h"
#include "graph/framework_captures.h"
#include "graph/listeners/random_listener.h"
#include "inspect/annotations/annotation_listener.h"
#include "inspect/liveness/input_source.h"
#include "reprise/reprise.h"
#include "tests/support/scoped_framework.h"
#include "tests/unit/graph/graph_fixture.h"

// What a framework adds to captures.

namespace reprise::graphs::test {
namespace {

std::vector<std::string> heard;
bool refuses = false;

class Guest : public CaptureListener {
 public:
  explicit Guest(const char* name) : name_(name) {}
  void rehearsed(CaptureListener& other) override { write("rehearsed by " + dynamic_cast<Guest&>(other).name_); }
  void begin(const CaptureContext& /*context*/) override { write("begin"); }
  void started(const CaptureContext& /*context*/) override {
    if (refuses) throw std::runtime_error("the guest refuses");
  }
  void ended(const CaptureContext& /*context*/, GraphHandle /*template_graph*/) override { write("ended"); }
  void abandoned() noexcept override { write("abandoned"); }
  bool takes_part_in_replays() const noexcept override { return true; }
  void before_replay(const StreamRef& /*stream*/) override { write("replay"); }
  void reset() noexcept override {}

 private:
  void write(const std::string& what) const { heard.push_back(name_ + " " + what); }
  std::string name_;
};
struct FirstGuest : Guest {
  FirstGuest() : Guest("first") {}
};
struct SecondGuest : Guest {
  SecondGuest() : Guest("second") {}
};

class Theirs final : public backend::Framework, public FrameworkCaptures {
 public:
  std::string_view name() const noexcept override { return "theirs"; }
  const FrameworkCaptures* captures() const noexcept override { return this; }
  Listeners make_listeners() const override {
    Listeners made;
    made.push_back(std::make_unique<FirstGuest>());
    made.push_back(std::make_unique<SecondGuest>());
    return made;
  }
  std::unique_ptr<inspect::InputSource> make_input_source(const CaptureContext& /*context*/) const override {
    return nullptr;
  }
  void add_to_exception() const noexcept override { heard.emplace_back("exception"); }
  void annotation_changed(DeviceType type, std::uint64_t capture_id, const Annotation& now) const noexcept override {
    EXPECT_EQ(type, default_device().type());
    EXPECT_NE(capture_id, 0U);
    heard.push_back(now.empty() ? "none" : now.at("name"));
  }
};

class FrameworkListeners : public ::testing::Test {
 protected:
  FrameworkListeners() {
    heard.clear();
    refuses = false;
  }
  ~FrameworkListeners() override { refuses = false; }
  void install() { scope_.emplace(theirs_); }

 private:
  const Theirs theirs_;
  std::optional<reprise::test::ScopedFramework> scope_;
};

TEST_F(FrameworkListeners, TakePartInTheNextCaptureOfAGraphThatIsThereAlready) {
  CUDAGraph graph;
  install();
  Buffer<int> x = zeros();
  capture(graph, {}, [&] { add(x); });
  graph.replay(default_device().default_stream());
  EXPECT_EQ(heard, (std::vector<std::string>{"first begin", "second begin", "first ended", "second ended",
                                             "second replay", "first replay"}));
  EXPECT_EQ(first(x), 1);
}

TEST_F(FrameworkListeners, StandBetweenRandomNumbersAndWhatLooksAtNodes) {
  install();
  const Listeners listeners = make_listeners();
  const auto place = [&]<class T>(T* /*type*/) {
    std::size_t i = 0;
    while (dynamic_cast<T*>(listeners.at(i).get()) == nullptr) ++i;
    return i;
  };
  const std::size_t random = place(static_cast<RandomListener*>(nullptr));
  EXPECT_EQ(place(static_cast<FirstGuest*>(nullptr)), random + 1);
  EXPECT_EQ(place(static_cast<SecondGuest*>(nullptr)), random + 2);
  EXPECT_EQ(place(static_cast<inspect::AnnotationListener*>(nullptr)), random + 3);
}

TEST_F(FrameworkListeners, AreTheSameInAGraphThatTheyJoinLate) {
  Listeners early = make_listeners();
  install();
  add_missing_listeners(early);
  add_missing_listeners(early);  // nothing is missing any more
  const Listeners late = make_listeners();
  ASSERT_EQ(early.size(), late.size());
  for (std::size_t i = 0; i < early.size(); ++i) {
    const CaptureListener &a = *early[i], &b = *late[i];
    EXPECT_TRUE(typeid(a) == typeid(b)) << i;
  }
}

TEST_F(FrameworkListeners, CanRefuseACapture) {
  install();
  CUDAGraph graph;
  Buffer<int> x = zeros();
  refuses = true;
  EXPECT_EQ(text_of<std::runtime_error>([&] { capture(graph, {}, [&] { add(x); }); }), "the guest refuses");
  EXPECT_EQ(heard, (std::vector<std::string>{"first begin", "second begin", "second abandoned", "first abandoned",
                                             "exception"}));
  refuses = false;
  capture(graph, {}, [&] { add(x); });
}

TEST_F(FrameworkListeners, AreJoinedByTheScopesOfAnnotations) {
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
  EXPECT_EQ(heard, (std::vector<std::string>{"first begin", "second begin", "outer", "inner", "outer", "none",
                                             "first ended", "second ended"}));
}

TEST_F(FrameworkListeners, AreNotifiedOfTheirRehearsals) {
  install();
  CUDAGraph graph;
  Buffer<int> x = zeros();
  GraphOptions options;
  options.check_input_liveness = options.confirm_by_second_capture = true;
  capture(graph, options, [&] { add(x); });
  EXPECT_EQ(heard, (std::vector<std::string>{"first begin", "second begin", "first ended", "second ended",
                                             "first rehearsed by first", "second rehearsed by second", "first begin",
                                             "second begin", "first ended", "second ended"}));
}

}  // namespace
}  // namespace reprise::graphs::test
