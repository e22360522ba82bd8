// SPDX-License-Identifier: Apache-2.0
#include <memory>
#include <stdexcept>
#include <string>
#include <typeinfo>
#include <vector>

#include "graph/cuda_graph_impl.h"
#include "graph/listeners.h"
#include "graph/listeners/random_listener.h"
#include "inspect/annotations/annotation_listener.h"
#include "reprise/reprise.h"
#include "tests/unit/graph/graph_fixture.h"

// What components add to captures.

namespace reprise::graphs::test {
namespace {

// Listeners of components stay until the process ends: theirs write only while a test asks them to.
std::vector<std::string>* heard = nullptr;
bool refuses = false;

class Guest : public CaptureListener {
 public:
  explicit Guest(const char* name) : name_(name) {}
  void rehearsed(CaptureListener& other) override { write("rehearsed by " + dynamic_cast<Guest&>(other).name_); }
  void begin(const CaptureContext& /*context*/) override { write("begin"); }
  void started(const CaptureContext& /*context*/) override {
    if (heard != nullptr && refuses) throw std::runtime_error("the guest refuses");
  }
  void ended(const CaptureContext& /*context*/, GraphHandle /*template_graph*/) override { write("ended"); }
  void abandoned() noexcept override { write("abandoned"); }
  bool takes_part_in_replays() const noexcept override { return heard != nullptr; }
  void before_replay(const StreamRef& /*stream*/) override { write("replay"); }
  void reset() noexcept override {}

 private:
  void write(const std::string& what) const {
    if (heard != nullptr) heard->push_back(name_ + " " + what);
  }
  std::string name_;
};
struct FirstGuest : Guest {
  FirstGuest() : Guest("first") {}
};
struct SecondGuest : Guest {
  SecondGuest() : Guest("second") {}
};

// Once in a process: in the order in which the tests run, whichever they are.
void let_first_join() {
  static const bool joined =
      (add_listener_factory([]() -> std::unique_ptr<CaptureListener> { return std::make_unique<FirstGuest>(); }), true);
  static_cast<void>(joined);
}
void let_second_join() {
  let_first_join();
  static const bool joined =
      (add_listener_factory([]() -> std::unique_ptr<CaptureListener> { return std::make_unique<SecondGuest>(); }),
       true);
  static_cast<void>(joined);
}

class ListenerFactory : public ::testing::Test {
 protected:
  ListenerFactory() { heard = &heard_; }
  ~ListenerFactory() override {
    heard = nullptr;
    refuses = false;
  }
  std::vector<std::string> heard_;
};

TEST_F(ListenerFactory, LetsAComponentTakePartInTheNextCaptureOfAGraphThatIsThereAlready) {
  CUDAGraph graph;
  let_second_join();
  Buffer<int> x = zeros();
  capture(graph, {}, [&] { add(x); });
  graph.replay(default_device().default_stream());
  EXPECT_EQ(heard_, (std::vector<std::string>{"first begin", "second begin", "first ended", "second ended",
                                              "second replay", "first replay"}));
  EXPECT_EQ(first(x), 1);
}

TEST_F(ListenerFactory, LetsComponentsStandBetweenRandomNumbersAndWhatLooksAtNodes) {
  let_second_join();
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

TEST_F(ListenerFactory, GivesAGraphThatComponentsJoinLateTheSameListeners) {
  let_first_join();
  Listeners early = make_listeners();
  let_second_join();
  add_missing_listeners(early);
  add_missing_listeners(early);  // nothing is missing any more
  const Listeners late = make_listeners();
  ASSERT_EQ(early.size(), late.size());
  for (std::size_t i = 0; i < early.size(); ++i) {
    const CaptureListener &a = *early[i], &b = *late[i];
    EXPECT_TRUE(typeid(a) == typeid(b)) << i;
  }
}

TEST_F(ListenerFactory, LetsAComponentRefuseACapture) {
  let_second_join();
  CUDAGraph graph;
  Buffer<int> x = zeros();
  refuses = true;
  EXPECT_EQ(text_of<std::runtime_error>([&] { capture(graph, {}, [&] { add(x); }); }), "the guest refuses");
  EXPECT_EQ(heard_, (std::vector<std::string>{"first begin", "second begin", "second abandoned", "first abandoned"}));
  refuses = false;
  capture(graph, {}, [&] { add(x); });
}

TEST_F(ListenerFactory, TellsListenersOfComponentsOfTheirRehearsals) {
  let_second_join();
  CUDAGraph graph;
  Buffer<int> x = zeros();
  GraphOptions options;
  options.check_input_liveness = options.confirm_by_second_capture = true;
  capture(graph, options, [&] { add(x); });
  EXPECT_EQ(heard_, (std::vector<std::string>{"first begin", "second begin", "first ended", "second ended",
                                              "first rehearsed by first", "second rehearsed by second", "first begin",
                                              "second begin", "first ended", "second ended"}));
}

}  // namespace
}  // namespace reprise::graphs::test
