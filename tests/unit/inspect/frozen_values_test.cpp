// SPDX-License-Identifier: Apache-2.0
#include <array>
#include <bit>
#include <cstdint>
#include <optional>
#include <utility>
#include <vector>

#include "tests/support/sanitizer.h"
#include "tests/support/warnings.h"
#include "tests/unit/inspect/frozen_values_fixture.h"
#include "tests/unit/random/random_fixture.h"

// GraphOptions::check_frozen_values: what is compared between the two captures, and how it is named.

namespace reprise::graphs::test {
namespace {

using random::test::draw;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::SizeIs;
using ::testing::StartsWith;

/// More than a number, and without padding.
struct Steps {
  int* x = nullptr;
  int first = 0;
  int second = 0;
};
struct AddSteps {
  REPRISE_KERNEL void operator()(Thread, Steps steps) const { *steps.x += steps.first + steps.second; }
};

/// With padding at its end.
struct Address {
  int* x = nullptr;
};
struct Padded : Address {
  Padded(int* address, float r, char f) : Address{address}, rate(r), flag(f) {}
  float rate = 0;
  char flag = 0;
};
struct AddPadded {
  REPRISE_KERNEL void operator()(Thread, Padded padded) const { *padded.x += padded.flag; }
};

/// No more than a number, likewise.
struct Rate {
  float rate = 0;
};
struct Pair : Rate {
  unsigned char rest[4] = {};
};
struct AddPair {
  REPRISE_KERNEL void operator()(Thread, int* x, Pair pair) const { *x += static_cast<int>(pair.rate); }
};

TEST_F(FrozenValues, AnIndexThatTheHostCountsIsNamedWithBothValues) {
  const FrozenValuesError error = refusal([&] { add(x_, i_); }, {.name = "train"});
  ASSERT_THAT(error.values(), SizeIs(1));
  const FrozenValue& value = error.values()[0];
  EXPECT_EQ(value.node, "kernel reprise::graphs::test::Add (node 0)");
  EXPECT_EQ(value.parameter, 1U);
  EXPECT_EQ(value.offset, 0U);
  EXPECT_EQ(value.bytes, 4U);
  EXPECT_EQ(value.first, 0U);
  EXPECT_EQ(value.second, 1U);
  EXPECT_FALSE(value.perhaps);
  EXPECT_THAT(value.operator_name, IsEmpty());
  EXPECT_THAT(error.what(), StartsWith("capture: 1 value of the graph `train` differs between two captures"));
  EXPECT_THAT(error.what(), HasSubstr("  kernel reprise::graphs::test::Add (node 0), parameter 1, offset 0 (4 bytes): "
                                      "0x0 (0, 0), then 0x1 (1, 1e-45)\n"));
  EXPECT_EQ(i_, 1);
}

TEST_F(FrozenValues, SizesAndAddressesOfCopiesAreCompared) {
  Buffer<int> y = zeros(100);
  const FrozenValuesError error =
      refusal([&] { copy_async(y.data() + i_, x_.data(), sizeof(int) * (1 + static_cast<std::size_t>(i_))); });
  ASSERT_THAT(error.values(), SizeIs(2));
  EXPECT_EQ(error.values()[0].node, "memcpy (node 0)");
  EXPECT_EQ(error.values()[0].member, "destination");
  EXPECT_EQ(error.values()[0].second - error.values()[0].first, sizeof(int));
  EXPECT_EQ(error.values()[1].member, "bytes");
  EXPECT_EQ(error.values()[1].first, 4U);
  EXPECT_EQ(error.values()[1].second, 8U);
  EXPECT_FALSE(error.values()[1].parameter.has_value());
}

TEST_F(FrozenValues, ValuesOfSetsAreCompared) {
  const FrozenValuesError error = refusal([&] { fill_async(x_.data(), static_cast<unsigned char>(7 + i_), 8); });
  ASSERT_THAT(error.values(), SizeIs(1));
  EXPECT_EQ(error.values()[0].member, "value");
  EXPECT_THAT(error.what(), HasSubstr("  memset (node 0), value (4 bytes): 0x7 (7, 1e-44), then 0x8 (8, 1.1e-44)\n"));
}

TEST_F(FrozenValues, TheEventsOfExternalWaitsAndRecordsAreCompared) {
  const std::array<Event, 2> ready, done;
  const FrozenValuesError error = refusal([&] {
    ready.at(static_cast<std::size_t>(i_)).wait(current_stream(), EventUse::external);
    add(x_);
    done.at(static_cast<std::size_t>(i_)).record(current_stream(), EventUse::external);
  });
  ASSERT_THAT(error.values(), SizeIs(2));
  EXPECT_EQ(error.values()[0].node, "event wait (node 0)");
  EXPECT_EQ(error.values()[0].member, "event");
  EXPECT_EQ(error.values()[0].first, reinterpret_cast<std::uintptr_t>(ready[0].native()));
  EXPECT_EQ(error.values()[0].second, reinterpret_cast<std::uintptr_t>(ready[1].native()));
  EXPECT_FALSE(error.values()[0].perhaps);
  EXPECT_EQ(error.values()[1].node, "event record (node 2)");
  EXPECT_EQ(error.values()[1].second, reinterpret_cast<std::uintptr_t>(done[1].native()));
}

TEST_F(FrozenValues, AWaitForTheSameExternalEventIsNone) {
  const Event ready;
  capture_checked([&] {
    ready.wait(current_stream(), EventUse::external);
    add(x_);
  });
  ready.record();
  graph_.replay();
  EXPECT_EQ(first(x_), 1);
}

TEST_F(FrozenValues, TheSizeOfALaunchIsCompared) {
  const FrozenValuesError error =
      refusal([&] { launch(LaunchConfig::cover(1 + 256 * static_cast<std::size_t>(i_)), Add{}, x_.data(), 1, 1U); });
  ASSERT_THAT(error.values(), SizeIs(1));
  EXPECT_EQ(error.values()[0].member, "grid.x");
}

TEST_F(FrozenValues, OperationsOfABatchAreComparedByMember) {
  const FrozenValuesError error = refusal([&] {
    fill_batch_async(std::array{make_fill(x_.data(), 1, 4), make_fill(x_.data() + 8, 2 + i_, 4)});
    copy_batch_async(std::array{CopyOp{x_.data() + 16, x_.data(), 8 + 8 * static_cast<std::size_t>(i_)}});
  });
  ASSERT_THAT(error.values(), SizeIs(2));
  EXPECT_EQ(error.values()[0].member, "operation 1: pattern");
  EXPECT_EQ(error.values()[1].member, "operation 0: bytes");
}

TEST_F(FrozenValues, MemoryOfTheBodyMayLieElsewhereInEachCapture) {
  capture_checked([&] {
    Buffer<int> a(1000), b(10);
    multiply(x_, 2, a);
    a.reset();
    Buffer<int> c(1000);  // may lie where `a` did
    copy_async(c.data() + 4, b.data(), 8);
    fill_batch_async(std::array{make_fill(c.data(), 1, 4)});
    add(x_);
  });
  graph_.replay();
  EXPECT_EQ(first(x_), 1);
}

TEST_F(FrozenValues, APlaceInMemoryOfTheBodyThatTheHostChoosesIsFound) {
  const FrozenValuesError error = refusal([&] {
    Buffer<int> a(1000);
    fill_async(a.data() + 16 * i_, 0, 8);
  });
  ASSERT_THAT(error.values(), SizeIs(1));
  EXPECT_EQ(error.values()[0].member, "destination");
  EXPECT_EQ(error.values()[0].first_memory, "allocation 0 of the capture, offset 0");
  EXPECT_EQ(error.values()[0].second_memory, "allocation 0 of the capture, offset 64");
}

TEST_F(FrozenValues, MemoryOfASharedPoolMayLieElsewhereInEachCapture) {
  CUDAGraph other;
  std::optional<Buffer<int>> held;
  capture(other, [&] {
    const Buffer<int> free(300);
    held.emplace(200);
    add(x_);
  });
  Buffer<int> first_result, result;
  capture(graph_, {.pool = other.pool(), .check_frozen_values = [&] { first_result = std::move(result); }}, [&] {
    result = Buffer<int>(100);
    multiply(x_, 2, result);
    add(*held);
  });
  EXPECT_NE(first_result.data(), result.data());
}

TEST_F(FrozenValues, OtherMemoryOfTheProgramIsFound) {
  std::vector<Buffer<int>> batches;
  batches.push_back(zeros(100));
  batches.push_back(zeros(100));
  const FrozenValuesError error = refusal([&] { add(batches[static_cast<std::size_t>(i_)]); });
  ASSERT_THAT(error.values(), SizeIs(1));
  EXPECT_EQ(error.values()[0].parameter, 0U);
  EXPECT_EQ(error.values()[0].second, reinterpret_cast<std::uintptr_t>(batches[1].data()));
  EXPECT_THAT(error.values()[0].str(), HasSubstr("parameter 0, offset 0 (8 bytes): 0x"));
  EXPECT_THAT(error.values()[0].second_memory, StartsWith("offset 0 of 512 bytes at 0x"));
  EXPECT_THAT(error.values()[0].str(), HasSubstr("(" + error.values()[0].second_memory + ")"));
}

TEST_F(FrozenValues, RandomNumbersAreNone) {
  const Generator generator;
  Buffer<unsigned> numbers(4);
  capture_checked([&] {
    draw(generator, numbers);
    draw(generator, numbers);
  });
  const std::vector<unsigned> expected = [&] {
    const Generator same = generator.clone();
    random::test::drawn(same);
    return random::test::drawn(same);
  }();
  graph_.replay();
  EXPECT_EQ(random::test::read(numbers), expected) << "as if there had been one capture";
}

TEST_F(FrozenValues, HowManyNumbersAreDrawnIsCompared) {
  const Generator generator;
  Buffer<unsigned> numbers(4);
  const FrozenValuesError error = refusal([&] {
    draw(generator, numbers, 1);
    generator.philox_state(1 + 4 * static_cast<std::uint64_t>(i_));
  });
  ASSERT_THAT(error.values(), SizeIs(1));
  EXPECT_EQ(error.values()[0].member, "increment");
}

TEST_F(FrozenValues, DataOfHostFunctionsIsNotCompared) {
  int called = 0;
  capture_checked([&] {
    launch_host(current_stream(), [&called, times = i_ + 1] { called += times; });
    add(x_);
  });
  graph_.replay();
  current_stream().synchronize();
  EXPECT_EQ(called, 2) << "of the second capture";
}

TEST_F(FrozenValues, TextsNameTheAnnotation) {
  const FrozenValuesError error = refusal(
      [&] {
        const annotate forward("forward");
        add(x_, i_);
      },
      {.enable_annotations = true});
  ASSERT_THAT(error.values(), SizeIs(1));
  EXPECT_EQ(error.values()[0].annotation, (Annotation{{"name", "forward"}}));
  EXPECT_THAT(error.what(), HasSubstr("Add (node 0) in forward, parameter 1"));
}

TEST_F(FrozenValues, HalfOfAWordIsNamedByItsOwnOffset) {
  const FrozenValuesError error = refusal([&] {
    launch(LaunchConfig::cover(1, 1), AddSteps{}, Steps{x_.data(), 3, 4 + i_});
  });
  ASSERT_THAT(error.values(), SizeIs(1));
  EXPECT_EQ(error.values()[0].offset, 12U);
  EXPECT_EQ(error.values()[0].bytes, 4U);
  EXPECT_EQ(error.values()[0].first, 4U);
  EXPECT_FALSE(error.values()[0].perhaps) << "the parameter has no padding";
}

struct Three {
  float a, b, c;
};
struct One {
  float a;
};
struct Scaled {
  int* x;
  float by;
};
struct Mixed {
  char flag;  // three bytes of padding follow
  Three three;
  double table[2];
  std::array<Scaled, 2> scaled;  // four bytes of padding in each
};
struct TwoUnits {
  unsigned low : 3;
  float by;
};

/// A kernel of the library's own kind with one argument.
template <class Argument>
struct Takes {
  REPRISE_KERNEL void operator()(Thread, Argument) const {}
};

class FrozenMembers : public FrozenValues {
 protected:
  void SetUp() override {
    if (!kernel_detail::clears_padding) GTEST_SKIP() << "the compiler cannot clear padding";
  }
  /// Expects that the one value which differs is certain, and lies there.
  template <class Argument, class Body>
  void expect_certain(std::size_t offset, std::size_t bytes, const Body& argument) {
    const FrozenValuesError error =
        refusal([&] { launch(LaunchConfig::cover(1, 1), Takes<Argument>{}, argument(static_cast<float>(i_))); });
    ASSERT_THAT(error.values(), SizeIs(1));
    EXPECT_FALSE(error.values()[0].perhaps);
    EXPECT_EQ(error.values()[0].parameter, 0U);
    EXPECT_EQ(error.values()[0].offset, offset);
    EXPECT_EQ(error.values()[0].bytes, bytes);
  }
};

TEST_F(FrozenMembers, NumbersInAStructOfAKernelOfTheLibraryAreCertain) {
  expect_certain<Three>(4, 4, [](float i) { return Three{1, i, 3}; });
  expect_certain<One>(0, 4, [](float i) { return One{i}; });
  expect_certain<std::array<float, 2>>(4, 4, [](float i) { return std::array<float, 2>{1, i}; });
  expect_certain<Scaled>(8, 4, [this](float i) { return Scaled{x_.data(), i}; });
}

TEST_F(FrozenMembers, StructsAndArraysInStructsAreComparedByWords) {
  const Mixed mixed{1, {1, 2, 3}, {4, 5}, {{{x_.data(), 6}, {x_.data(), 7}}}};
  const auto with = [&](const auto& change) {
    return [&mixed, change](float i) {
      Mixed changed = mixed;
      change(changed, i);
      return changed;
    };
  };
  expect_certain<Mixed>(0, 4, with([](Mixed& m, float i) { m.flag = static_cast<char>(i); }));
  expect_certain<Mixed>(12, 4, with([](Mixed& m, float i) { m.three.c = i; }));
  expect_certain<Mixed>(28, 4, with([](Mixed& m, float i) { m.table[1] = i; }));  // half of it
  expect_certain<Mixed>(56, 4, with([](Mixed& m, float i) { m.scaled[1].by = i; }));
}

TEST_F(FrozenMembers, PaddingIsNotCompared) {
  const reprise::test::Warnings warnings;
  capture_checked([&] {
    alignas(Mixed) std::array<unsigned char, sizeof(Mixed)> bytes{};
    for (const std::size_t padding : {1U, 2U, 3U, 44U, 47U, 60U, 63U}) bytes.at(padding) = 0x10 + i_;
    launch(LaunchConfig::cover(1, 1), Takes<Mixed>{}, std::bit_cast<Mixed>(bytes));
  });
  EXPECT_THAT(warnings.texts(), IsEmpty());
}

TEST_F(FrozenMembers, OfClassesAndBesideBitFieldsAreCertain) {
  expect_certain<TwoUnits>(4, 4, [](float i) { return TwoUnits{1, i}; });
  expect_certain<Padded>(8, 4, [this](float i) { return Padded{x_.data(), i, 1}; });
}

TEST_F(FrozenValues, BytesThatMayBePaddingAreListedApart) {
  if (reprise::test::with_address_sanitizer) GTEST_SKIP() << "AddressSanitizer has variables on a stack of its own";
  const FrozenValuesError error = refusal([&] {
    launch_with_padding(AddPadded{}, Padded{x_.data(), 0.5F * static_cast<float>(i_), 0});
    add(x_, i_);
  });
  ASSERT_THAT(error.values(), SizeIs(2));
  EXPECT_FALSE(error.values()[0].perhaps);
  EXPECT_TRUE(error.values()[1].perhaps);
  EXPECT_EQ(error.values()[1].offset, 8U);
  EXPECT_THAT(error.what(), StartsWith("capture: 1 value of the graph differs"));
  EXPECT_THAT(error.what(), HasSubstr("  Perhaps also; these lie in structs, in parameters of more than 8 bytes"));
  EXPECT_THAT(error.what(), HasSubstr("(4 bytes): 0x0 (0, 0), then 0x3f000000 (1056964608, 0.5)\n"));
}

TEST_F(FrozenValues, AStructOfTheSizeOfANumberMayHavePaddingToo) {
  const reprise::test::Warnings warnings;
  capture_checked([&] {
    Pair pair;
    pair.rate = 7;
    pair.rest[1] = static_cast<unsigned char>(i_ + 1);  // as bytes that another call left there
    launch_with_padding(AddPair{}, x_.data(), pair);
  });
  ASSERT_THAT(warnings.texts(), SizeIs(1));
  EXPECT_THAT(warnings.texts()[0], StartsWith("GraphOptions::check_frozen_values: 1 word of the graph differs"));
  EXPECT_THAT(warnings.texts()[0], HasSubstr("AddPair (node 0), parameter 1, offset 4 (4 bytes): 0x100 "));
  graph_.replay();
  EXPECT_EQ(first(x_), 7);
}

TEST_F(FrozenValues, WhatOnlyMayDifferIsAWarning) {
  const reprise::test::Warnings warnings;
  capture_checked([&] { launch_with_padding(AddPadded{}, Padded{x_.data(), 0.5F * static_cast<float>(i_), 1}); });
  ASSERT_THAT(warnings.texts(), SizeIs(1));
  EXPECT_THAT(warnings.texts()[0], StartsWith("GraphOptions::check_frozen_values: 1 word of the graph differs"));
  graph_.replay();
  EXPECT_EQ(first(x_), 1);
}

}  // namespace
}  // namespace reprise::graphs::test
