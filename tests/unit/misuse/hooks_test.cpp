// SPDX-License-Identifier: Apache-2.0
#include <cstdint>
#include <thread>

#include "tests/unit/graph/graph_fixture.h"

// Misuse of hooks for all graphs; those of one graph are in graphs_test.cpp.

namespace reprise::graphs::test {
namespace {

TEST(HookMisuse, HooksForAllGraphsAreRemovedOnceAndByTheirId) {
  const HookId id = add_global_hooks({});  // all of them empty
  for (const HookId other : {HookId{0}, HookId{UINT64_MAX}})
    EXPECT_TRUE(contains(text_of<UsageError>([&] { remove_global_hooks(other); }),
                         "found " + std::to_string(static_cast<std::uint64_t>(other))));
  std::thread([&] { remove_global_hooks(id); }).join();
  EXPECT_THROW(remove_global_hooks(id), UsageError);
}

TEST(HookMisuse, AGraphsHooksAreNoneForAllGraphsAndTheOtherWayRound) {
  CUDAGraph graph;
  const HookId own = graph.add_hooks({});
  const HookId global = add_global_hooks({});
  EXPECT_THROW(remove_global_hooks(own), UsageError);
  EXPECT_THROW(graph.remove_hooks(global), UsageError);
  graph.remove_hooks(own);
  remove_global_hooks(global);
}

TEST(HookMisuse, HooksForAllGraphsMayComeAndGoWithinOneAndInACapture) {
  const SideStream side;
  Buffer<int> x = zeros();
  int calls = 0;
  HookId outer{}, inner{};
  CUDAGraph graph;
  capture(graph, [&] {
    add(x);
    outer = add_global_hooks({.before_replay = [&](const CUDAGraph&, const StreamRef&) {
      remove_global_hooks(outer);
      inner = add_global_hooks({.before_replay = [&](const CUDAGraph&, const StreamRef&) { ++calls; }});
    }});
  });
  graph.replay();
  EXPECT_EQ(calls, 0) << "the new ones missed the beginning";
  graph.replay();
  EXPECT_EQ(calls, 1);
  remove_global_hooks(inner);
  EXPECT_EQ(first(x), 2);
}

}  // namespace
}  // namespace reprise::graphs::test
