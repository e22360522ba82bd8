// SPDX-License-Identifier: Apache-2.0
#include <gmock/gmock.h>

#include <bit>
#include <cmath>
#include <cstddef>
#include <cstring>

#include "inspect/nodes/node_values.h"
#include "tests/unit/inspect/made_graphs_fixture.h"

// The values of nodes that check_frozen_values compares: of kernels of which only the sizes of the parameters are
// known.

namespace reprise::inspect::test {
namespace {

using ::testing::IsEmpty;
using ::testing::SizeIs;

/// A device whose kernels are foreign: the runtime knows offset and size of each parameter, and no types.
class Foreign final : public Pretending {
 public:
  using Pretending::Pretending;
  backend::Result function_param_info(FunctionHandle function, std::size_t index, KernelParam* param) override {
    backend::Result result = FaultyBackend::function_param_info(function, index, param);
    if (!knows_types) {
      param->whole = false;
      param->type = nullptr;
      param->cleared = false;
    }
    return result;
  }
  bool knows_types = false;
};

struct Words {
  std::uint64_t word[4] = {};
};
struct TakesWords {
  REPRISE_KERNEL void operator()(Thread, Words, std::uint64_t, char) const {}
};

std::uint64_t bits(float rate) {
  return std::bit_cast<std::uint32_t>(rate);
}

/// Arguments of TakesWords, in the layout of its parameters, and what a launch takes with `extra`.
struct PackedWords {
  Words words;
  std::uint64_t number = 0;
  char last = 0;
  std::size_t bytes = 48;
  void* extra[5] = {reinterpret_cast<void*>(1), this, reinterpret_cast<void*>(2), &bytes, nullptr};
};

class NodeValuesTest : public MadeGraphs<Foreign> {
 protected:
  NodeValues values(void** extra) {
    const GraphHandle graph = make();
    add_packed_kernel(graph, kernel_record<TakesWords>(), extra);
    return read(graph);
  }
  /// A graph with one kernel.
  NodeValues values(Words words, std::uint64_t number, char last,
                    const KernelRecord& record = kernel_record<TakesWords>()) {
    void* arguments[] = {&words, &number, &last, nullptr};
    const GraphHandle graph = make();
    add_kernel(graph, record, arguments);
    return read(graph);
  }
  NodeValues read(GraphHandle graph) { return read_node_values(device_, graph); }
};

TEST_F(NodeValuesTest, ParametersOfANumbersSizeAreCertainAndLargerOnesPerhaps) {
  const NodeValues first = values({{1, 2, 3, 4}}, 5, 6);
  const NodeValues second = values({{1, 2, 30, 4}}, 50, 60);
  const std::vector<ChangedValue> changed = changed_values(first, second);
  ASSERT_THAT(changed, SizeIs(3));
  EXPECT_TRUE(changed[0].value.perhaps);
  EXPECT_EQ(changed[0].value.parameter, 0);
  EXPECT_EQ(changed[0].value.offset, 16U);
  EXPECT_EQ(changed[0].value.bytes, 4U) << "only this half differs";
  EXPECT_EQ(changed[0].first, 3U);
  EXPECT_FALSE(changed[1].value.perhaps);
  EXPECT_EQ(changed[1].value.bytes, 8U) << "a parameter is one value";
  EXPECT_EQ(changed[2].value.parameter, 2);
  EXPECT_EQ(changed[2].value.bytes, 1U);
}

TEST_F(NodeValuesTest, WordsThatShowTheOverwrittenStackWereNotWritten) {
  std::uint64_t before = 0, now = 0;
  std::memset(&before, 0xA5, sizeof before);
  std::memset(&now, 0x5A, sizeof now);
  const auto changed = [&] {
    const NodeValues first = values({{before, before >> 32, 7, before}}, before, 1);
    return changed_values(first, values({{now, now >> 32, 7, before}}, now, 1));
  };
  EXPECT_THAT(changed(), IsEmpty());
  device_.knows_types = true;
  const std::vector<ChangedValue> of_types = changed();
  ASSERT_THAT(of_types, SizeIs(3)) << "none of them has padding";
  EXPECT_EQ(of_types[2].value.parameter, 1);
  EXPECT_EQ(of_types[2].first, before);
}

TEST_F(NodeValuesTest, OfASmallParameterTheBytesThatWereWrittenAreCertain) {
  const NodeValues first = values({}, 0xA5A5A50100000007, 6);
  const std::vector<ChangedValue> changed = changed_values(first, values({}, 0x5A5A5A0100000008, 6));
  ASSERT_THAT(changed, SizeIs(1));
  EXPECT_EQ(changed[0].first, 0x100000007U);
  EXPECT_EQ(changed[0].value.value, 0x100000008U);
  EXPECT_FALSE(changed[0].value.perhaps);
  EXPECT_THAT(changed_values(first, values({}, 0x5A5A5A0100000007, 6)), IsEmpty());
}

TEST_F(NodeValuesTest, UnwrittenBytesOfAWordAreLeftOut) {
  const std::uint64_t before = 0xA5A5A500, now = 0x5A5A5A00;
  const NodeValues first =
      values({{bits(0.5F) << 32 | before | 1, before << 32 | 7, bits(0.5F) << 32 | before | 1}}, 0, 0);
  const NodeValues second = values({{bits(1.0F) << 32 | now | 1, now << 32 | 8, bits(1.0F) << 32 | now | 2}}, 0, 0);
  const std::vector<ChangedValue> changed = changed_values(first, second);
  ASSERT_THAT(changed, SizeIs(3));
  EXPECT_EQ(changed[0].value.offset, 4U) << "only the upper half differs";
  EXPECT_EQ(changed[0].value.bytes, 4U);
  EXPECT_EQ(changed[0].first, bits(0.5F));
  EXPECT_EQ(changed[1].value.offset, 8U) << "only the lower half differs";
  EXPECT_EQ(changed[1].value.bytes, 4U);
  EXPECT_EQ(changed[1].first, 7U);
  EXPECT_EQ(changed[2].value.bytes, 8U);
  EXPECT_EQ(changed[2].first, bits(0.5F) << 32 | 1);
  EXPECT_EQ(changed[2].value.value, bits(1.0F) << 32 | 2);
}

TEST_F(NodeValuesTest, OfCopiesOfRowsWithGapsEndsAndSizesAreCompared) {
  const auto graph = [&](std::size_t rows) {
    const GraphHandle made = make();
    backend::PitchedCopyNodeParams copy;
    copy.source = {reinterpret_cast<std::byte*>(0x10000), 16 * rows - 8};
    copy.row_bytes = 8;
    copy.rows = rows;
    device_.pretended.emplace(add(made, backend::EmptyNodeParams{}), copy);
    return read(made);
  };
  EXPECT_THAT(changed_values(graph(3), graph(3)), IsEmpty());
  const NodeValues first = graph(3);
  const std::vector<ChangedValue> changed = changed_values(first, graph(4));
  ASSERT_THAT(changed, SizeIs(2));
  EXPECT_EQ(changed[0].value.member, "rows");
  EXPECT_EQ(changed[1].value.member, "source_bytes");
  ASSERT_THAT(first.omissions, SizeIs(1));
  EXPECT_EQ(first.omissions[0].why, "its destination is an array");
}

TEST_F(NodeValuesTest, MemoryOfAllocationNodesMayLieElsewhere) {
  const auto graph = [&](std::uintptr_t address, std::size_t offset) {
    const GraphHandle made = make();
    auto* const memory = reinterpret_cast<std::byte*>(address);
    device_.pretended.emplace(add(made, backend::EmptyNodeParams{}), backend::MemoryAllocateNodeParams{512, memory});
    device_.pretended.emplace(add(made, backend::EmptyNodeParams{}),
                              backend::MemsetNodeParams{memory + offset, 0, 1, 4});
    device_.pretended.emplace(add(made, backend::EmptyNodeParams{}), backend::MemoryFreeNodeParams{memory});
    return read(made);
  };
  const NodeValues first = graph(0x10000, 64);
  EXPECT_THAT(changed_values(first, graph(0x20000, 64)), IsEmpty());
  const std::vector<ChangedValue> changed = changed_values(first, graph(0x20000, 128));
  ASSERT_THAT(changed, SizeIs(1));
  EXPECT_EQ(changed[0].value.member, "destination");
}

TEST_F(NodeValuesTest, SwappedMemoryOfTheCaptureDiffers) {
  NodeValues first = values({{0x1000, 0x2000, 0, 0}}, 0, 0);
  NodeValues second = values({{0x4000, 0x3000, 0, 0}}, 0, 0);
  first.own.add({{0x1000, 512}, {0x2000, 512}}, {});
  second.own.add({{0x3000, 512}, {0x4000, 512}}, {});
  const std::vector<ChangedValue> changed = changed_values(first, second);
  ASSERT_THAT(changed, SizeIs(2));
  EXPECT_EQ(changed[0].first_memory, "allocation 0 of the capture, offset 0");
  EXPECT_EQ(changed[0].second_memory, "allocation 1 of the capture, offset 0");
}

TEST_F(NodeValuesTest, AnAddressThatWasAllocatedAgainMatchesOneOfItsAllocations) {
  NodeValues first = values({{0x1000, 0, 0, 0}}, 0, 0);
  NodeValues second = values({{0x3000, 0, 0, 0}}, 0, 0);
  first.own.add({{0x1000, 512}, {0x1000, 512}}, {});
  second.own.add({{0x2000, 512}, {0x3000, 512}}, {});
  EXPECT_THAT(changed_values(first, second), IsEmpty());
}

TEST_F(NodeValuesTest, HiddenMemoryMayLieElsewhere) {
  NodeValues first = values({{0x1000, 0, 0, 0}}, 0, 0);
  NodeValues second = values({{0x3000, 0, 0, 0}}, 0, 0);
  first.own.add({}, {0x1000});
  EXPECT_THAT(changed_values(first, second), SizeIs(1));
  second.own.add({}, {0x3000});
  EXPECT_THAT(changed_values(first, second), IsEmpty());
}

TEST_F(NodeValuesTest, ArgumentsInOneBlockAreComparedAsThoseThatAreNot) {
  PackedWords packed{{{1, 2, 3, 4}}, 5, 6};
  const NodeValues apart = values(packed.words, packed.number, packed.last);
  EXPECT_THAT(changed_values(apart, values(packed.extra)), IsEmpty());
  packed.number = 50;
  const std::vector<ChangedValue> changed = changed_values(apart, values(packed.extra));
  ASSERT_THAT(changed, SizeIs(1));
  EXPECT_EQ(changed[0].value.parameter, 1);
  EXPECT_EQ(changed[0].value.offset, 0U);
  EXPECT_EQ(changed[0].first, 5U);
  EXPECT_FALSE(changed[0].value.perhaps);
}

TEST_F(NodeValuesTest, AllOfABlockIsPerhapsIfItsLayoutIsNotKnown) {
  PackedWords packed{{}, 5, 6};
  packed.bytes = 41;
  const auto read_block = [&] {
    device_.fail(backend::Call::function_param_info, ErrorCode::not_supported);
    return values(packed.extra);
  };
  const NodeValues first = read_block();
  packed.number = 50;
  packed.last = 60;
  const std::vector<ChangedValue> changed = changed_values(first, read_block());
  ASSERT_THAT(changed, SizeIs(2));
  for (const ChangedValue& each : changed) {
    EXPECT_EQ(each.value.parameter, NodeValue::all_arguments);
    EXPECT_TRUE(each.value.perhaps);
  }
  EXPECT_EQ(changed[0].value.offset, 32U);
  EXPECT_EQ(changed[0].value.bytes, 4U) << "only this half differs";
  EXPECT_EQ(changed[1].value.offset, 40U);
  EXPECT_EQ(changed[1].value.bytes, 1U);
  packed.bytes = 8;
  const NodeValues small = read_block();
  packed.words.word[0] = 7;
  const std::vector<ChangedValue> one = changed_values(small, read_block());
  ASSERT_THAT(one, SizeIs(1));
  EXPECT_TRUE(one[0].value.perhaps) << "it is not known to be one number";
  EXPECT_THAT(first.omissions, IsEmpty());
}

// As functors of libtorch's are that have no members of their own.
struct Empty {};
struct EmptyAndRate {
  Empty empty;
  float rate;
};

TEST_F(NodeValuesTest, OfASmallParameterTheLowHalfMayBePadding) {
  const auto words = [](std::uint32_t low, float rate) { return bits(rate) << 32 | low; };
  static_assert(sizeof(EmptyAndRate) == 8 && offsetof(EmptyAndRate, rate) == 4);
  const auto may_differ_in_padding = [&](std::uint64_t first, std::uint64_t second) {
    const std::vector<ChangedValue> changed = changed_values(values({}, first, 6), values({}, second, 6));
    EXPECT_THAT(changed, SizeIs(1));
    return inspect::may_differ_in_padding(changed.at(0));
  };
  EXPECT_TRUE(may_differ_in_padding(words(1, 0.5F), words(2, 0.5F)));
  EXPECT_FALSE(may_differ_in_padding(words(1, 0.5F), words(2, 0.25F))) << "the rate differs";
  EXPECT_FALSE(may_differ_in_padding(7, 8)) << "numbers of 8 bytes are mostly small";
  EXPECT_FALSE(may_differ_in_padding(0x7F1200000000, 0x7F1200000100)) << "addresses";
  device_.knows_types = true;
  EXPECT_FALSE(may_differ_in_padding(words(1, 0.5F), words(2, 0.5F))) << "a number of 8 bytes";
}

struct StepAndRate {
  std::int32_t step;  // 4 bytes of padding follow
  double rate;
};
struct TakesStepAndRate {
  REPRISE_KERNEL void operator()(Thread, StepAndRate) const {}
};

TEST_F(NodeValuesTest, AMemberOfAKnownTypeIsNoPaddingWhereThatIsCleared) {
  if (!kernel_detail::clears_padding) GTEST_SKIP() << "the compiler cannot clear padding";
  device_.knows_types = true;
  const auto with_rate = [&](double rate) {
    StepAndRate argument;
    std::memset(&argument, 0, sizeof argument);  // as launch() clears it, where the compiler can
    argument.step = 1;
    argument.rate = rate;
    void* arguments[] = {&argument, nullptr};
    const GraphHandle graph = make();
    add_kernel(graph, kernel_record<TakesStepAndRate>(), arguments);
    return read(graph);
  };
  const std::vector<ChangedValue> changed =
      changed_values(with_rate(1), with_rate(std::nextafter(1.0, 2.0)));  // differ in the lower half alone
  ASSERT_THAT(changed, SizeIs(1));
  EXPECT_EQ(changed[0].value.offset, offsetof(StepAndRate, rate));
  EXPECT_FALSE(inspect::may_differ_in_padding(changed[0]));
}

TEST_F(NodeValuesTest, AForeignKernelWithTheNameOfOneOfTheLibraryIsForeign) {
  static const KernelRecord record = [] {
    KernelRecord made = kernel_record<TakesWords>();
    made.name = "reprise_copy_batch";
    return made;
  }();
  EXPECT_THAT(values({{1, 2, 3, 4}}, 5, 6, record).values, SizeIs(11 + 6)) << "the shape of the launch, and each word";
}

TEST_F(NodeValuesTest, WhatTheRuntimeDoesNotProvideIsAnOmission) {
  const GraphHandle graph = make();
  add_packed_kernel(graph, kernel_record<TakesWords>(), nullptr);
  void* unknown[] = {reinterpret_cast<void*>(7), nullptr, nullptr};
  add_packed_kernel(graph, kernel_record<TakesWords>(), unknown);
  const NodeValues found = read(graph);
  EXPECT_THAT(found.values, SizeIs(2 * 11)) << "the shapes of the launches";
  EXPECT_EQ(omissions_text(device_, found.nodes, found.omissions),
            "the parameters of the kernel reprise::inspect::test::(anonymous namespace)::TakesWords (node 0) are not "
            "known, the driver has no arguments of it; and so for 1 more nodes");
}

}  // namespace
}  // namespace reprise::inspect::test
