// SPDX-License-Identifier: Apache-2.0
#include <gmock/gmock.h>

#include <algorithm>
#include <array>
#include <cstdlib>
#include <functional>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "tests/support/faulty_backend.h"
#include "tests/support/warnings.h"
#include "tests/unit/graph/control_flow/control_flow_fixture.h"

// Control flow that is refused, and what is left after failures.

namespace reprise::graphs::test {
namespace {

TEST_F(RefusedControlFlow, OutsideOfACapture) {
  const auto refused = [&](const std::function<void()>& call, const std::string& name) {
    EXPECT_TRUE(contains(text_of<UsageError>(call), name + ": the stream takes part in no capture"));
  };
  refused([&] { if_(flag_.data(), [] {}); }, "if_");
  refused(
      [&] {
        if_else(
            flag_.data(), [] {}, [] {});
      },
      "if_else");
  refused([&] { switch_(flag_.data(), {[] {}}); }, "switch_");
  refused([&] { (void)while_(flag_.data(), [] {}); }, "while_");
}

TEST_F(RefusedControlFlow, WithoutAConditionOrABody) {
  (void)capture([&] {
    add(x_);
    EXPECT_TRUE(contains(text_of<UsageError>([&] { if_(nullptr, [] {}); }), "if_ expected the address"));
    const auto* const unaligned = reinterpret_cast<const Flag*>(reinterpret_cast<const char*>(flag_.data()) + 2);
    EXPECT_TRUE(contains(text_of<UsageError>([&] { (void)while_(unaligned, [] {}); }), "a multiple of 4"));
    EXPECT_TRUE(contains(text_of<UsageError>([&] { if_(flag_.data(), nullptr); }), "number 0 is an empty function"));
    EXPECT_TRUE(contains(text_of<UsageError>([&] {
                           if_else(
                               flag_.data(), [] {}, nullptr);
                         }),
                         "number 1"));
    EXPECT_TRUE(contains(text_of<UsageError>([&] { switch_(flag_.data(), {}); }), "at least one body"));
    const std::function<void(StreamRef, Loop)> empty;
    void (*const none)(const Loop&) = nullptr;
    const std::function<void()> plain;
    for (const LoopBody& body : {LoopBody(empty), LoopBody(none), LoopBody(plain), LoopBody(nullptr)})
      EXPECT_TRUE(contains(text_of<UsageError>([&] { while_(flag_.data(), body); }), "number 0 is an empty function"));
  });  // which goes on each time
}

TEST_F(RefusedControlFlow, OnABrokenCapture) {
  const std::string what = error_of<Error>([&] {
    EXPECT_THROW(current_stream().synchronize(), BackendError);
    if_(flag_.data(), [] {});
  });
  EXPECT_TRUE(contains(what, "broken by an earlier call"));
}

TEST_F(RefusedControlFlow, WithFunctionsOfTheHost) {
  EXPECT_TRUE(contains(error_of_body([](const StreamRef& s) { launch_host(s, [] {}); }), "launch_host"));
  const std::string what = error_of_body([](const StreamRef& s) {
    call_on_host(
        s, [](void*) {}, nullptr);
  });
  EXPECT_TRUE(contains(what, "if_: host (node 1 of the body) calls a function of the host"));
}

TEST_F(RefusedControlFlow, WithMemoryInTheOrderOfAStream) {
  EXPECT_TRUE(contains(error_of_body([](const StreamRef& s) { (void)allocate_async(64, s); }), "allocate_async"));
  const std::string what = error_of_body([](const StreamRef& s) {
    void* memory = nullptr;
    backend::Checked(s.device().backend()).memory_allocate_async(&memory, 64, s.native());
  });
  EXPECT_TRUE(contains(what, "allocates or frees memory in the order of a stream"));
}

TEST_F(RefusedControlFlow, WithExternalEvents) {
  const Event event;
  const std::string what = error_of_body([&](const StreamRef& s) { event.record(s, EventUse::external); });
  EXPECT_TRUE(contains(what, "external event"));
}

TEST_F(RefusedControlFlow, WithCopiesOfPageableMemory) {
  static int value = 3;
  const std::string what = error_of_body([&](const StreamRef& s) { copy_async(x_.data(), &value, sizeof value, s); });
  EXPECT_TRUE(contains(what, "pageable memory"));
}

TEST_F(RefusedControlFlow, InTheNodesOfAChildToo) {
  const Stream stream;
  const CUDAGraph child = capture(stream, [&] {
    call_on_host(
        stream, [](void*) {}, nullptr);
  });
  const std::string what = error_of_body([&](const StreamRef& s) { add_child(child, s); });
  EXPECT_TRUE(contains(what, "host (node 1.0 of the body)"));
}

TEST_F(RefusedControlFlow, WithACopyOfAChildThatWouldComeBeforeItsLastOne) {
  const CUDAGraph child = capture({.name = "step"}, [&] { add(x_); });
  const Stream side;
  CUDAGraph graph = capture([&] {
    if_(flag_.data(), [&](const StreamRef& inside) { add_child(child, inside); });
    side.wait(current_stream());
    if_(flag_.data(), [&](const StreamRef& inside) {
      add_child(child, inside);
      add_child(child, side);  // after the whole node
      const std::string what = text_of<UsageError>([&] { add_child(child, inside); });
      EXPECT_TRUE(contains(
          what, "add_child of graph `step`: expected each copy of a graph after the one that was added before"));
      EXPECT_TRUE(contains(what, "Add the last copy in the body too, or this one after the body.")) << what;
    });
    current_stream().wait(side);
    add_child(child);
  });
  set(1);
  graph.replay();
  EXPECT_EQ(first(x_), 4) << "one in each body, one beside the second, one at the end";
}

// A graph with two children: the one would be ordered by another edge, and the other one is refused. The children are
// looked at in no certain order.
TEST_F(RefusedControlFlow, WithAGraphOfSeveralChildrenAddsNoEdge) {
  const CUDAGraph one = capture([&] { add(x_); }), other = capture([&] { add(y_); });
  const CUDAGraph both = capture([&] { add_child(one), add_child(other); });
  for (const auto& [ordered, refused] : {std::pair(&one, &other), std::pair(&other, &one)}) {
    const Stream apart, side;
    CUDAGraph graph = capture([&, beside = ordered, within = refused] {
      const StreamRef around = current_stream();
      apart.wait(around);
      side.wait(around);
      add_child(*beside, apart);
      if_(flag_.data(), [&](const StreamRef& inside) {
        add_child(*within, inside);
        add_child(*within, side);  // after the whole node
        EXPECT_TRUE(
            contains(text_of<UsageError>([&] { add_child(both, inside); }), "each copy of a graph after the one"));
      });
      around.wait(apart);
      around.wait(side);
    });
    const std::vector<GraphNode> nodes = graph.nodes();
    const auto conditional = std::ranges::find(nodes, NodeType::conditional, &GraphNode::type);
    ASSERT_NE(conditional, nodes.end());
    EXPECT_EQ(conditional->dependencies().size(), 1U) << "the kernel that sets the condition alone";
    graph.replay();
  }
  EXPECT_EQ(first(x_) + first(y_), 4) << "one beside the body that does not run, one after it, twice";
}

TEST_F(RefusedControlFlow, ForWaitsBetweenABodyAndStreamsAroundItAndTheCaptureGoesOn) {
  const Stream side;
  CUDAGraph graph = capture([&] {
    const StreamRef around = current_stream();
    side.wait(around);
    if_(flag_.data(), [&](const StreamRef& inside) {
      for (const StreamRef& other : {around, side.ref()}) {
        EXPECT_TRUE(contains(text_of<UsageError>([&] { inside.wait(other); }), "expected streams of one capture"));
        EXPECT_TRUE(contains(text_of<UsageError>([&] { other.wait(inside); }), "The captures continue."));
      }
      const Stream forked;
      forked.wait(inside);
      add(x_, 1, forked);
      inside.wait(forked);
    });
    around.wait(side);
  });
  set(1);
  graph.replay();
  EXPECT_EQ(first(x_), 1);
}

TEST_F(RefusedControlFlow, ForEventsOfStreamsAroundABodyAndOfItAndTheCaptureGoesOn) {
  const Event before, within, again;
  again.record();
  const std::string two = "expected streams of one capture; found two";
  CUDAGraph graph = capture([&] {
    const StreamRef around = current_stream();
    before.record(around);
    again.record(around);
    if_(flag_.data(), [&](const StreamRef& inside) {
      within.record(inside);
      EXPECT_TRUE(contains(text_of<UsageError>([&] { inside.wait(before); }), "StreamRef::wait: " + two));
      EXPECT_TRUE(contains(text_of<UsageError>([&] { before.wait(inside); }), "Event::wait: " + two));
      EXPECT_TRUE(contains(text_of<UsageError>([&] { within.wait(around); }), "Event::wait: " + two));
      EXPECT_TRUE(contains(text_of<UsageError>([&] { again.wait(inside); }), "Event::wait: " + two));
      again.record(inside);
      const Stream forked;
      forked.wait(within);
      again.wait(forked);
      add(x_, 1, forked);
      again.record(forked);
      again.wait(inside);
    });
    before.wait(around);
  });
  set(1);
  graph.replay();
  EXPECT_EQ(first(x_), 1);
  before.record();
  before.wait();
  before.synchronize();
}

TEST_F(RefusedControlFlow, WithALoopWhoseBodyCapturesNothing) {
  const Stream elsewhere;
  const std::function<void()> bodies[] = {[] {}, [&] { add(x_, 1, elsewhere); }};
  for (const auto& body : bodies) {
    const std::string what = error_of<UsageError>([&] { (void)while_(flag_.data(), body, {.max_iterations = 2}); });
    EXPECT_TRUE(contains(what, "while_: nothing was captured in its body: it submitted no work, or only to a stream"))
        << what;
  }
  elsewhere.synchronize();
}

TEST_F(RefusedControlFlow, ForTheStreamAroundABodyInThatBodyAndTheCaptureGoesOn) {
  struct Kind {
    std::string name;
    std::function<void(const StreamRef&, const CaptureBody&)> add;
  };
  const std::vector<Kind> kinds{
      {"if_", [&](const StreamRef& s, const CaptureBody& body) { if_(s, flag_.data(), body); }},
      {"if_else", [&](const StreamRef& s, const CaptureBody& body) { if_else(s, flag_.data(), body, body); }},
      {"switch_",
       [&](const StreamRef& s, const CaptureBody& body) {
         switch_(s, flag_.data(), {body, body});
       }},
      {"while_", [&](const StreamRef& s, const CaptureBody& body) { (void)while_(s, flag_.data(), body); }}};
  const auto once = [&] {
    add(x_);
    count_down();
  };
  int expected = 0;
  for (const Kind& outer : kinds)
    for (const Kind& inner : kinds) {
      SCOPED_TRACE(inner.name + " in " + outer.name);
      CUDAGraph graph = capture([&](const StreamRef& around) {
        outer.add(around, [&](const StreamRef& inside) {
          const std::string what = text_of<UsageError>([&] { inner.add(around, once); });
          EXPECT_TRUE(contains(what, inner.name + " was called for the enclosing stream of the body")) << what;
          inner.add(inside, once);
        });
        inner.add(around, once);  // after the body it is possible
      });
      set(1);
      graph.replay();
      // What the outer body leaves of the flag, 0, is what the last node finds.
      const bool zero_runs = inner.name == "if_else" || inner.name == "switch_";
      expected += zero_runs ? 2 : 1;
      EXPECT_EQ(first(x_), expected);
    }
}

TEST_F(RefusedControlFlow, OfABodyThatDoesNotBeginLeavesThoseAround) {
  auto& faulty = *new backend::test::FaultyBackend(default_device().backend());
  const Device device{faulty};
  const DeviceGuard guard(device);
  Buffer<Flag> flag{std::array<Flag, 1>{1}};
  Buffer<int> x = zeros();
  const std::string what = text_of<BackendError>([&] {
    (void)capture([&] {
      if_(flag.data(), [&] {
        add(x);
        faulty.fail(backend::Call::stream_begin_capture_to_graph, ErrorCode::launch_failure);
        if_(flag.data(), [&] { add(x); });
      });
    });
  });
  EXPECT_TRUE(contains(what, "cudaStreamBeginCaptureToGraph") || contains(what, "cuStreamBeginCaptureToGraph")) << what;
  EXPECT_TRUE(faulty.all_happened());
  CUDAGraph graph = capture([&] { if_(flag.data(), [&] { add(x); }); });
  graph.replay();
  EXPECT_EQ(first(x), 1);
}

TEST_F(RefusedControlFlow, WithAConditionThatTheDeviceCannotReadAndTheCaptureGoesOn) {
  static const Flag pageable = 1;
  HostBuffer<Flag> pinned(1);
  CUDAGraph graph = capture([&] {
    add(x_);
    const auto refused = [&](const std::function<void()>& call) {
      const std::string what = text_of<UsageError>(call);
      EXPECT_TRUE(contains(what, "expected a condition that kernels of device")) << what;
      EXPECT_TRUE(contains(what, "pageable memory")) << what;
    };
    refused([&] { if_(&pageable, [&] { add(y_); }); });
    refused([&] { (void)while_(&pageable, [&] { add(y_); }); });
    refused([&] { switch_(&pageable, {[&] { add(y_); }}); });
    if_(pinned.data(), [&] { add(y_); });
  });
  *pinned.data() = 1;
  graph.replay();
  EXPECT_EQ(first(x_), 1);
  EXPECT_EQ(first(y_), 1);
}

TEST_F(RefusedControlFlow, WithAConditionInMemoryOfAnotherDevice) {
  std::vector<Device> same_type = devices();
  std::erase_if(same_type, [](const Device& each) { return each.type() != default_device().type(); });
  if (same_type.size() < 2) GTEST_SKIP() << "needs two devices (REPRISE_HOST_DEVICES=2 gives two host devices)";
  const Buffer<Flag> elsewhere = [&] {
    const DeviceGuard guard(same_type[1]);
    return Buffer<Flag>(1);
  }();
  set(1);
  CUDAGraph graph = capture([&] {
    const std::string what = text_of<UsageError>([&] { if_(elsewhere.data(), [&] { add(x_); }); });
    EXPECT_TRUE(contains(what, "in memory of the device with the number 1")) << what;
    if_(flag_.data(), [&] { add(x_); });
  });
  graph.replay();
  EXPECT_EQ(first(x_), 1);
}

TEST_F(RefusedControlFlow, WithABodyThatCapturesNothing) {
  const Stream elsewhere;
  const std::function<void()> bodies[] = {[] {}, [&] { add(x_, 1, elsewhere); }};
  for (const auto& body : bodies) {
    const std::string what = error_of<UsageError>([&] { if_(flag_.data(), body); });
    EXPECT_TRUE(contains(what, "if_: nothing was captured in its body: it submitted no work, or only to a stream"))
        << what;
  }
  elsewhere.synchronize();
  CUDAGraph graph = capture({.allow_empty = true}, [&] {
    if_else(
        flag_.data(), [&] { add(y_); }, [] {});
  });
  set(0);
  const int before = first(y_);
  graph.replay();
  EXPECT_EQ(first(y_), before);
}

TEST_F(RefusedControlFlow, WithAnExceptionOfABodyWhichPropagates) {
  const std::string what = error_of<std::runtime_error>([&] {
    if_(flag_.data(), [&] {
      if_else(
          flag_.data(), [&] { add(x_); }, [&] { throw std::runtime_error("of the body"); });
    });
  });
  EXPECT_EQ(what, "of the body");
}

TEST_F(RefusedControlFlow, AndTheWholeCaptureFailsIfTheErrorIsSwallowed) {
  const std::string what = error_of<UsageError>([&] {
    add(x_);
    EXPECT_THROW(if_(flag_.data(), [] { throw std::runtime_error(""); }), std::runtime_error);
  });
  EXPECT_TRUE(contains(what, "A node was added to the capture in part"));
}

TEST_F(RefusedControlFlow, WithAStreamThatIsNotJoined) {
  const Stream side;
  const std::string what = error_of<CaptureError>([&] {
    if_(flag_.data(), [&] {
      add(x_);
      side.wait(current_stream());
      add(y_, 1, side);
    });
  });
  EXPECT_TRUE(contains(what, "if_: the capture of its body failed with"));
  EXPECT_TRUE(contains(what, "904"));
  EXPECT_EQ(side.capture_status(), CaptureStatus::none);
}

TEST_F(RefusedControlFlow, WithACallThatBreaksTheCaptureOfTheBody) {
  const auto body = [&] {
    add(x_);
    try {
      current_stream().synchronize();
    } catch (const BackendError&) {
    }
  };
  const auto expect_report = [&](const std::string& call, const std::function<void()>& flow) {
    CUDAGraph graph;
    try {
      capture(graph, flow);
      ADD_FAILURE() << "the capture was broken";
    } catch (const CaptureError& error) {
      EXPECT_TRUE(contains(error.what(), call + ": the capture of its body failed with"));
      EXPECT_TRUE(contains(error.what(), "cuStreamSynchronize"));
      EXPECT_EQ(error.code(), ErrorCode::stream_capture_invalidated);
    }
    ASSERT_TRUE(graph.capture_report().has_value());
    EXPECT_TRUE(graph.capture_report()->broken_by.has_value());
  };
  expect_report("if_", [&] { if_(flag_.data(), body); });
  expect_report("while_", [&] { while_(flag_.data(), body); });
}

TEST_F(RefusedControlFlow, AndTheReportNamesTheCallWhoseErrorLeavesTheBody) {
  CUDAGraph graph;
  const auto body = [&] {
    add(x_);
    current_stream().synchronize();
  };
  EXPECT_THROW(capture(graph, [&] { if_(flag_.data(), body); }), BackendError);
  ASSERT_TRUE(graph.capture_report().has_value());
  ASSERT_TRUE(graph.capture_report()->broken_by.has_value()) << graph.capture_report()->str();
  EXPECT_EQ(graph.capture_report()->broken_by->name, "cuStreamSynchronize");
}

TEST_F(RefusedControlFlow, WithABodyThatIsBrokenWhileAForkOfTheCaptureIsNotJoined) {
  const reprise::test::Warnings warnings;
  const Stream side;
  const std::string what = error_of<CaptureError>([&] {
    side.wait(current_stream());
    add(y_, 1, side);
    if_(flag_.data(), [&] { EXPECT_THROW((void)current_stream().query(), BackendError); });
  });
  EXPECT_TRUE(contains(what, "cuStreamQuery")) << what;
  EXPECT_EQ(side.capture_status(), CaptureStatus::none);
  EXPECT_THAT(warnings.texts(), ::testing::IsEmpty()) << "the fork is joined before the capture ends";
}

TEST_F(RefusedControlFlow, WithABodyThatIsBrokenBeforeAnotherOne) {
  const std::string what = error_of<UsageError>([&] {
    EXPECT_THROW(if_(flag_.data(), [&] { EXPECT_THROW((void)current_stream().query(), BackendError); }), CaptureError);
    if_(flag_.data(), [&] { add(x_); });
  });
  EXPECT_TRUE(contains(what, "A node was added to the capture in part"));
}

TEST_F(RefusedControlFlow, WithABodyThatIsBrokenInABody) {
  const Stream side;
  const auto inner = [&] {
    side.wait(current_stream());
    add(y_, 1, side);
    current_stream().wait(side);
    EXPECT_THROW(side.synchronize(), BackendError);
  };
  const std::string what = error_of<CaptureError>([&] {
    while_(flag_.data(), [&] {
      add(x_);
      if_(flag_.data(), inner);
    });
  });
  EXPECT_TRUE(contains(what, "if_: the capture of its body failed with"));
  EXPECT_EQ(side.capture_status(), CaptureStatus::none);
}

// In a process of its own: a stream goes on capturing.
TEST_F(RefusedControlFlow, WithABodyThatIsBrokenTogetherWithTheCaptureAroundIt) {
  GTEST_FLAG_SET(death_test_style, "threadsafe");
  const auto captures_again = [this] {
    CUDAGraph graph;
    const std::string what = text_of<CaptureError>([&] {
      capture(graph, [&] {
        if_(flag_.data(), [&] {
          add(x_);
          EXPECT_THROW(default_device().synchronize(), BackendError);
        });
      });
    });
    EXPECT_TRUE(contains(what, "cuCtxSynchronize"));
    capture(graph, [&] { if_(flag_.data(), [&] { add(x_); }); });
    set(1);
    graph.replay();
    EXPECT_EQ(first(x_), 1);
    std::_Exit(HasFailure() ? 1 : 0);
  };
  EXPECT_EXIT(captures_again(), ::testing::ExitedWithCode(0),
              "A capture was broken, and so was the body of a conditional node");
}

TEST_F(RefusedControlFlow, ToEndTheCaptureOrResetTheGraphInABody) {
  const Stream stream;
  const StreamGuard guard(stream);
  CUDAGraph graph;
  graph.capture_begin();
  if_(flag_.data(), [&] {
    add(x_);
    EXPECT_TRUE(contains(text_of<UsageError>([&] { graph.capture_end(); }), "found another one"));
    EXPECT_TRUE(contains(text_of<UsageError>([&] { graph.reset(); }), "capturing"));
  });
  graph.capture_end();
  set(1);
  graph.replay();
  EXPECT_EQ(first(x_), 1);
}

TEST_F(RefusedControlFlow, ToAbandonTheCaptureOrDestroyTheGraphInABody) {
  auto graph = std::make_unique<CUDAGraph>();
  const auto refused = [&](const std::function<void()>& end) {
    const Stream stream;
    const StreamGuard guard(stream);
    graph->capture_begin();
    const std::string what = text_of<UsageError>([&] {
      while_(flag_.data(), [&] {
        add(x_);
        end();
      });
    });
    EXPECT_TRUE(contains(what, "the capture ended while its body was being captured"));
    EXPECT_EQ(stream.capture_status(), CaptureStatus::none);
  };
  refused([&] { graph->capture_abandon(); });
  refused([&] { graph.reset(); });
  (void)counting();
}

TEST_F(RefusedControlFlow, ForAStreamOfAnotherDevice) {
  Loop loop;
  const CUDAGraph graph = counting(&loop);
  const HostSimulator simulator;
  const std::string what = text_of<UsageError>([&] { (void)loop.last_run(simulator.device().default_stream()); });
  EXPECT_TRUE(contains(what, "Loop::last_run: the stream is of device"));
}

TEST_F(RefusedControlFlow, QueriesOfALoop) {
  const Loop none;
  EXPECT_TRUE(contains(text_of<UsageError>([&] { (void)none.last_run(); }), "Loop::last_run"));
  EXPECT_TRUE(contains(text_of<UsageError>([&] { (void)none.last_run(current_stream()); }), "Loop::last_run"));
  EXPECT_TRUE(contains(text_of<UsageError>([&] { (void)none.iterations(); }), "Loop::iterations"));
  Loop loop;
  CUDAGraph graph = counting(&loop);
  (void)capture([&] {
    add(x_);
    EXPECT_TRUE(contains(text_of<UsageError>([&] { (void)loop.last_run(); }), "takes part in a capture"));
  });
}

}  // namespace
}  // namespace reprise::graphs::test
