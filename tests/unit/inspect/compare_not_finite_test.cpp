// SPDX-License-Identifier: Apache-2.0
#include <cstdint>
#include <limits>
#include <utility>
#include <vector>

#include "tests/unit/inspect/compare_fixture.h"

// compare() and values that are no numbers, or infinite.

namespace reprise::inspect::test {
namespace {

using ::testing::StartsWith;

class CompareNotFinite : public CompareTest {};

TEST_F(CompareNotFinite, FindsTheFirstValueThatIsNotFinite) {
  Buffer<float> z(4);
  z.write(std::vector<float>{1, 2, 3, 4});
  const auto body = [&] {
    Buffer<float> scratch(4);
    copy_async(scratch.data(), z.data(), 16);
    launch(4, Divide{}, scratch.data(), 2.0F, std::size_t{4});
    launch(2, Divide{}, scratch.data() + 2, 0.0F, std::size_t{2});
    launch(4, Divide{}, scratch.data(), 1.0F, std::size_t{4});
  };
  graph_ = capture(body);
  graph_.replay();  // leaves infinities
  EXPECT_FALSE(compare_now(body).not_finite);
  const Comparison found = compare_now(body, {.check_finite = FloatFormat::float32});
  EXPECT_FALSE(found.difference) << found.str();
  ASSERT_TRUE(found.not_finite);
  EXPECT_FALSE(found.same());
  EXPECT_FALSE(found.not_finite->in_new_capture);
  EXPECT_EQ(found.not_finite->node.index, 2U);
  EXPECT_EQ(found.not_finite->value, "0x7f800000 (infinity)");
  EXPECT_THAT(found.str(), StartsWith("First value that is not finite: kernel "));
  EXPECT_THAT(found.str(), HasSubstr("Divide (node 2): left 0x7f800000 (infinity) at 0x"));
}

TEST_F(CompareNotFinite, FindsValuesThatAreNotFiniteInTheNewCaptureAlone) {
  Buffer<float> z(4);
  z.write(std::vector<float>{0, 2, 3, 4});
  float by = 1;
  const auto body = [&] { launch(4, Divide{}, z.data(), by, std::size_t{4}); };
  graph_ = capture(body);
  by = 0;
  const Comparison found = compare_now(body, {.check_finite = FloatFormat::float32});
  ASSERT_TRUE(found.not_finite) << found.str();
  EXPECT_TRUE(found.not_finite->in_new_capture);
  EXPECT_THAT(found.not_finite->value, HasSubstr("NaN"));
  EXPECT_THAT(found.not_finite->str(), HasSubstr("(node 0) of the new capture: left 0x"));
}

TEST_F(CompareNotFinite, ValuesThatWereNotFiniteBeforeAreFoundOnlyWhereANodeIsKnownToWriteThem) {
  Buffer<float> bad(4), good(4);
  bad.write(std::vector<float>(4, std::numeric_limits<float>::quiet_NaN()));
  good.write(std::vector<float>(4, 1));
  const CompareOptions options{.check_finite = FloatFormat::float32};
  const auto beside = [&] {
    launch(4, Divide{}, good.data(), 2.0F, std::size_t{4});
    copy_async(good.data(), good.data() + 2, 8);
    launch(0, Divide{}, bad.data(), 2.0F, std::size_t{0});
  };
  graph_ = capture(beside);
  EXPECT_FALSE(compare_now(beside, options).not_finite);
  const auto copied = [&] { copy_async(good.data(), bad.data(), 16); };
  graph_ = capture(copied);
  EXPECT_TRUE(compare_now(copied, options).not_finite);
}

TEST_F(CompareNotFinite, ReadsTheFormatsOfFloatingPointNumbers) {
  const std::pair<FloatFormat, std::uint64_t> infinities[] = {{FloatFormat::float16, 0xFC00},
                                                              {FloatFormat::bfloat16, 0xFF80},
                                                              {FloatFormat::float32, 0xFF800000},
                                                              {FloatFormat::float64, 0xFFF0000000000000}};
  Buffer<std::uint64_t> source(1), target(1);
  for (const auto& [format, bits] : infinities) {
    const auto body = [&] { copy_async(target.data(), source.data(), 8); };
    graph_ = capture(body);
    source.write(std::vector<std::uint64_t>{bits});
    const Comparison found = compare_now(body, {.check_finite = format});
    ASSERT_TRUE(found.not_finite) << found.str();
    EXPECT_THAT(found.not_finite->value, HasSubstr("infinity"));
    source.write(std::vector<std::uint64_t>{bits + 1});
    EXPECT_THAT(compare_now(body, {.check_finite = format}).not_finite->value, HasSubstr("NaN"));
    source.write(std::vector<std::uint64_t>{bits - 1});  // the largest number
    EXPECT_FALSE(compare_now(body, {.check_finite = format}).not_finite);
  }
}

}  // namespace
}  // namespace reprise::inspect::test
