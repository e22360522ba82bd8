// SPDX-License-Identifier: Apache-2.0
#include <cstdint>
#include <initializer_list>
#include <utility>
#include <vector>

#include "graph/parameters/parameters.h"
#include "tests/unit/graph/graph_fixture.h"

// The entries of parameters that a graph keeps.

namespace reprise::graphs::test {
namespace {

// The entries themselves, without a graph.
class EntriesOfParameters : public ::testing::Test {
 protected:
  using Use = Parameters::Use;
  static Use use(std::uintptr_t node, std::size_t offset, std::size_t bytes = sizeof(int)) {
    auto* const handle = reinterpret_cast<GraphNodeHandle>(node);
    return {handle, handle, {NodePlace::Of::arguments, offset, bytes}};
  }
  void add(const Parameter<int>& parameter, std::vector<Use> uses) {
    entries_.add(parameter.key(), std::as_bytes(std::span(&parameter.initial(), 1)), std::move(uses));
  }
  bool has(const Parameter<int>& parameter, int value) {
    const ParameterValue wanted(parameter, value);
    return entries_.have("", {&wanted, 1});
  }
  void set(std::initializer_list<ParameterValue> values) { entries_.were_set({values.begin(), values.size()}); }

  Parameters entries_;
};

TEST_F(EntriesOfParameters, ThatNothingCanSetAnyMoreAreDropped) {
  const Parameter<int> stays(1);
  add(stays, {use(1, 0)});
  for (int i = 0; i < 1000; ++i) {
    add(Parameter<int>(i), {use(1, 0), use(2, 8)});
    ASSERT_LE(entries_.size(), 17U);
  }
  const std::vector<Parameter<int>> kept = [&] {
    std::vector<Parameter<int>> made;
    for (int i = 0; i < 100; ++i) add(made.emplace_back(i), {use(3, 0)});
    return made;
  }();
  for (int i = 0; i < 100; ++i) EXPECT_TRUE(has(kept[static_cast<std::size_t>(i)], i));
  EXPECT_TRUE(has(stays, 1));
  EXPECT_EQ(entries_.find("", &stays.initial()).uses.size(), 1U);
}

TEST_F(EntriesOfParameters, ThatShareAPlaceMakeNoOtherOneUnknown) {
  const Parameter<int> alone(1), one(2), same(2);
  add(alone, {use(1, 0)});
  add(one, {use(1, 8), use(2, 0)});
  add(same, {use(2, 0)});
  set({{one, 5}});
  EXPECT_TRUE(has(alone, 1));
  EXPECT_TRUE(has(one, 5));
  EXPECT_FALSE(has(same, 2));
  set({{same, 7}});
  EXPECT_TRUE(has(same, 7));
  EXPECT_FALSE(has(one, 5));
  set({{one, 6}, {same, 6}});
  EXPECT_FALSE(has(one, 6));
  EXPECT_FALSE(has(same, 6));
  EXPECT_TRUE(has(alone, 1));
}

TEST_F(EntriesOfParameters, OfAPartOfAnArgumentShareItToo) {
  const Parameter<int> whole(1), part(2);
  add(whole, {use(1, 0, 16)});
  add(part, {use(1, 8, 8)});
  set({{part, 3}});
  EXPECT_TRUE(has(part, 3));
  EXPECT_FALSE(has(whole, 1));
}

TEST_F(EntriesOfParameters, EachPlaceIsThereOnce) {
  const Parameter<int> one(1);
  for (int i = 0; i < 3; ++i) add(one, {use(1, 0), use(1, 4)});
  EXPECT_EQ(entries_.find("", &one.initial()).uses.size(), 2U);
  set({{one, 4}});
  EXPECT_TRUE(has(one, 4));
  entries_.node_changed(reinterpret_cast<GraphNodeHandle>(std::uintptr_t{1}));
  EXPECT_FALSE(has(one, 4));
}

}  // namespace
}  // namespace reprise::graphs::test
