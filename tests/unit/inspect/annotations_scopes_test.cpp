// SPDX-License-Identifier: Apache-2.0
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <type_traits>

#include "tests/support/faulty_backend.h"
#include "tests/support/warnings.h"
#include "tests/unit/inspect/annotations_fixture.h"

// Scopes: which node they name, in one capture.

namespace reprise::graphs::test {
namespace {

using backend::test::FaultyBackend;
using reprise::test::Warnings;

TEST_F(Annotations, NameTheNodesThatAreMadeInAScope) {
  capture(graph_, annotated(), [&] {
    add(x_);
    {
      const annotate scope("phase");
      add(x_);
      add(y_);
    }
    add(x_);
  });
  EXPECT_EQ(texts(graph_), (Texts{"", "phase", "phase", ""}));
  const std::vector<AnnotatedNode> nodes = graph_.annotations();
  ASSERT_EQ(nodes.size(), 2u);
  EXPECT_EQ(nodes[0].annotation, (Annotation{{"name", "phase"}}));
  EXPECT_EQ(nodes[0].index, 1u);
  EXPECT_NE(nodes[0].node, nodes[1].node);
}

static_assert(!std::is_copy_constructible_v<annotate> && !std::is_move_constructible_v<annotate>);
static_assert(!std::is_convertible_v<const char*, annotate> && !std::is_constructible_v<annotate, std::nullptr_t>);
static_assert(!std::is_constructible_v<annotate, int> && !std::is_default_constructible_v<annotate>);

TEST_F(Annotations, CanBeGivenInEachForm) {
  const std::string name = "a string", value = "of a string";
  const std::string_view view = "a view";
  const char* const pointer = "a pointer";
  const Annotation annotation{{"key", "of a map"}};
  capture(graph_, annotated(), [&] {
    {
      const annotate scope(name);
      add(x_);
    }
    {
      const annotate scope(view);
      add(x_);
    }
    {
      const annotate scope(pointer);
      add(x_);
    }
    {
      const annotate scope(annotation);
      add(x_);
    }
    {
      const annotate scope({{"key", "value"}});
      add(x_);
    }
    {
      const annotate scope({{"key", value}});
      add(x_);
    }
    {
      const annotate scope({{"b", "1"}, {"a", "2"}});
      add(x_);
    }
    {
      const annotate scope({{"step", std::to_string(3)}, {"name", value}});
      add(x_);
    }
    {
      const annotate scope({{"key", "first"}, {"key", "second"}});
      add(x_);
    }
    {
      const annotate scope(Annotation{{"key", "first"}, {"key", "second"}});
      add(x_);
    }
  });
  EXPECT_EQ(texts(graph_), (Texts{"a string", "a view", "a pointer", "key=of a map", "key=value", "key=of a string",
                                  "a=2, b=1", "of a string, step=3", "key=first", "key=first"}));
}

TEST_F(Annotations, OfNoKeysAreNone) {
  capture(graph_, annotated(), [&] {
    const annotate nothing(Annotation{});
    add(x_);
    const annotate scope("phase");
    const annotate still_nothing({});
    add(x_);
  });
  EXPECT_EQ(texts(graph_), (Texts{"", "phase"}));
}

TEST_F(Annotations, OfNestedScopesMergeAndTheInnerWinsSharedKeys) {
  capture(graph_, annotated(), [&] {
    const annotate outer({{"name", "outer"}, {"step", "1"}});
    add(x_);
    {
      const annotate inner({{"name", "inner"}, {"layer", "2"}});
      add(x_);
      {
        const annotate innermost({{"step", "3"}});
        add(x_);
      }
      add(x_);
    }
    add(x_);
  });
  EXPECT_EQ(texts(graph_), (Texts{"outer, step=1", "inner, layer=2, step=1", "inner, layer=2, step=3",
                                  "inner, layer=2, step=1", "outer, step=1"}));
}

TEST_F(Annotations, AreOnNodesOfEveryKind) {
  const Event event;
  const std::size_t kinds = 6;
  capture(graph_, annotated(), [&] {
    const annotate scope("all");
    const StreamRef here = current_stream();
    backend::Backend& backend = here.device().backend();
    add(x_);
    copy_async(y_.data(), x_.data(), sizeof(int));
    fill_async(y_.data(), 0, sizeof(int));
    call_on_host(
        here, [](void*) {}, nullptr);
    ASSERT_EQ(backend.event_record(event.native(), here.native(), backend::EventUseFlags::external),
              ErrorCode::success);
    ASSERT_EQ(backend.stream_wait_event(here.native(), event.native(), backend::EventUseFlags::external),
              ErrorCode::success);
  });
  EXPECT_EQ(texts(graph_), Texts(kinds, "all"));
}

TEST_F(Annotations, AreOnWorkOfJoinedStreams) {
  const Stream side, late;
  capture(graph_, annotated(), [&] {
    const StreamRef here = current_stream();
    add(x_);
    side.wait(here);
    late.wait(here);
    {
      const annotate scope("phase");
      add(y_, 1, side);
      add(x_);
      add(y_, 1, side);
    }
    add(x_, 1, late);  // after the scope
    here.wait(side);
    here.wait(late);
    add(x_);
  });
  EXPECT_EQ(texts(graph_), (Texts{"", "phase", "phase", "phase", "", ""}));
}

TEST_F(Annotations, AreOnNodesThatAreAddedToTheGraph) {
  capture(graph_, annotated(), [&] {
    add(x_);
    backend::Backend& backend = current_device().backend();
    backend::CaptureInfo info;
    ASSERT_EQ(backend.stream_capture_info(current_stream().native(), &info), ErrorCode::success);
    const annotate scope("by hand");
    backend::NodeParams empty = backend::EmptyNodeParams{};
    GraphNodeHandle node = nullptr;
    ASSERT_EQ(backend.graph_add_node(&node, info.graph, {}, empty), ErrorCode::success);
  });
  EXPECT_EQ(texts(graph_), (Texts{"", "by hand"}));
}

TEST_F(Annotations, OfTheStreamThatIsCurrentWhenAScopeIsEntered) {
  const Stream side, stranger;
  capture(graph_, annotated(), [&] {
    const StreamRef here = current_stream();
    {
      const StreamGuard elsewhere(stranger);  // takes no part
      const annotate scope("elsewhere");
      add(x_, 1, here);
    }
    side.wait(here);
    const StreamGuard there(side);
    const annotate scope("there");
    add(y_);
    add(x_, 1, here);
    here.wait(side);
  });
  EXPECT_EQ(texts(graph_), (Texts{"", "there", "there"}));
}

TEST_F(Annotations, OfAScopeOnAStreamThatIsGoneAreKept) {
  capture(graph_, annotated(), [&] {
    const StreamRef here = current_stream();
    std::optional<annotate> scope;
    {
      const Stream side;
      side.wait(here);
      {
        const StreamGuard there(side);
        scope.emplace("phase");
        add(y_);
      }
      here.wait(side);
    }
    add(x_);
    scope.reset();
    add(x_);
  });
  EXPECT_EQ(texts(graph_), (Texts{"phase", "phase", ""}));
}

TEST_F(Annotations, DoNothingOutsideOfACapture) {
  const annotate scope("before");
  add(x_);
  capture(graph_, annotated(), [&] { add(x_); });
  EXPECT_TRUE(graph_.annotations().empty());
  EXPECT_EQ(first(x_), 1);
}

TEST_F(Annotations, DoNothingUnlessTheCaptureWantsThem) {
  CUDAGraph other;
  GraphOptions plain = annotated();
  plain.enable_annotations = false;
  {
    const SideStream side;
    other.capture_begin(annotated());  // beside one that does
    add(y_);
    capture(graph_, plain, [&] {
      const annotate scope("phase");
      add(x_);
    });
    other.capture_end();
  }
  EXPECT_TRUE(graph_.annotations().empty());
  EXPECT_TRUE(other.annotations().empty());
}

TEST_F(Annotations, MakeNoCallOfTheRuntimeUnlessACaptureWantsThem) {
  static auto& runtime = *new FaultyBackend(default_device().backend());
  const DeviceGuard device{Device(runtime)};
  const SideStream side;
  Buffer<int> x = zeros();
  std::vector<CUDAGraph> graphs;  // kept: for one that is gone, calls query whether its replay is over
  const auto calls_of = [&](const GraphOptions& options, auto&& scope) {
    runtime.forget_calls();
    CUDAGraph& graph = graphs.emplace_back();
    graph.capture_begin(options);
    scope([&] { add(x); });
    graph.capture_end();
    graph.replay();
    return runtime.calls();
  };
  const auto in_a_scope = [](auto&& body) {
    const annotate outer("outer");
    const annotate inner({{"key", "value"}});
    body();
  };
  const auto plainly = [](auto&& body) { body(); };
  calls_of({}, plainly);  // the first time takes more
  const int expected = calls_of({}, plainly);
  EXPECT_EQ(calls_of({}, in_a_scope), expected);
  EXPECT_GT(calls_of(annotated(), in_a_scope), expected);
  current_stream().synchronize();
  runtime.forget_calls();
  in_a_scope([] {});
  EXPECT_EQ(runtime.calls(), 0) << "outside of a capture";
}

TEST_F(Annotations, OfACaptureInsideOfAnotherScopeAreItsOwn) {
  CUDAGraph other;
  const Stream side;
  capture(graph_, annotated(), [&] {
    const annotate outer({{"name", "outer"}, {"step", "1"}});
    add(x_);
    {
      const StreamGuard there(side);
      other.capture_begin(annotated());
      add(y_);
      const annotate inner("inner");
      add(y_);
      other.capture_end();
    }
    add(x_);
  });
  EXPECT_EQ(texts(graph_), (Texts{"outer, step=1", "outer, step=1"}));
  EXPECT_EQ(texts(other), (Texts{"", "inner"}));
}

TEST_F(Annotations, AScopeMayBeLeftAfterItsCapture) {
  CUDAGraph other;
  auto scope = std::unique_ptr<annotate>();
  {
    const SideStream side;
    graph_.capture_begin(annotated());
    scope = std::make_unique<annotate>("late");
    add(x_);
    graph_.capture_end();
    other.capture_begin(annotated());
    add(x_);
    scope.reset();
    add(x_);
    other.capture_end();
  }
  EXPECT_EQ(texts(graph_), Texts{"late"});
  EXPECT_EQ(texts(other), (Texts{"", ""}));
}

TEST_F(Annotations, AScopeThatIsLeftAfterItsCaptureMakesNoCall) {
  static auto& runtime = *new FaultyBackend(default_device().backend());
  const DeviceGuard device{Device(runtime)};
  const SideStream side;
  Buffer<int> x = zeros();
  CUDAGraph graph;
  graph.capture_begin(annotated());
  auto scope = std::make_unique<annotate>("late");
  add(x);
  graph.capture_end();
  runtime.forget_calls();
  scope.reset();
  EXPECT_EQ(runtime.calls(), 0);
}

TEST_F(Annotations, OfScopesThatAreLeftOutOfOrderEndWhereTheyAreLeft) {
  const Warnings warnings;
  capture(graph_, annotated(), [&] {
    std::optional<annotate> first, second, third;
    first.emplace(Annotation{{"name", "first"}, {"a", "1"}});
    second.emplace(Annotation{{"name", "second"}, {"b", "2"}});
    third.emplace(Annotation{{"c", "3"}});
    add(x_);
    second.reset();
    add(x_);
    first.reset();
    add(x_);
    third.reset();
    add(x_);
  });
  EXPECT_EQ(texts(graph_), (Texts{"second, a=1, b=2, c=3", "first, a=1, c=3", "c=3", ""}));
  EXPECT_TRUE(warnings.texts().empty());
}

}  // namespace
}  // namespace reprise::graphs::test
