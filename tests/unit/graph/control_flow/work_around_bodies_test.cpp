// SPDX-License-Identifier: Apache-2.0
#include <functional>
#include <string>
#include <thread>
#include <vector>

#include "tests/unit/graph/control_flow/control_flow_fixture.h"

// Work submitted to the enclosing stream while a body is captured.

namespace reprise::graphs::test {
namespace {

class WorkAroundABody : public RefusedControlFlow {};

TEST_F(WorkAroundABody, IsRefusedWithItsNode) {
  const std::string what = error_of<UsageError>([&] {
    const StreamRef around = current_stream();
    (void)while_(flag_.data(), [&] {
      count_down();
      add(x_, 1, around);
    });
  });
  EXPECT_TRUE(contains(what, "submitted to the enclosing stream"));
  EXPECT_TRUE(contains(what, "Add (node 2)"));
}

TEST_F(WorkAroundABody, IsNamedByItsFirstNodeAlsoOfAnotherThread) {
  struct Work {
    const char* node;
    std::function<void(const StreamRef&)> give;
  };
  Buffer<int> other = zeros();
  const Event event, recorded;
  const CUDAGraph child = capture([&] { add(y_); });
  const std::vector<Work> kinds{
      {"memset", [&](const StreamRef& around) { fill_async(other.data(), 1, sizeof(int), around); }},
      {"memcpy", [&](const StreamRef& around) { copy_async(other.data(), x_.data(), sizeof(int), around); }},
      {"memory allocate", [&](const StreamRef& around) { (void)allocate_async(64, around); }},
      {"child graph", [&](const StreamRef& around) { add_child(child, around); }},
      {"event record", [&](const StreamRef& around) { recorded.record(around, EventUse::external); }},
      {"kernel", [&](const StreamRef& around) { event.wait(around); }}};
  for (const Work& kind : kinds)
    for (const bool on_thread : {false, true}) {
      SCOPED_TRACE(std::string(kind.node) + (on_thread ? " on another thread" : ""));
      const Stream forked;
      const std::string what = error_of<UsageError>([&] {
        const StreamRef around = current_stream();
        event.record(around);
        event.wait(forked);
        add(x_, 1, forked);
        event.record(forked);
        if_(flag_.data(), [&] {
          add(x_);
          const auto give = [&] {
            kind.give(around);
            add(x_, 1, around);
            fill_async(x_.data(), 0, sizeof(int), around);  // later nodes are not named
          };
          on_thread ? std::thread(give).join() : give();
        });
      });
      EXPECT_TRUE(contains(what, "submitted to the enclosing stream")) << what;
      EXPECT_TRUE(contains(what, std::string("not part of the body: ") + kind.node)) << what;
    }
}

TEST_F(WorkAroundABody, IsRefusedInEveryBodyAlsoIfThatHasNone) {
  const auto work = [&](const StreamRef& around) { add(x_, 1, around); };
  const std::vector<std::function<void(const StreamRef&)>> kinds{
      [&](const StreamRef& around) { if_(around, flag_.data(), [&] { work(around); }); },
      [&](const StreamRef& around) {
        if_else(
            around, flag_.data(), [&] { add(x_); }, [&] { work(around); });
      },
      [&](const StreamRef& around) {
        switch_(around, flag_.data(), {[&] { add(x_); }, [&] { work(around); }});
      },
      [&](const StreamRef& around) { (void)while_(around, flag_.data(), [&] { work(around); }); },
      [&](const StreamRef& around) {
        if_(around, flag_.data(), [&](const StreamRef& inside) {
          add(x_);
          if_(inside, flag_.data(), [&] { work(inside); });
        });
      },
      [&](const StreamRef& around) {
        if_(around, flag_.data(), [&](const StreamRef& inside) {
          if_(inside, flag_.data(), [&] {
            add(x_);
            work(around);
          });
        });
      }};
  for (const auto& kind : kinds) {
    const std::string what = error_of<UsageError>([&] { kind(current_stream()); });
    EXPECT_TRUE(contains(what, "submitted to the enclosing stream")) << what;
    EXPECT_TRUE(contains(what, "Add (node ")) << what;
  }
}

TEST_F(WorkAroundABody, OfSeveralThreadsIsNamedByTheNodeOfEach) {
  const auto text_of_a_capture = [](auto give) {
    const Stream stream;
    Buffer<Flag> flag(1, stream);
    Buffer<int> x(1, stream);
    CUDAGraph graph;
    return text_of<UsageError>([&] {
      capture(graph, {.capture_error_mode = CaptureMode::thread},
              [&](const StreamRef& around) { if_(around, flag.data(), [&] { give(x, around); }); });
    });
  };
  std::vector<std::thread> threads;
  for (int i = 0; i < 4; ++i)
    threads.emplace_back([&, fills = i % 2 == 0] {
      for (int k = 0; k < 10; ++k) {
        const std::string what = text_of_a_capture([&](Buffer<int>& x, const StreamRef& around) {
          fills ? fill_async(x.data(), 0, sizeof(int), around) : add(x, 1, around);
        });
        EXPECT_TRUE(contains(what, fills ? "body: memset (" : "Add (node")) << what;
      }
    });
  for (std::thread& each : threads) each.join();
}

TEST_F(WorkAroundABody, IsNotReportedOfCapturesThatAreRight) {
  const Stream unrelated;
  CUDAGraph graph;
  capture(graph, {.report = ReportDetail::full}, [&](const StreamRef& around) {
    if_(around, flag_.data(), [&](const StreamRef& inside) {
      Event event;
      event.record(around);  // a record gives no work
      add(x_, 1, inside);
    });
    (void)while_(around, flag_.data(), [&] {
      add(x_);
      count_down();
    });
  });
  EXPECT_FALSE(graph.capture_report()) << graph.capture_report()->str();
  set(1);
  graph.replay();
  EXPECT_EQ(first(x_), 2);
}

}  // namespace
}  // namespace reprise::graphs::test
