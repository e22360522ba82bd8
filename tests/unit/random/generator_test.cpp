// SPDX-License-Identifier: Apache-2.0
#include <set>

#include "tests/unit/random/random_fixture.h"

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

struct Reference {
  std::uint64_t seed, subsequence, offset;
  unsigned numbers[9];
  float uniforms[2];
};

// Printed by a program that called curand_init(seed, subsequence, offset), curand() nine times and, after another
// curand_init, curand_uniform() twice, with the headers of CUDA 13.0 on an H200.
constexpr Reference references[] = {
    {0,
     0,
     0,
     {0x6627e8d5, 0xe169c58d, 0xbc57ac4c, 0x9b00dbd8, 0xf8e4cca4, 0x5cb200db, 0xb1a574eb, 0x097eff67, 0x04faa329},
     {0.399046481F, 0.880520225F}},
    {42,
     0,
     0,
     {0x9ceaf053, 0x77f5493b, 0x12bf50ad, 0x5742b3d7, 0xfcdb2127, 0x53ba6cfd, 0x838f5a6e, 0x744e06fb, 0xd36c0225},
     {0.612959862F, 0.468586504F}},
    {42,
     7,
     8,
     {0x24ecfc6e, 0xf000aacd, 0x571a4cf0, 0xd301a3d5, 0x945bcada, 0x7e42d578, 0x8747d589, 0xfcd7d3ce, 0xd4df3421},
     {0.144241124F, 0.937510192F}},
    {67280421310721,
     123456,
     5,
     {0x636f4cc7, 0xf9327086, 0x7775ea4c, 0x9ad1aeeb, 0x0bfb7fbc, 0x5428b754, 0xde10116d, 0xce95409b, 0x71c0ebaa},
     {0.388417065F, 0.973425925F}},
    {0xdeadbeefcafebabe,
     0x123456789ab,
     0x3fffffffff,
     {0xae41873a, 0x14b1c110, 0x42940735, 0xcea13309, 0xc3062e17, 0xcb2d52bb, 0xacd2ac49, 0x54292910, 0x9ae2b622},
     {0.680687368F, 0.0808373094F}},
    {1,
     0xffffffffffffffff,
     0x3fffffffc,
     {0x3e22bf4a, 0xaa784b20, 0x9d26935f, 0xc226786a, 0xaa079b42, 0x14c6c39b, 0xd897f44b, 0xb6966fd1, 0x44a05ebc},
     {0.242717698F, 0.665898025F}},
    {42,
     3,
     0xfffffffffffffff8,
     {0x06ebb203, 0x9e74f847, 0x436c803c, 0x962fc305, 0x279b459a, 0x1abfd929, 0x8f87998a, 0x25449a40, 0xee1f706d},
     {0.0270339251F, 0.618972301F}},
};

// What one thread draws, written by a kernel, so that it is the device's arithmetic that is compared.
struct DrawReference {
  REPRISE_KERNEL void operator()(Thread, std::uint64_t seed, std::uint64_t subsequence, std::uint64_t offset,
                                 unsigned* numbers, float* uniforms) const {
    Philox philox(seed, subsequence, offset);
    for (int i = 0; i < 9; ++i) numbers[i] = philox();
    Philox again(seed, subsequence, offset);
    for (int i = 0; i < 2; ++i) uniforms[i] = again.uniform();
  }
};

TEST(PhiloxNumbers, AreThoseOfCurandForAnySeedSubsequenceAndOffset) {
  Buffer<unsigned> numbers(9);
  Buffer<float> uniforms(2);
  for (const Reference& expected : references) {
    launch(LaunchConfig{}, DrawReference{}, expected.seed, expected.subsequence, expected.offset, numbers.data(),
           uniforms.data());
    const std::vector<unsigned> got = read(numbers);
    std::vector<float> fractions(2);
    uniforms.read_async(fractions);
    current_stream().synchronize();
    for (int i = 0; i < 9; ++i)
      EXPECT_EQ(got[static_cast<std::size_t>(i)], expected.numbers[i]) << expected.seed << ", " << i;
    for (int i = 0; i < 2; ++i)
      EXPECT_EQ(fractions[static_cast<std::size_t>(i)], expected.uniforms[i]) << expected.seed << ", " << i;
  }
}

TEST(PhiloxNumbers, AreThoseOfPyTorch) {
  // torch.cuda.manual_seed(42), torch.rand(6, device="cuda"), twice, and once more after set_offset(400), of PyTorch
  // 2.11 on an H200: thread i makes value i.
  constexpr float expected[3][6] = {{0.6129598617553711F, 0.010058844462037086F, 0.39841368794441223F,
                                     0.0403083972632885F, 0.15626674890518188F, 0.48247307538986206F},
                                    {0.9877186417579651F, 0.12889964878559113F, 0.5621041655540466F,
                                     0.5221080183982849F, 0.7444776296615601F, 0.5954768657684326F},
                                    {0.5107133388519287F, 0.5066584944725037F, 0.8013214468955994F,
                                     0.47384223341943833F, 0.9327694177627563F, 0.1879490613937378F}};
  Generator generator(current_device(), 42);
  for (int round = 0; round < 3; ++round) {
    if (round == 2) generator.set_offset(400);
    const PhiloxState state = generator.philox_state(4);
    for (unsigned i = 0; i < 6; ++i) EXPECT_EQ(Philox(state, i).uniform(), expected[round][i]) << round << ", " << i;
  }
  EXPECT_EQ(generator.offset(), 404U);
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

TEST(DefaultGenerator, IsOneForEachDevice) {
  EXPECT_EQ(default_generator(), default_generator(current_device()));
  manual_seed(99);
  EXPECT_EQ(default_generator().get_state(), (GeneratorState{99, 0}));
  manual_seed(Generator::default_seed);
}

TEST(GeneratorTest, IsUsableAfterAMove) {
  Generator moved(current_device(), 7);
  const Generator taken = std::move(moved);
  EXPECT_EQ(moved, taken) << "a handle";  // NOLINT(bugprone-use-after-move): that is the test
  EXPECT_EQ(moved.current_seed(), 7U);
  Generator other;
  other = std::move(moved);
  moved.set_offset(4);
  EXPECT_EQ(other.offset(), 4U);
}

}  // namespace
}  // namespace reprise::random::test
