// SPDX-License-Identifier: Apache-2.0
#include <set>

#include "tests/unit/random_test.h"

// Generators, eagerly; and the numbers themselves.

namespace reprise::random::test {
namespace {

TEST(PhiloxNumbers, AreThoseOfItsAuthors) {
  // kat_vectors of Random123 1.14.0: philox4x32 with 10 rounds, counter and key of zeros, and of ones. The counter's
  // low half is the offset divided by 4, its high half the subsequence.
  Philox zeros(0, 0, 0);
  for (const unsigned expected : {0x6627e8d5U, 0xe169c58dU, 0xbc57ac4cU, 0x9b00dbd8U}) EXPECT_EQ(zeros(), expected);
  const philox4x32_ctr_t counter = {{0x243f6a88, 0x85a308d3, 0x13198a2e, 0x03707344}};
  const philox4x32_key_t key = {{0xa4093822, 0x299f31d0}};
  EXPECT_EQ(philox4x32_R(10, counter, key).v[0], 0xd16cfe09U);
}

TEST(PhiloxNumbers, GoOnAcrossFourAndFromAnyOffset) {
  Philox all(42, 7, 0);
  std::vector<unsigned> numbers(16);
  for (unsigned& number : numbers) number = all();
  for (unsigned offset = 0; offset < 12; ++offset) {
    Philox from(42, 7, offset);
    for (unsigned i = offset; i < 16; ++i) EXPECT_EQ(from(), numbers[i]) << offset << ", " << i;
  }
}

TEST(PhiloxNumbers, AreUniformGreaterThanZeroAndAtMostOne) {
  Philox philox(1, 2, 0);
  double sum = 0;
  for (int i = 0; i < 10000; ++i) {
    const float x = philox.uniform();
    EXPECT_GT(x, 0.0F);
    EXPECT_LE(x, 1.0F);
    sum += x;
  }
  EXPECT_NEAR(sum / 10000, 0.5, 0.02);
}

TEST(GeneratorTest, GivesEachLaunchTheNextNumbersOfEachThread) {
  Generator generator(current_device(), 42);
  const std::vector<unsigned> first = drawn(generator), second = drawn(generator);
  for (unsigned i = 0; i < 4; ++i) {
    EXPECT_EQ(first[i], Philox(42, i, 0)());
    EXPECT_EQ(second[i], Philox(42, i, 4)()) << "an offset is a multiple of 4";
  }
  EXPECT_EQ(generator.offset(), 8U);
  drawn(generator, 4, 5);
  EXPECT_EQ(generator.offset(), 16U);
}

TEST(GeneratorTest, StartsAtTheSeedOfPyTorchAndAtOffsetZero) {
  const Generator generator;
  EXPECT_EQ(generator.current_seed(), 67280421310721U);
  EXPECT_EQ(generator.offset(), 0U);
  EXPECT_EQ(generator.device(), current_device());
}

TEST(GeneratorTest, BeginsAnewWithASeed) {
  Generator generator;
  drawn(generator);
  generator.set_current_seed(7);
  EXPECT_EQ(generator.get_state(), (GeneratorState{7, 0}));
  const std::uint64_t a = generator.seed(), b = generator.seed();
  EXPECT_NE(a, b);
  EXPECT_EQ(generator.current_seed(), b);
}

TEST(GeneratorTest, GoesBackToAStateThatItHad) {
  Generator generator;
  drawn(generator);
  const GeneratorState state = generator.get_state();
  const auto numbers = drawn(generator);
  EXPECT_NE(drawn(generator), numbers);
  generator.set_state(state);
  EXPECT_EQ(drawn(generator), numbers);
  generator.set_offset(state.offset);
  EXPECT_EQ(drawn(generator), numbers);
}

TEST(GeneratorTest, RefusesAnOffsetThatIsNoMultipleOfFour) {
  Generator generator;
  EXPECT_TRUE(contains(text_of<UsageError>([&] { generator.set_offset(6); }), "multiple of 4"));
  EXPECT_THROW(generator.set_state({1, 2}), UsageError);
  EXPECT_EQ(generator.offset(), 0U);
}

TEST(GeneratorTest, SharesItsStateWithCopiesAndNotWithClones) {
  Generator generator;
  const Generator copy = generator, clone = generator.clone();
  EXPECT_EQ(copy, generator);
  EXPECT_FALSE(clone == generator);
  drawn(generator);
  EXPECT_EQ(copy.offset(), 4U);
  EXPECT_EQ(clone.offset(), 0U);
}

TEST(GeneratorTest, RefusesAStreamOfAnotherDevice) {
  std::optional<Device> other;
  for (const Device& device : devices())
    if (device != current_device()) other = device;
  if (!other) GTEST_SKIP() << "there is one device";
  const Generator generator;
  EXPECT_TRUE(contains(text_of<UsageError>([&] { generator.philox_state(1, other->default_stream()); }), "device"));
}

TEST(DefaultGenerator, IsOneForEachDevice) {
  EXPECT_EQ(default_generator(), default_generator(current_device()));
  manual_seed(99);
  EXPECT_EQ(default_generator().get_state(), (GeneratorState{99, 0}));
  manual_seed(Generator::default_seed);
}

}  // namespace
}  // namespace reprise::random::test
