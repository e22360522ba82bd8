// SPDX-License-Identifier: Apache-2.0
#include <string>

#include "tests/unit/inspect/liveness_fixture.h"

// Words among the parameters of a kernel that look like addresses by chance.

namespace reprise::graphs::test {
namespace {

using ::testing::ElementsAre;
using ::testing::UnorderedElementsAre;

/// Most of it is used by no kernel, and is whatever lay there.
struct Large {
  int* used = nullptr;
  void* unused[15] = {};
};

struct AddToLarge {
  REPRISE_KERNEL void operator()(Thread, Large large) const { *large.used += 1; }
  static auto accesses(const Large& large) { return std::array{reads(large.used, 1), writes(large.used, 1)}; }
};

class WordsLikeAddresses : public ::testing::Test {
 protected:
  // `stale` says in which of its runs a stale address lies in the parameters.
  void body(int stale) {
    Large large;
    large.used = x_.data();
    if (runs_++ == stale) large.unused[7] = y_.data();
    launch(LaunchConfig::cover(1, 1), AddToLarge{}, large);
  }

  Buffer<int> x_ = zeros();
  Buffer<int> y_ = zeros();
  int runs_ = 0;
  CUDAGraph graph_;
};

TEST_F(WordsLikeAddresses, AreTakenForInputs) {
  capture(graph_, with_check(), [&] { body(0); });
  EXPECT_EQ(runs_, 1);
  EXPECT_THAT(addresses(graph_.inputs()), UnorderedElementsAre(x_.data(), y_.data()));
}

TEST_F(WordsLikeAddresses, AreNamedByTheCheckOfFrozenValues) {
  GraphOptions options = with_check();
  options.check_frozen_values = no_next;
  for (const int stale : {0, 1}) {
    runs_ = 0;
    const std::string text = text_of<FrozenValuesError>([&] { capture(graph_, options, [&] { body(stale); }); });
    EXPECT_TRUE(contains(text, "AddToLarge (node 0), parameter 0, offset 64")) << text;
  }
}

TEST_F(WordsLikeAddresses, AreNoInputsWhereTheBodyClearsThem) {
  GraphOptions options = with_check();
  options.check_frozen_values = no_next;
  capture(graph_, options, [&] { body(-1); });
  EXPECT_THAT(addresses(graph_.inputs()), ElementsAre(x_.data()));
  y_.reset();
  graph_.replay();
  EXPECT_EQ(first(x_), 1);
  x_.reset();
  EXPECT_THROW(graph_.replay(), DeadInputError);
}

TEST_F(WordsLikeAddresses, NeedSomethingThatLooksForInputs) {
  GraphOptions options;
  options.inputs.scope = Liveness::all;
  const auto run = [&] { capture(graph_, options, [&] { body(0); }); };
  EXPECT_TRUE(contains(text_of<UsageError>(run), "GraphOptions::inputs.scope refines"));
  EXPECT_EQ(runs_, 0);
  options.inputs.retain = true;
  run();
  EXPECT_EQ(runs_, 1);
}

}  // namespace
}  // namespace reprise::graphs::test
