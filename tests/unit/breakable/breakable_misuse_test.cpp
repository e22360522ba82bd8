// SPDX-License-Identifier: Apache-2.0
#include <array>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "tests/unit/breakable/breakable_fixture.h"

// What captures with eager parts refuse.

namespace reprise::breakables::test {
namespace {

TEST(BreakableMisuse, EveryCallOfAnObjectThatWasMovedFromIsRefused) {
  BreakableGraph graph;
  const BreakableGraph moved(std::move(graph));
  const char* const text = "was moved from";
  expect_refused({{[&] { graph.replay(); }, text},
                  {[&] { graph.replay(current_stream()); }, text},
                  {[&] { graph.reset(); }, text},
                  {[&] { static_cast<void>(graph.segment_count()); }, text},
                  {[&] { static_cast<void>(graph.segment(0)); }, text},
                  {[&] { static_cast<void>(graph.pool()); }, text},
                  {[&] { static_cast<void>(graph.device()); }, text},
                  {[&] { static_cast<void>(graph.name()); }, text},
                  {[&] { static_cast<void>(graph.capture_report()); }, text},
                  {[&] { breakable(graph, {}, [] {}); }, text}});
}

TEST(BreakableMisuse, CallsThatNeedACaptureAreRefusedWithoutOne) {
  BreakableGraph graph;
  const char* const text = "found an empty one";
  expect_refused({{[&] { graph.replay(); }, text},
                  {[&] { graph.replay(current_stream()); }, text},
                  {[&] { static_cast<void>(graph.segment_count()); }, text},
                  {[&] { static_cast<void>(graph.segment(0)); }, text},
                  {[&] { static_cast<void>(graph.pool()); }, text},
                  {[&] { static_cast<void>(graph.device()); }, text}});
  graph.reset();
  EXPECT_EQ(graph.name(), "");
  EXPECT_FALSE(graph.capture_report().has_value());
}

TEST(BreakableMisuse, WithinItsCaptureAndItsEagerPartsAnObjectIsInUse) {
  Buffer<int> x = zeros();
  BreakableGraph graph;
  const auto expect_in_use = [&] {
    const char* const text = "which is running";
    expect_refused({{[&] { graph.replay(); }, text},
                    {[&] { graph.replay(default_device().default_stream()); }, text},
                    {[&] { graph.reset(); }, text},
                    {[&] { breakable(graph, {}, [] {}); }, text}});
  };
  breakable(graph, {}, [&] {
    add(x);
    expect_in_use();
    EXPECT_THROW(static_cast<void>(graph.segment_count()), UsageError);
    eager([&] { expect_in_use(); });
    add(x);
  });
  graph.replay();
  EXPECT_EQ(first(x), 4);
}

TEST(BreakableMisuse, EmptyFunctionsAreRefused) {
  const std::function<void()> none;
  const std::function<Buffer<int>()> returns_nothing;
  BreakableGraph graph;
  expect_refused({{[&] { breakable(graph, {}, none); }, "was passed an empty function"},
                  {[&] { static_cast<void>(breakable(none)); }, "was passed an empty function"},
                  {[&] { eager(none); }, "found an empty one"},
                  {[&] { static_cast<void>(eager(returns_nothing)); }, "found an empty one"}});
}

TEST(BreakableMisuse, ACaptureIntoAnObjectThatHasOneIsRefused) {
  Buffer<int> x = zeros();
  BreakableGraph graph = breakable([&] { add(x); });
  EXPECT_TRUE(contains(text_of<UsageError>([&] { breakable(graph, {}, [&] { add(x); }); }), "reset() it first"));
  graph.replay();
  EXPECT_EQ(first(x), 2);
}

TEST(BreakableMisuse, ANumberOfASegmentThatIsNotThereIsRefused) {
  Buffer<int> x = zeros();
  const BreakableGraph graph = breakable([&] { add(x); });
  EXPECT_TRUE(contains(text_of<UsageError>([&] { static_cast<void>(graph.segment(1)); }), "a number below 1"));
}

TEST(BreakableMisuse, InsideOfOtherCapturesAllOfItIsRefused) {
  Buffer<int> x = zeros();
  BreakableGraph graph = breakable([&] {
    add(x);
    eager([] {});
  });
  CUDAGraph other = capture([&] {
    expect_refused({{[] { eager([] {}); }, "Capture the body with breakable()"},
                    {[] { static_cast<void>(breakable([] {})); }, "takes part in a capture already"},
                    {[&] { graph.replay(); }, "eager parts cannot run in a capture"}});
    add(x);
  });
  other.replay();
  EXPECT_EQ(first(x), 2);
}

TEST(BreakableMisuse, OnOtherStreamsThanThatOfTheCaptureEagerPartsAreRefused) {
  Buffer<int> x = zeros();
  const Stream side;
  Buffer<std::uint32_t> condition(std::vector<std::uint32_t>{1});
  current_stream().synchronize();
  const char* const text = "found another stream";
  BreakableGraph graph = breakable([&](StreamRef captured) {
    add(x);
    {
      const StreamGuard guard(side);
      side.wait(captured);
      expect_refused({{[] { eager([] {}); }, text}});
    }
    const Stream inner;
    CUDAGraph other = capture(inner, [&] {
      expect_refused({{[] { eager([] {}); }, text}});
      add(x);
    });
    eager([] {});
    add(x);
  });
  EXPECT_EQ(first(x), 2);
  graph.replay();
  EXPECT_EQ(first(x), 4);
}

TEST(BreakableMisuse, OnOtherThreadsThanThatOfTheBodyEagerPartsAreRefused) {
  Buffer<int> x = zeros();
  BreakableGraph graph = breakable([&](StreamRef captured) {
    add(x);
    std::thread([&] {
      const StreamGuard guard(captured);
      expect_refused({{[] { eager([] {}); }, "on the thread that runs it"}});
    }).join();
    eager([] {});
    add(x);
  });
  EXPECT_EQ(first(x), 2);
}

TEST(BreakableMisuse, WithinHooksOfItsSegmentsAnObjectIsInUse) {
  Buffer<int> x = zeros();
  BreakableGraph graph;
  int hooks = 0, called = 0;
  GraphHooks within;
  within.before_replay = [&](const StreamRef&) {
    ++hooks;
    expect_refused({{[&] { graph.replay(); }, "which is running"},
                    {[&] { graph.reset(); }, "which is running"},
                    {[&] { breakable(graph, {}, [] {}); }, "which is running"}});
    eager([&called] { ++called; });  // outside of captures
  };
  breakable(graph, {.hooks = within}, [&] {
    add(x);
    eager([] {});
    add(x);
  });
  graph.replay();
  EXPECT_EQ(hooks, 4);
  EXPECT_EQ(called, 4);
  EXPECT_EQ(first(x), 4);
}

TEST(BreakableMisuse, WithinHooksOfTheEndOfACaptureEagerPartsAreRefused) {
  Buffer<int> x = zeros();
  BreakableGraph graph;
  GraphHooks within;
  within.captured = [&](GraphHandle) { eager([] {}); };
  EXPECT_TRUE(contains(text_of<UsageError>([&] { breakable(graph, {.hooks = within}, [&] { add(x); }); }),
                       "within a hook of the same graph"));
  EXPECT_EQ(first(x), 0);
  breakable(graph, {}, [&] { add(x); });
  EXPECT_EQ(first(x), 1);
}

TEST(BreakableMisuse, WithinControlFlowEagerPartsAreRefused) {
  Buffer<int> x = zeros();
  Buffer<std::uint32_t> condition(1);
  condition.write(std::vector<std::uint32_t>{1});
  try {
    BreakableGraph graph = breakable([&] {
      if_(condition.data(), [&] {
        add(x);
        expect_refused({{[] { eager([] {}); }, "not in bodies of control flow"}});
      });
    });
    EXPECT_EQ(first(x), 1);
  } catch (const UsageError& error) {
    EXPECT_TRUE(contains(error.what(), "needs a kernel of this library")) << error.what();
  }
}

TEST(BreakableMisuse, OptionsThatRunTheBodyMoreThanOnceAreRefused) {
  Buffer<int> x = zeros();
  expect_refused(
      {{[&] { static_cast<void>(breakable({.check_frozen_values = [] {}}, [&] { add(x); })); },
        "needs a body that can run more than once"},
       {[&] { static_cast<void>(breakable({.warmup = -1}, [&] { add(x); })); }, "a number of runs"},
       {[&] { static_cast<void>(breakable({.stream = default_device().default_stream()}, [&] { add(x); })); },
        "the legacy default stream"}});
  EXPECT_EQ(first(x), 0);
}

TEST(BreakableMisuse, StreamsOfAnotherDeviceAreRefused) {
  const std::optional<Device> other = graphs::test::second_device();
  if (!other) GTEST_SKIP() << "there is no second device like " << default_device().str();
  Buffer<int> x = zeros();
  BreakableGraph graph = breakable([&] { add(x); });
  EXPECT_TRUE(contains(text_of<UsageError>([&] { graph.replay(other->default_stream()); }), "a stream of device"));
  const DeviceGuard there(*other);
  graph.replay();
  EXPECT_EQ(first(x), 2);
}

TEST(BreakableMisuse, FunctionsThatReferToLocalVariablesOfTheBodyAreRefused) {
  Buffer<int> x = zeros();
  int outer = 0;
  BreakableGraph graph;
  const std::string text = text_of<UsageError>([&] {
    breakable(graph, {}, [&] {
      add(x);
      int local = 0;
      eager([&] { ++local; });
    });
  });
  EXPECT_TRUE(contains(text, "of the body's stack in it, at offset 0")) << text;
  EXPECT_EQ(first(x), 0) << "nothing ran";
  breakable(graph, {}, [&] {
    add(x);
    eager([&] { ++outer; });
    std::string by_value = "short";
    eager([by_value, &outer] { outer += by_value == "short" ? 10 : 0; });
  });
  graph.replay();
  EXPECT_EQ(outer, 22);
}

TEST(BreakableMisuse, FunctionsMayReferToLocalVariablesOfTheBodyIfThatIsAllowed) {
  Buffer<int> x = zeros();
  GraphOptions options;
  options.inputs.allow_stack = true;
  int found = 0;
  BreakableGraph graph = breakable(options, [&] {
    add(x);
    int local = 7;
    eager([&, first_run = true]() mutable {
      if (std::exchange(first_run, false)) found = local;
    });
  });
  EXPECT_EQ(found, 7);
}

TEST(BreakableMisuse, FunctionsThatHoldTheStreamOfTheCaptureAreRefused) {
  Buffer<int> x = zeros();
  const std::string text = text_of<UsageError>([&] {
    static_cast<void>(breakable([&](StreamRef stream) {
      add(x);
      eager([stream] { stream.synchronize(); });
    }));
  });
  EXPECT_TRUE(contains(text, "Take the stream as the parameter")) << text;
}

TEST(BreakableMisuse, CopiesToLocalVariablesOfTheBodyAreRefused) {
  Buffer<int> x = zeros();
  EXPECT_TRUE(contains(text_of<UsageError>([&] {
                         static_cast<void>(breakable([&] {
                           int local = 0;
                           copy_async(&local, x.data(), sizeof(local));
                           eager([] {});
                         }));
                       }),
                       "host memory that no longer exists"));
}

TEST(BreakableMisuse, AnObjectMayEndWithinAnEagerPartOfItsReplay) {
  Buffer<int> x = zeros();
  std::optional<BreakableGraph> graph;
  bool ends = false;
  graph.emplace(breakable([&] {
    add(x);
    eager([&] {
      if (ends) graph.reset();
    });
    add(x);
  }));
  ends = true;
  graph->replay();
  EXPECT_EQ(first(x), 4);
}

#if defined(__has_builtin)
#if __has_builtin(__builtin_clear_padding)
/// A function with seven bytes between its members.
struct PaddedFunction {
  char small;
  std::uint64_t large;
  void operator()() const {}
};

TEST(MisusedEagerParts, PaddingOfAFunctionIsNoReferenceToTheBody) {
  Buffer<int> x = graphs::test::zeros();
  BreakableGraph graph = breakable([&] {
    int local = 0;
    const void* const address = &local;
    alignas(PaddedFunction) std::array<std::byte, sizeof(PaddedFunction)> memory{};
    std::memcpy(memory.data(), &address, sizeof(address));
    auto* const function = reinterpret_cast<PaddedFunction*>(memory.data());
    function->small = 1;
    function->large = 2;
    graphs::test::add(x);
    eager(*function);
  });
  graph.replay();
  EXPECT_EQ(graphs::test::first(x), 2);
}
#endif
#endif

}  // namespace
}  // namespace reprise::breakables::test
