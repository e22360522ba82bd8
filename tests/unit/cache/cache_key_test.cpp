// SPDX-License-Identifier: Apache-2.0
#include <array>
#include <cmath>
#include <cstdint>
#include <limits>
#include <string>
#include <string_view>
#include <typeindex>
#include <utility>
#include <vector>

#include "tests/unit/cache/cache_fixture.h"

namespace reprise::caches::test {

std::type_index type_of_another_file();

namespace {

struct TypeOfOneFile {};  // that file has another one

enum class Colour : unsigned char { red = 1, green = 2 };

__extension__ using Integer128 = __int128;
static_assert(!std::is_constructible_v<CacheKey, Integer128>, "its upper half would not be compared");

TEST(CacheKeys, AreTheSameIfTheyHaveTheSameFieldsInTheSameOrder) {
  EXPECT_EQ(CacheKey(1, 2), CacheKey(1, 2));
  EXPECT_EQ(CacheKey(1, 2).hash(), CacheKey(1, 2).hash());
  EXPECT_FALSE(CacheKey(1, 2) == CacheKey(2, 1));
  EXPECT_FALSE(CacheKey(1, 2) == CacheKey(1));
  EXPECT_FALSE(CacheKey() == CacheKey(0));
  EXPECT_EQ(CacheKey(1).add("x").add(2.0f), CacheKey(1, "x", 2.0f));
  EXPECT_EQ(CacheKey(1, 2).size(), 2u);
}

TEST(CacheKeys, CompareIntegersByValueAndNothingElseWithThem) {
  EXPECT_EQ(CacheKey(1), CacheKey(std::size_t{1}));
  EXPECT_EQ(CacheKey(Colour::green), CacheKey(2));
  EXPECT_FALSE(CacheKey(Colour::red) == CacheKey(Colour::green));
  EXPECT_FALSE(CacheKey(-1) == CacheKey(UINT64_MAX));
  EXPECT_FALSE(CacheKey(1) == CacheKey(true));
  EXPECT_FALSE(CacheKey(1) == CacheKey(1.0f));
  EXPECT_FALSE(CacheKey(1.0) == CacheKey(1.0f));
  EXPECT_FALSE(CacheKey(1) == CacheKey("1"));
  EXPECT_FALSE(CacheKey('a') == CacheKey(97));
  EXPECT_FALSE(CacheKey('a') == CacheKey("a"));
  EXPECT_EQ(CacheKey(static_cast<signed char>(1), static_cast<unsigned char>(255)), CacheKey(1, 255));
}

TEST(CacheKeys, RefuseNullPointersAsTexts) {
  const char* const null = nullptr;
  EXPECT_THROW(CacheKey{null}, UsageError);
  CacheKey key(1);
  EXPECT_EQ(text_of<UsageError>([&] { key.add(null); }),
            "CacheKey expected a text; found a null pointer. Pass an empty text where there is none.");
  EXPECT_THROW(key.add(std::array{"relu", null}), UsageError);
  EXPECT_EQ(key, CacheKey(1)) << "as before";
  EXPECT_EQ(key.add("gelu"), CacheKey(1, "gelu"));
}

TEST(CacheKeys, CompareFloatingPointNumbersByTheirBits) {
  EXPECT_FALSE(CacheKey(0.0f) == CacheKey(-0.0f));
  const float nan = std::numeric_limits<float>::quiet_NaN();
  EXPECT_EQ(CacheKey(nan), CacheKey(nan));
}

TEST(CacheKeys, TakeTextsRangesAndTypes) {
  EXPECT_EQ(CacheKey(std::string("relu")), CacheKey("relu"));
  EXPECT_EQ(CacheKey(std::string_view("a text of more than eight bytes")), CacheKey("a text of more than eight bytes"));
  EXPECT_FALSE(CacheKey("a text of more than eight bytes") == CacheKey("a text of more than eight bytez"));
  EXPECT_FALSE(CacheKey("ab", "c") == CacheKey("a", "bc"));
  EXPECT_EQ(CacheKey(std::vector<int>{2, 3}), CacheKey(std::array<long, 2>{2, 3}));
  EXPECT_FALSE(CacheKey(std::vector<int>{2, 3}) == CacheKey(2, 3));
  EXPECT_FALSE(CacheKey(std::vector<int>{2}, std::vector<int>{3}) == CacheKey(std::vector<int>{2, 3}));
  EXPECT_EQ(CacheKey(std::type_index(typeid(float))), CacheKey(std::type_index(typeid(float))));
  EXPECT_FALSE(CacheKey(std::type_index(typeid(float))) == CacheKey(std::type_index(typeid(int))));
  EXPECT_EQ(CacheKey(std::vector<bool>{true, false}), CacheKey(std::array{true, false}));
}

// They differ where the compiler marks such types, as GCC does; nvcc gives them other names.
TEST(CacheKeys, OfTypesOfOneNameInTwoFilesAreComparedAsTheTypes) {
  const std::type_index here = typeid(TypeOfOneFile), there = type_of_another_file();
#if !defined(__CUDACC__)
  ASSERT_STREQ(here.name(), there.name());
#endif
  EXPECT_EQ(CacheKey(here) == CacheKey(there), here == there);
  EXPECT_EQ(CacheKey(std::vector{here, there}) == CacheKey(std::vector{here, here}), here == there);
  EXPECT_EQ(CacheKey(here), CacheKey(here));
#if defined(__GNUC__) && !defined(__clang__)
  EXPECT_FALSE(here == there) << "else nothing was tested";
#endif
}

TEST(CacheKeys, ThatWereMovedHaveNoFields) {
  CacheKey many;
  for (int i = 0; i < 100; ++i) many.add(i);
  CacheKey few(1, std::type_index(typeid(int)));
  const CacheKey copy = many;
  CacheKey moved = std::move(many);
  EXPECT_EQ(moved, copy);
  EXPECT_EQ(many, CacheKey());  // NOLINT(bugprone-use-after-move)
  EXPECT_EQ(many.str(), "()");
  moved = std::move(few);
  EXPECT_EQ(moved.str(), "(1, int)");
  EXPECT_EQ(few, CacheKey());  // NOLINT(bugprone-use-after-move)
  EXPECT_EQ(few.add("again").str(), "(again)");
}

TEST(CacheKeys, OfManyFieldsDifferInTheLastOne) {
  CacheKey a, b;
  for (int i = 0; i < 100; ++i) {
    a.add(i);
    b.add(i == 99 ? -1 : i);
  }
  EXPECT_FALSE(a == b);
  EXPECT_NE(a.hash(), b.hash());
  EXPECT_EQ(a, CacheKey(a));
}

TEST(CacheKeys, ArePrintedWithTheNamesOfTheirFields) {
  const CacheKey key(-3, std::vector<int>{2, 3}, "relu", true, 0.5f, std::type_index(typeid(float)), UINT64_MAX, 1.5);
  EXPECT_EQ(key.str(), "(-3, [2, 3], relu, true, 0.5f, float, 18446744073709551615, 1.5)");
  const std::vector<std::string> names{"batch", "", "activation"};
  EXPECT_EQ(CacheKey(1, 2, "gelu", 4).str(names), "(batch=1, 2, activation=gelu, 4)");
  EXPECT_EQ(CacheKey().str(), "()");
  EXPECT_EQ(CacheKey('a', '\n', '\xff', std::array{'N', 'T'}).str(), "(a, '\\x0a', '\\xff', [N, T])");
  EXPECT_EQ(key.field_texts()[1], "[2, 3]");
}

}  // namespace
}  // namespace reprise::caches::test
