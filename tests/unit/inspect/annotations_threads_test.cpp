// SPDX-License-Identifier: Apache-2.0
#include <future>
#include <memory>
#include <optional>
#include <thread>

#include "tests/unit/inspect/annotations_fixture.h"

// Scopes and several threads in one capture.

namespace reprise::graphs::test {
namespace {

TEST_F(Annotations, AreOnWorkOfThreadsThatAreInNoScopeThemselves) {
  const Stream side;
  capture(graph_, annotated(), [&] {
    const StreamRef here = current_stream();
    const annotate scope("backward");
    side.wait(here);
    std::async(std::launch::async,
               [&] {  // as an engine for gradients does it
                 const StreamGuard there(side);
                 add(y_);
               })
        .get();
    here.wait(side);
    add(x_);
  });
  EXPECT_EQ(texts(graph_), (Texts{"backward", "backward"}));
}

TEST_F(Annotations, AScopeThatIsLeftOnAnotherThreadEndsThere) {
  capture(graph_, annotated(), [&] {
    const annotate outer("outer");
    auto scope = std::make_unique<annotate>("inner");
    add(x_);
    std::thread([&] { scope.reset(); }).join();
    add(x_);
  });
  EXPECT_EQ(texts(graph_), (Texts{"inner", "outer"}));
}

// Two threads take turns, each with a scope of its own that is open all the time.
TEST_F(Annotations, OfSeveralThreadsAreToldApartByTheirStreams) {
  const Stream side;
  capture(graph_, annotated(), [&] {
    const StreamRef here = current_stream();
    side.wait(here);
    std::promise<void> entered, made, go_on;
    std::optional<annotate> mine(std::in_place, "mine");
    add(x_);
    auto other = std::async(std::launch::async, [&] {
      const StreamGuard there(side);
      const annotate scope("other");
      entered.set_value();
      add(y_);
      made.set_value();
      go_on.get_future().wait();
      add(y_);
      const annotate inner({{"key", "inner"}});
      add(y_);
    });
    entered.get_future().wait();
    made.get_future().wait();
    add(x_);
    mine.reset();  // the other one's first node is there, too
    add(x_);       // while only that one is in a scope
    go_on.set_value();
    other.get();
    here.wait(side);
    add(x_);
  });
  EXPECT_EQ(texts(graph_), (Texts{"mine", "other", "mine", "other", "other", "other, key=inner", ""}));
}

TEST_F(Annotations, OfAThreadThatWaitsForAnotherOnesWorkDoNotTakeThatOver) {
  const Stream side;
  capture(graph_, annotated(), [&] {
    const StreamRef here = current_stream();
    add(x_);
    side.wait(here);
    std::promise<void> entered, go_on;
    auto other = std::async(std::launch::async, [&] {
      const StreamGuard there(side);
      const annotate scope("other");
      add(y_);
      entered.set_value();
      go_on.get_future().wait();
      side.wait(here);  // after which the first thread's node leads to this stream
      add(y_);
    });
    entered.get_future().wait();
    std::optional<annotate> mine(std::in_place, "mine");
    add(x_);
    go_on.set_value();
    other.get();
    add(x_);
    mine.reset();
    here.wait(side);
    add(x_);
  });
  EXPECT_EQ(texts(graph_), (Texts{"", "other", "mine", "other", "mine", ""}));
}

}  // namespace
}  // namespace reprise::graphs::test
