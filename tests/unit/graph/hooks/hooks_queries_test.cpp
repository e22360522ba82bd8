// SPDX-License-Identifier: Apache-2.0
#include <functional>
#include <string>
#include <utility>
#include <vector>

#include "tests/unit/graph/hooks/hooks_fixture.h"

// Parameters and comparisons within hooks.

namespace reprise::graphs::test {
namespace {

/// All steps of a graph's life but the reset, in each of which `f` is called.
GraphHooks at_each_step(const std::function<void(const std::string& step)>& f) {
  return {.captured = [f](GraphHandle) { f("captured"); },
          .instantiated = [f](GraphExecHandle) { f("instantiated"); },
          .before_replay = [f](const StreamRef&) { f("before_replay"); },
          .after_replay = [f](const StreamRef&, ErrorCode) { f("after_replay"); }};
}

TEST_F(Hooks, ReadParametersOnceTheyAreKnown) {
  const Parameter<int> amount(5);
  std::vector<std::string> read, refused;
  const HookId id = graph_.add_hooks(at_each_step([&](const std::string& step) {
    try {
      EXPECT_EQ(graph_.get(amount), 5) << step;
      read.push_back(step);
    } catch (const UsageError& error) {
      EXPECT_TRUE(contains(error.what(), "CUDAGraph::get was called within the hook `captured`"));
      refused.push_back(step);
    }
  }));
  const auto body = [&] { launch(1, Add{}, x_.data(), amount, x_.size()); };
  const std::vector<std::string> unknown{"captured"}, known{"instantiated", "before_replay", "after_replay"};
  capture(graph_, body);
  graph_.replay();
  EXPECT_EQ(refused, unknown);
  EXPECT_EQ(read, known);
  read.clear(), refused.clear();
  // A recapture in place has no new executable, and one of another shape has.
  EXPECT_TRUE(graph_.recapture(body).in_place);
  EXPECT_EQ(refused, unknown);
  EXPECT_TRUE(read.empty());
  refused.clear();
  EXPECT_FALSE(graph_.recapture([&] { body(), add(x_); }).in_place);
  graph_.replay();
  EXPECT_EQ(refused, unknown);
  EXPECT_EQ(read, known);
  graph_.remove_hooks(id);
  EXPECT_EQ(graph_.get(amount), 5);
}

TEST_F(Hooks, ReadParametersOfAGraphWithoutAnExecutable) {
  CUDAGraph kept(KeepGraph::yes);
  const Parameter<int> amount(5);
  capture(kept, [&] { launch(1, Add{}, x_.data(), amount, x_.size()); });
  kept.set(amount, 6);
  std::vector<int> values;
  kept.add_hooks(at_each_step([&](const std::string&) { values.push_back(kept.get(amount)); }));
  kept.replay();
  EXPECT_EQ(values, std::vector<int>(3, 6));
}

TEST_F(Hooks, ChangeNoParametersAndMakeNone) {
  const Parameter<int> amount(5);
  int refused = 0;
  graph_.add_hooks(at_each_step([&](const std::string& step) {
    for (const std::function<void()>& call :
         {std::function<void()>([&] { (void)graph_.parameter(x_.data()); }), {[&] { graph_.set(amount, 6); }}})
      refused += contains(text_of<UsageError>(call), "was called within a hook of the same graph") ? 1 : 0;
    if (step != "captured") {
      EXPECT_EQ(graph_.get(amount), 5);
    }
  }));
  capture(graph_, [&] { launch(1, Add{}, x_.data(), amount, x_.size()); });
  graph_.replay();
  EXPECT_EQ(refused, 8);
  const Parameter<int*> data = graph_.parameter(x_.data());
  EXPECT_EQ(graph_.get(data), x_.data());
  EXPECT_EQ(first(x_), 5);
}

TEST_F(Hooks, CompareOtherGraphsOnly) {
  const CUDAGraph one = capture([&] { add(x_, 1); }), other = capture([&] { add(x_, 2); });
  int refused = 0, compared = 0;
  graph_.add_hooks(at_each_step([&](const std::string&) {
    const std::pair<const CUDAGraph*, const CUDAGraph*> pairs[] = {
        {&graph_, &one}, {&one, &graph_}, {&graph_, &graph_}};
    for (const auto& pair : pairs) {
      const std::string text = text_of<UsageError>([&] { (void)diff(*pair.first, *pair.second); });
      refused += contains(text, "diff of graph `mine` was called within a hook of one of the two graphs") ? 1 : 0;
    }
    compared += static_cast<int>(diff(one, other).size());
  }));
  capture(graph_, {.name = "mine"}, [&] { add(x_); });
  graph_.replay();
  EXPECT_EQ(refused, 4 * 3);
  EXPECT_EQ(compared, 4);
}

TEST_F(Hooks, OfAllGraphsCompareNoneOfTheirOwn) {
  const CUDAGraph one = capture([&] { add(x_); });
  int refused = 0;
  GlobalGraphHooks hooks;
  hooks.captured = [&](const CUDAGraph& graph, GraphHandle) {
    refused += contains(text_of<UsageError>([&] { (void)diff(graph, one); }), "of one of the two graphs") ? 1 : 0;
    EXPECT_EQ(graph.nodes().size(), 1U);
  };
  const HookId id = add_global_hooks(std::move(hooks));
  capture_increment(graph_, x_);
  remove_global_hooks(id);
  EXPECT_EQ(refused, 1);
  EXPECT_EQ(diff(graph_, one).size(), 0U);
}

}  // namespace
}  // namespace reprise::graphs::test
